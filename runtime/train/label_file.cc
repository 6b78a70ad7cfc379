#include "runtime/train/label_file.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/train/batch.h"

namespace reprise {
namespace {

constexpr size_t kChunkBytes = 4096;

// Reads the entries of `labels` in pieces and calls put(entry, byte offset, label) for each.
template <typename Entry, typename Put>
absl::Status ForEachEntry(const RandomAccessFile& file, int64_t first, absl::Span<int32_t> labels, const Put& put) {
  std::array<Entry, kChunkBytes / sizeof(Entry)> chunk;
  for (int64_t offset = first * static_cast<int64_t>(sizeof(Entry)); !labels.empty();) {
    const size_t count = std::min(labels.size(), chunk.size());
    RETURN_IF_ERROR(
        file.ReadAt(offset, absl::MakeSpan(reinterpret_cast<std::byte*>(chunk.data()), count * sizeof(Entry))));
    for (size_t i = 0; i < count; ++i, offset += sizeof(Entry)) RETURN_IF_ERROR(put(chunk[i], offset, &labels[i]));
    labels.remove_prefix(count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LabelFile> LabelFile::Open(Storage& storage, const std::string& path, int64_t tokens,
                                          int64_t vocabulary) {
  LabelFile result;
  ASSIGN_OR_RETURN(result.file_, storage.Open(path));
  result.vocabulary_ = vocabulary;
  const int64_t size = result.file_->size();
  result.mask_ = size == tokens;
  if (result.mask_ || (size % 4 == 0 && size / 4 == tokens)) return result;
  return absl::DataLossError(absl::StrCat(path, " holds ", size, " bytes where the labels of ", tokens,
                                          " tokens take one byte or four bytes each; make it from the same data"));
}

absl::Status LabelFile::Apply(int64_t first, absl::Span<int32_t> labels) const {
  REPRISE_CHECK(first >= 0) << path() << ": label " << first;
  return mask_ ? ApplyMask(first, labels) : ApplyNumbers(first, labels);
}

absl::Status LabelFile::ApplyMask(int64_t first, absl::Span<int32_t> labels) const {
  return ForEachEntry<uint8_t>(*file_, first, labels, [this](int value, int64_t offset, int32_t* label) {
    if (value > 1) {
      return absl::DataLossError(
          absl::StrCat(path(), " holds ", value, " at byte ", offset, " of a mask, which has 0 and 1; make it again"));
    }
    if (value == 0) *label = kIgnoredLabel;
    return absl::OkStatus();
  });
}

absl::Status LabelFile::ApplyNumbers(int64_t first, absl::Span<int32_t> labels) const {
  return ForEachEntry<int32_t>(*file_, first, labels, [this](int32_t value, int64_t offset, int32_t* label) {
    if (value != kIgnoredLabel && (value < 0 || value >= vocabulary_)) {
      return absl::DataLossError(absl::StrCat(path(), " holds label ", value, " at byte ", offset,
                                              ", but the vocabulary is ", vocabulary_, "; a label is a token, or ",
                                              kIgnoredLabel, " where none counts"));
    }
    *label = value;
    return absl::OkStatus();
  });
}

}  // namespace reprise

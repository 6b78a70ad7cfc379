#include "runtime/train/label_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/train/batch.h"

namespace reprise {
namespace {

constexpr size_t kChunkBytes = 4096;

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
  std::array<std::byte, kChunkBytes> chunk;
  for (int64_t offset = first; !labels.empty();) {
    const size_t count = std::min(labels.size(), kChunkBytes);
    RETURN_IF_ERROR(file_->ReadAt(offset, absl::MakeSpan(chunk.data(), count)));
    for (size_t i = 0; i < count; ++i) {
      const int value = std::to_integer<int>(chunk[i]);
      if (value > 1) {
        return absl::DataLossError(absl::StrCat(path(), " holds ", value, " at byte ", offset + static_cast<int64_t>(i),
                                                " of a mask, which has 0 and 1; make it again"));
      }
      if (value == 0) labels[i] = kIgnoredLabel;
    }
    labels.remove_prefix(count);
    offset += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status LabelFile::ApplyNumbers(int64_t first, absl::Span<int32_t> labels) const {
  std::array<std::byte, kChunkBytes> chunk;
  for (int64_t offset = first * 4; !labels.empty();) {
    const size_t count = std::min(labels.size(), kChunkBytes / 4);
    RETURN_IF_ERROR(file_->ReadAt(offset, absl::MakeSpan(chunk.data(), count * 4)));
    for (size_t i = 0; i < count; ++i) {
      int32_t label = 0;
      std::memcpy(&label, chunk.data() + i * 4, 4);
      if (label != kIgnoredLabel && (label < 0 || label >= vocabulary_)) {
        return absl::DataLossError(absl::StrCat(
            path(), " holds label ", label, " at byte ", offset + static_cast<int64_t>(i) * 4,
            ", but the vocabulary is ", vocabulary_, "; a label is a token, or ", kIgnoredLabel, " where none counts"));
      }
      labels[i] = label;
    }
    labels.remove_prefix(count);
    offset += static_cast<int64_t>(count) * 4;
  }
  return absl::OkStatus();
}

}  // namespace reprise

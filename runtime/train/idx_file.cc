#include "runtime/train/idx_file.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/train/gzip_reader.h"

namespace reprise {
namespace {

constexpr int64_t kByteElements = 0x08;  // the only type of elements that image data comes in

int64_t BigEndian32(const std::byte* bytes) {
  int64_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<int64_t>(bytes[i]);
  return value;
}

}  // namespace

absl::StatusOr<IdxFile> IdxFile::Open(Storage& storage, const std::string& path, int dimensions) {
  IdxFile result;
  ASSIGN_OR_RETURN(result.file_, storage.Open(path));
  ASSIGN_OR_RETURN(result.gzip_, IsGzip(*result.file_));
  RETURN_IF_ERROR(result.gzip_ ? result.Inflate(dimensions) : result.CheckPlain(dimensions));
  return result;
}

absl::Status IdxFile::ParseHeader(absl::Span<const std::byte> header, int dimensions) {
  const int64_t magic = BigEndian32(header.data());
  if (magic != (kByteElements << 8 | dimensions)) {
    return absl::DataLossError(absl::StrCat(path(), " begins with 0x", absl::Hex(magic, absl::kZeroPad8),
                                            " at byte 0, where idx data of ", dimensions, " dimensions has 0x",
                                            absl::Hex(kByteElements << 8 | dimensions, absl::kZeroPad8),
                                            "; give images and their labels in MNIST's format"));
  }
  elements_ = 1;
  for (int d = 0; d < dimensions; ++d) {
    const int64_t size = BigEndian32(header.data() + 4 + 4 * d);
    shape_.push_back(size);
    if (size == 0 || __builtin_mul_overflow(elements_, size, &elements_)) {
      return absl::DataLossError(absl::StrCat(path(), " says at byte ", 4 + 4 * d, " that a dimension has ", size,
                                              " elements, which can't be; make it again"));
    }
  }
  return absl::OkStatus();
}

absl::Status IdxFile::CheckPlain(int dimensions) {
  std::vector<std::byte> header(static_cast<size_t>(4 + 4 * dimensions));
  const auto bytes = static_cast<int64_t>(header.size());
  if (file_->size() < bytes) {
    return absl::DataLossError(absl::StrCat(path(), " ends at byte ", file_->size(), ", within its header of ", bytes,
                                            " bytes; copy or make it again"));
  }
  RETURN_IF_ERROR(file_->ReadAt(0, absl::MakeSpan(header)));
  RETURN_IF_ERROR(ParseHeader(header, dimensions));
  if (file_->size() - bytes == elements_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path(), " ends at byte ", file_->size(), ", but its header says ", elements_,
                                          " elements behind its ", bytes, " bytes; copy or make it again"));
}

absl::Status IdxFile::Inflate(int dimensions) {
  std::vector<std::byte> header(static_cast<size_t>(4 + 4 * dimensions));
  ASSIGN_OR_RETURN(GzipReader gzip, GzipReader::Open(*file_));
  RETURN_IF_ERROR(gzip.Read(absl::MakeSpan(header)));
  RETURN_IF_ERROR(ParseHeader(header, dimensions));
  if (elements_ > gzip.MostBytes()) {
    return absl::DataLossError(absl::StrCat(path(), " says at byte 4 that it holds ", elements_,
                                            " elements, more than its ", file_->size(),
                                            " compressed bytes can make; copy or make it again"));
  }
  inflated_.resize(static_cast<size_t>(elements_));
  RETURN_IF_ERROR(gzip.Read(absl::MakeSpan(inflated_)));
  return gzip.CheckEnd();
}

absl::Status IdxFile::Read(int64_t first, absl::Span<std::byte> out) const {
  const auto count = static_cast<int64_t>(out.size());
  REPRISE_CHECK(first >= 0 && first <= elements_ && count <= elements_ - first)
      << path() << ": elements " << first << " + " << count << " of " << elements_;
  if (!gzip_) return file_->ReadAt(header_bytes() + first, out);
  std::memcpy(out.data(), inflated_.data() + first, out.size());
  return absl::OkStatus();
}

}  // namespace reprise

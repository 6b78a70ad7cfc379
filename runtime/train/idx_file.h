// One file of bytes in the idx format of MNIST, plain or gzip: a magic (0, 0, 8 for bytes, count of dimensions), then
// each size as a big-endian 32-bit number, then the elements, the last dimension fastest.
//
//   ASSIGN_OR_RETURN(IdxFile images, IdxFile::Open(storage, "train-images-idx3-ubyte.gz", /*dimensions=*/3));
//   images.shape();                                       // {60000, 28, 28}
//   RETURN_IF_ERROR(images.Read(7 * 28 * 28, pixels));    // image 7
//
// A plain file is read where it lies; a gzip file is inflated into memory when it is opened, after its sizes have been
// held against what so few compressed bytes can make. Errors are DataLoss with path, byte offset and mend. Reading is
// safe from several threads.
#ifndef REPRISE_RUNTIME_TRAIN_IDX_FILE_H_
#define REPRISE_RUNTIME_TRAIN_IDX_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

class IdxFile {
 public:
  static absl::StatusOr<IdxFile> Open(Storage& storage, const std::string& path, int dimensions);

  const std::string& path() const { return file_->path(); }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t elements() const { return elements_; }
  // Where the first element stands, in the file or in what it inflates to.
  int64_t header_bytes() const { return 4 + 4 * static_cast<int64_t>(shape_.size()); }

  absl::Status Read(int64_t first, absl::Span<std::byte> out) const;

 private:
  IdxFile() = default;
  absl::Status ParseHeader(absl::Span<const std::byte> header, int dimensions);
  absl::Status Inflate(int dimensions);
  absl::Status CheckPlain(int dimensions);

  std::unique_ptr<RandomAccessFile> file_;
  bool gzip_ = false;
  std::vector<std::byte> inflated_;  // elements of a gzip file
  std::vector<int64_t> shape_;
  int64_t elements_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_IDX_FILE_H_

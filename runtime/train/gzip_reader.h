// GzipReader: the bytes behind a gzip file, from first to last.
//
//   ASSIGN_OR_RETURN(GzipReader gzip, GzipReader::Open(std::move(file)));
//   RETURN_IF_ERROR(gzip.Read(header));          // exactly so many bytes, or an error
//   RETURN_IF_ERROR(gzip.CheckEnd());            // nothing stands behind what was read
//
// It never inflates more than it is asked for, so that a small file cannot fill the memory: ask for what the content's
// own header promises, and first whether the file can hold so much at all (MostBytes). A file that is cut, damaged or
// too long is a DataLoss error with path and byte offset. For one thread.
#ifndef REPRISE_RUNTIME_TRAIN_GZIP_READER_H_
#define REPRISE_RUNTIME_TRAIN_GZIP_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

// Whether the file begins as gzip does.
absl::StatusOr<bool> IsGzip(const RandomAccessFile& file);

class GzipReader {
 public:
  // `file` outlives the reader.
  static absl::StatusOr<GzipReader> Open(const RandomAccessFile& file);
  ~GzipReader();
  GzipReader(GzipReader&&) noexcept;
  GzipReader& operator=(GzipReader&&) noexcept;

  // Deflate makes at most 1032 bytes of one.
  int64_t MostBytes() const;

  absl::Status Read(absl::Span<std::byte> out);
  absl::Status CheckEnd();

 private:
  struct Stream;
  explicit GzipReader(std::unique_ptr<Stream> stream);

  std::unique_ptr<Stream> stream_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_GZIP_READER_H_

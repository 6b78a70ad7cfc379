// A file that says which tokens of a token file are labels, and as what (--labels).
//
//   ASSIGN_OR_RETURN(LabelFile labels, LabelFile::Open(storage, "train.mask", file.tokens(), vocabulary));
//   RETURN_IF_ERROR(labels.Apply(first, absl::MakeSpan(next_tokens)));   // tokens -> labels
//
// It has an entry for each token, as large as its size says: one byte (0: the token does not count as a label, 1: it
// does) or a little-endian int32 (the label in its place, -100: none). An entry belongs to the token that is predicted,
// as `labels` beside `input_ids` does in Transformers. Errors are DataLoss with file, byte offset and mend. Reading is
// safe from several threads and takes no memory.
#ifndef REPRISE_RUNTIME_TRAIN_LABEL_FILE_H_
#define REPRISE_RUNTIME_TRAIN_LABEL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

class LabelFile {
 public:
  // `tokens`: of the token file. Checks the size, not yet the entries.
  static absl::StatusOr<LabelFile> Open(Storage& storage, const std::string& path, int64_t tokens, int64_t vocabulary);

  // `labels` holds the tokens [first, first + size); entries take their place.
  absl::Status Apply(int64_t first, absl::Span<int32_t> labels) const;

  const std::string& path() const { return file_->path(); }

 private:
  LabelFile() = default;
  absl::Status ApplyMask(int64_t first, absl::Span<int32_t> labels) const;
  absl::Status ApplyNumbers(int64_t first, absl::Span<int32_t> labels) const;

  std::unique_ptr<RandomAccessFile> file_;
  int64_t vocabulary_ = 0;
  bool mask_ = false;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_LABEL_FILE_H_

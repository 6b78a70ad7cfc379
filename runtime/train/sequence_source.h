// SequenceSource: a data set as numbered sequences, whatever they are of: windows of tokens (dataset.h) or images
// (image_dataset.h). What batches are filled from (batches.h).
#ifndef REPRISE_RUNTIME_TRAIN_SEQUENCE_SOURCE_H_
#define REPRISE_RUNTIME_TRAIN_SEQUENCE_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/train/batch.h"

namespace reprise {

class SequenceSource {
 public:
  virtual ~SequenceSource() = default;

  virtual const std::string& path() const = 0;
  virtual int64_t sequences() const = 0;

  // "16 tokens, which is 3 windows of 4": what stands behind "PATH holds".
  virtual std::string Contents() const = 0;
  // What a person can choose where the sequences are too few: "a smaller --micro_batch or --sequence_length".
  virtual std::string Mend() const = 0;

  // "12345 tokens, check 0123456789abcdef": equal for equal data, so that ranks on several hosts can compare theirs.
  virtual absl::StatusOr<std::string> Identity() const = 0;

  // Fills one row of every kind of data that the model reads; returns how many of its labels count. Safe from several
  // threads.
  virtual absl::StatusOr<int64_t> ReadSequence(int64_t sequence, const BatchData& row) const = 0;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_SEQUENCE_SOURCE_H_

// Windows of tokens, from a file or from all the files of a folder, with labels that may be said apart (label_file.h)
// and with the documents in them marked (documents.h).
//
//   DatasetOptions options = {.path = "corpus/", .vocabulary = 50257, .sequence_length = 1024};
//   ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, Dataset::Open(storage, options));
//   RETURN_IF_ERROR(data->ReadWindow(7, absl::MakeSpan(tokens), absl::MakeSpan(labels)));
//
// A window is T tokens and, as labels, the token that follows each. A file of n tokens gives (n - 1) / T windows,
// rounded down: window k reads tokens [kT, kT + T], so every token but the first is a label once. Windows never cross
// files. They are numbered in the order of the files' names, then of their place. Reading is safe from several threads
// and takes no memory.
#ifndef REPRISE_RUNTIME_TRAIN_DATASET_H_
#define REPRISE_RUNTIME_TRAIN_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/label_file.h"
#include "runtime/train/sequence_source.h"
#include "runtime/train/token_file.h"

namespace reprise {

struct DatasetOptions {
  std::string path =
      "";  // a file, or a folder: its regular files whose names don't begin with a dot, all of one format
  TokenFormat format = TokenFormat::kAuto;
  int64_t vocabulary = 0;
  int64_t sequence_length = 0;
  std::string labels = "";          // a file for a file; for a folder one with a file of each name; empty: all tokens
  int64_t document_separator = -1;  // -1: documents are not marked

  // Read everything once when opening, so that a bad id shows at once and not after hours. Ranks can share the work:
  // this one reads part `verify_part` of `verify_parts`.
  bool verify = true;
  int64_t verify_part = 0;
  int64_t verify_parts = 1;
  std::function<void(int64_t tokens_done, int64_t tokens)> progress =
      nullptr;  // now and then while that goes on; may be empty
};

class Dataset : public SequenceSource {
 public:
  // DataLoss for a file that is missing, empty or wrong, and for a folder without files or with more than one format.
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(Storage& storage, const DatasetOptions& options);

  const std::string& path() const override { return path_; }
  TokenFormat format() const { return files_.front().format(); }
  int64_t sequence_length() const { return sequence_length_; }
  int64_t tokens() const { return tokens_; }    // of all files
  int64_t windows() const { return windows_; }  // of all files; 0 if no file is long enough

  int64_t sequences() const override { return windows_; }
  std::string Contents() const override;
  std::string Mend() const override { return "a smaller --micro_batch or --sequence_length"; }
  // From the format, the sizes of the files, and the first and last tokens of each.
  absl::StatusOr<std::string> Identity() const override;
  absl::StatusOr<int64_t> ReadSequence(int64_t sequence, const BatchData& row) const override;

  // Both spans hold sequence_length() elements.
  absl::Status ReadWindow(int64_t window, absl::Span<int32_t> tokens, absl::Span<int32_t> labels) const;

 private:
  Dataset() = default;
  absl::Status OpenLabels(Storage& storage, const DatasetOptions& options);
  absl::Status Verify(const DatasetOptions& options) const;

  std::string path_;
  std::vector<TokenFile> files_;
  std::vector<LabelFile> label_files_;  // of each file, or none
  int64_t document_separator_ = -1;
  std::vector<int64_t> window_ends_;  // of each file, in the numbering of all
  int64_t sequence_length_ = 0;
  int64_t tokens_ = 0;
  int64_t windows_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_DATASET_H_

// Writes a Hugging Face checkpoint: model.safetensors, or parts and their index, and config.json last.
//
//   RETURN_IF_ERROR(HuggingFaceWriter::CheckFolder(storage, folder));        // before training
//   ASSIGN_OR_RETURN(auto writer, HuggingFaceWriter::Create(storage, folder, tensors, {.type = StoredType::kBF16}));
//   for (const ExpectedTensor& tensor : writer->tensors()) {
//     RETURN_IF_ERROR(writer->Write(tensor.name, piece));                     // as many pieces as it takes
//   }
//   RETURN_IF_ERROR(writer->Finish(config_json));
//
// Takes no memory beyond one piece. A folder whose config.json is missing is not whole. For one thread.
#ifndef REPRISE_RUNTIME_SNAPSHOT_HUGGINGFACE_WRITER_H_
#define REPRISE_RUNTIME_SNAPSHOT_HUGGINGFACE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/snapshot/huggingface.h"
#include "runtime/snapshot/safetensors.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

struct HuggingFaceLayout {
  StoredType type = StoredType::kF32;     // kF32 or kBF16
  int64_t part_bytes = int64_t{5} << 30;  // of the tensors in one file, unless one alone is larger
  bool adapter = false;                   // PEFT's: adapter_model.safetensors, never in parts, and adapter_config.json
};

class HuggingFaceWriter {
 public:
  // Makes the folder. InvalidArgument where it can't be written, or holds a checkpoint already: that is never replaced.
  static absl::Status CheckFolder(Storage& storage, const std::string& folder, bool adapter = false);

  static absl::StatusOr<std::unique_ptr<HuggingFaceWriter>> Create(Storage& storage, const std::string& folder,
                                                                   std::vector<ExpectedTensor> tensors,
                                                                   const HuggingFaceLayout& layout);

  // In the order in which they are to be written: by name.
  const std::vector<ExpectedTensor>& tensors() const { return tensors_; }

  // The next elements of tensor `name`, whose turn it must be.
  absl::Status Write(const std::string& name, absl::Span<const float> values);

  // Every tensor must have been written whole. `config_json` as Transformers wants it, its type is set to what was
  // written; or as PEFT does.
  absl::Status Finish(absl::string_view config_json);

 private:
  struct Part {
    std::string file;
    size_t begin = 0, end = 0;  // of tensors_
    int64_t bytes = 0;
  };

  HuggingFaceWriter(Storage& storage, std::string folder, const HuggingFaceLayout& layout)
      : storage_(storage), folder_(std::move(folder)), layout_(layout) {}
  void SplitIntoParts();
  absl::Status OpenPart();
  absl::Status FinishPart();
  absl::Status WriteIndex();

  Storage& storage_;
  const std::string folder_;
  const HuggingFaceLayout layout_;
  std::vector<ExpectedTensor> tensors_;
  std::vector<Part> parts_;
  std::unique_ptr<SafetensorsWriter> writer_;  // of parts_[part_], once its first tensor has come
  size_t part_ = 0;
  size_t tensor_ = 0;     // that is being written
  int64_t elements_ = 0;  // of it, so far
};

// The text of a config.json with its element type set: "dtype" where it has that, else "torch_dtype".
absl::StatusOr<std::string> WithElementType(absl::string_view config_json, StoredType type);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_HUGGINGFACE_WRITER_H_

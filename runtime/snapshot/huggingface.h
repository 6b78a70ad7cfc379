// A Hugging Face checkpoint: a folder with model.safetensors, or with model.safetensors.index.json and its parts.
//
//   ASSIGN_OR_RETURN(auto checkpoint, HuggingFaceCheckpoint::Open(storage, folder, {.prefix = "transformer."}));
//   RETURN_IF_ERROR(checkpoint->Check(parameters));            // all there, each of the right shape
//   RETURN_IF_ERROR(checkpoint->ReadRange("transformer.wte.weight", {50257, 768}, first, absl::MakeSpan(shard)));
//
// A name is found as it is, with the prefix, or without it: folders saved from the bare model leave the prefix out.
// Errors are DataLoss and name file, tensor and both shapes. Reading is safe from several threads, each its own range,
// and takes no memory.
#ifndef REPRISE_RUNTIME_SNAPSHOT_HUGGINGFACE_H_
#define REPRISE_RUNTIME_SNAPSHOT_HUGGINGFACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/model/checkpoint_options.h"
#include "runtime/snapshot/safetensors.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

// What a model wants to read.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

class HuggingFaceCheckpoint {
 public:
  static absl::StatusOr<std::unique_ptr<HuggingFaceCheckpoint>> Open(Storage& storage, const std::string& folder,
                                                                     CheckpointOptions options = {});
  // PEFT's adapter_model.safetensors: its tensors without "base_model.model.".
  static absl::StatusOr<std::unique_ptr<HuggingFaceCheckpoint>> OpenAdapter(Storage& storage,
                                                                            const std::string& folder);

  const std::string& folder() const { return folder_; }

  // nullptr: not there under any of its names.
  const StoredTensor* Find(const std::string& name) const;

  // Every tensor is there, in floats and with its shape; otherwise one error that names the first few that aren't and
  // counts the rest.
  absl::Status Check(absl::Span<const ExpectedTensor> expected) const;

  // Where a tied weight stands under both its names, they hold the same bits. Reads both whole: ranks share the work,
  // this one looks at part `part` of `parts`.
  absl::Status CheckTied(int64_t part, int64_t parts) const;

  // Names of those of `expected` that are stored in F64 and lose digits when they are read, sorted.
  std::vector<std::string> Rounded(absl::Span<const ExpectedTensor> expected) const;

  // Names of the tensors in the checkpoint that are none of `expected`, sorted; what Transformers keeps or kept beside
  // the weights (masks of GPT-2: h.N.attn.bias, h.N.attn.masked_bias; frequencies of Llama: rotary_emb.inv_freq), the
  // other names of tied weights and options.unused are not among them.
  std::vector<std::string> Leftover(absl::Span<const ExpectedTensor> expected) const;

  // Equal for equal checkpoints, and most likely different for others: a checksum of the beginning of every tensor.
  // Call after Check.
  absl::StatusOr<std::string> Identity(absl::Span<const ExpectedTensor> expected) const;

  // Elements [first_element, first_element + out.size()) of a tensor, in float32.
  absl::Status ReadRange(const std::string& name, absl::Span<const int64_t> expected_shape, int64_t first_element,
                         absl::Span<float> out) const;

 private:
  struct Place {
    const SafetensorsFile* file = nullptr;
    const StoredTensor* tensor = nullptr;
  };

  HuggingFaceCheckpoint(std::string folder, CheckpointOptions options)
      : folder_(std::move(folder)), options_(std::move(options)) {}
  absl::Status OpenPart(Storage& storage, const std::string& name);
  absl::Status OpenSingle(Storage& storage, const std::string& name);
  absl::Status OpenIndex(Storage& storage, const std::string& path);
  const Place* Locate(const std::string& name) const;
  const Place* LocateUntied(const std::string& name) const;
  absl::Status CheckSame(const Place& other, const Place& kept, int64_t part, int64_t parts) const;

  const std::string folder_;
  const CheckpointOptions options_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> parts_;  // by file name
  std::map<std::string, Place> places_;                            // by the tensor's name in the file
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_HUGGINGFACE_H_

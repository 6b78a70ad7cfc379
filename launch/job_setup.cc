#include "launch/job_setup.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launch/freeze.h"
#include "runtime/model/low_rank.h"
#include "runtime/model/program.h"
#include "runtime/snapshot/read_model_config.h"

namespace reprise {
namespace {

constexpr int64_t kDefaultSequence = 1024;
constexpr int64_t kMostRows = int64_t{1} << 31;  // of a micro-batch

absl::StatusOr<ModelConfig> ReadConfig(Storage& storage, const TrainConfiguration& c) {
  if (!c.model_config.empty() || c.init.empty()) return ParseModelConfigFlag(storage, c.model_config);
  return ReadModelConfig(storage, JoinPath(c.init, "config.json"));
}

// A model of images has rows enough for one image, however many that are.
absl::StatusOr<int64_t> OnlyLength(const TrainConfiguration& c, const Model& model) {
  if (c.sequence_length != 0 && c.sequence_length != model.sequence_length) {
    return absl::InvalidArgumentError(absl::StrCat("--sequence_length=", c.sequence_length, " can't be: ", model.name,
                                                   " has ", model.sequence_length,
                                                   " rows for each sequence; leave it out"));
  }
  if (c.micro_batch.sequences > kMostRows / model.sequence_length) {
    return absl::InvalidArgumentError(absl::StrCat("--micro_batch=", c.micro_batch.sequences, " times ",
                                                   model.sequence_length, " rows is above ", kMostRows,
                                                   "; choose fewer or smaller images"));
  }
  return model.sequence_length;
}

// The position table of --init is for one size of images, and is not interpolated.
absl::Status CheckImageSize(const TrainConfiguration& c, ModelConfig config) {
  if (c.image_size == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ModelSource plain, BuildModel(c.model, config, {}));
  if (!plain.model.images.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image_size is for models that read images, and ", plain.model.name, " does not; leave it out"));
  }
  if (c.init.empty() || plain.model.images->size == c.image_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--image_size=", c.image_size, " does not fit the position table of ",
                                                 c.init, ", which is for image_size=", plain.model.images->size,
                                                 "; leave it out, or start without --init"));
}

// What its configuration calls the longest sequence.
const char* LengthKey(const Model& model) {
  return model.name == "gpt2"                             ? "n_positions"
         : model.name == "llama" || model.name == "qwen2" ? "max_position_embeddings"
                                                          : "maximum length";
}

absl::StatusOr<int64_t> SequenceLength(const TrainConfiguration& c, const Model& model) {
  if (model.sequence_length > 0) return OnlyLength(c, model);
  if (c.sequence_length == 0) {
    return model.maximum_sequence > 0 ? std::min(model.maximum_sequence, kDefaultSequence) : kDefaultSequence;
  }
  if (model.maximum_sequence > 0 && c.sequence_length > model.maximum_sequence) {
    return absl::InvalidArgumentError(absl::StrCat("sequence_length=", c.sequence_length, " is beyond the model's ",
                                                   LengthKey(model), "=", model.maximum_sequence,
                                                   "; shorten it or raise ", LengthKey(model)));
  }
  return c.sequence_length;
}

absl::Status CheckDocuments(const TrainConfiguration& c, const Model& model) {
  if (c.document_separator < 0) return absl::OkStatus();
  if (model.images.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("document_separator=", c.document_separator, " is of tokens, and ",
                                                   model.name, " reads images; leave it out"));
  }
  if (c.document_separator >= model.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("document_separator=", c.document_separator,
                                                   " is beyond the vocabulary of ", model.vocabulary,
                                                   " tokens; give the token that ends a document"));
  }
  const Program program = TraceModel(model, {.sequences = 1, .sequence_length = 1, .training = false});
  if (program.data_bytes[static_cast<size_t>(DataKind::kDocumentStarts)] > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("document_separator=", c.document_separator, ": the model ",
                                                 model.name, " does not keep documents apart; leave it out"));
}

// Where the flags ask for them.
absl::Status AddAdapters(Storage& storage, const TrainConfiguration& c, JobSetup* setup) {
  if (c.lora_rank == 0 && c.adapter.empty()) return absl::OkStatus();
  AdapterConfig config;
  if (!c.adapter.empty()) {
    ASSIGN_OR_RETURN(config, ReadAdapterConfig(storage, c.adapter));
  } else {
    config.options = {.rank = c.lora_rank,
                      .alpha = c.lora_alpha > 0 ? c.lora_alpha : static_cast<double>(c.lora_rank),
                      .targets = c.lora_targets.empty() ? setup->source.adapter_targets : c.lora_targets};
  }
  Model& model = setup->source.model;
  if (const absl::Status added = AddLowRankAdapters(config.options, &model); !added.ok()) {
    if (c.adapter.empty()) return added;
    return absl::DataLossError(absl::StrCat(c.adapter, " holds adapters of another model: ", added.message()));
  }
  if (!c.init.empty()) config.base_model = c.init;
  if (model.vocabulary > 0) config.task = "CAUSAL_LM";
  for (const auto& [weight, adapter] : model.adapters) {
    config.weights_in_out |= adapter->layout() == WeightLayout::kInOut;
  }
  setup->adapter = std::move(config);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobSetup> MakeJobSetup(Storage& storage, const TrainConfiguration& c) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadConfig(storage, c));
  JobSetup setup;
  RETURN_IF_ERROR(CheckImageSize(c, config));
  ASSIGN_OR_RETURN(
      setup.source,
      BuildModel(c.model, config,
                 {.dropout = c.dropout, .image_size = c.image_size, .documents = c.document_separator >= 0}));
  RETURN_IF_ERROR(CheckDocuments(c, setup.source.model));
  RETURN_IF_ERROR(AddAdapters(storage, c, &setup));
  RETURN_IF_ERROR(Freeze(c.freeze, &setup.source.model));
  JobOptions& o = setup.options;
  o.micro_batch = c.micro_batch.sequences;
  ASSIGN_OR_RETURN(o.sequence_length, SequenceLength(c, setup.source.model));
  o.accumulation = static_cast<int>(c.accumulation);
  o.dtype = c.precision == "bf16" ? DType::kBFloat16 : DType::kFloat32;
  ASSIGN_OR_RETURN(o.sharding, ParseSharding(c.sharding));
  o.checkpoint = c.checkpoint;
  o.offload_activations = c.offload_activations;
  o.prefetch = static_cast<int>(c.prefetch);
  o.memory_budget_bytes = c.memory_budget.bytes;
  o.host_budget_bytes = c.host_budget.bytes > 0 ? c.host_budget.bytes : -1;
  o.optimizer.kind = c.optimizer == "sgd" ? OptimizerKind::kSgd : OptimizerKind::kAdamW;
  o.optimizer.beta1 = c.beta1;
  o.optimizer.beta2 = c.beta2;
  o.optimizer.epsilon = c.epsilon;
  o.optimizer.weight_decay = c.weight_decay;
  o.optimizer.clip_norm = c.clip_norm;
  o.evaluates = !c.validation_data.empty();
  return setup;
}

std::string DescribeJob(const JobSetup& setup) {
  const JobOptions& o = setup.options;
  const BatchShape shape{o.micro_batch, o.sequence_length, o.dtype, /*training=*/true};
  const std::string program = TraceModel(setup.source.model, shape).ToString();
  return absl::StrCat(setup.source.model.name, " of ", setup.source.model.layer_count(), " layers, ", o.micro_batch,
                      " sequences of ", o.sequence_length, " tokens, accumulation ", o.accumulation, ", ",
                      o.dtype == DType::kBFloat16 ? "bf16" : "fp32", ", sharding=", ShardingName(o.sharding), ", ",
                      o.optimizer.kind == OptimizerKind::kSgd ? "sgd" : "adamw", ", program ",
                      absl::Hex(XXH3_64bits(program.data(), program.size()), absl::kZeroPad16));
}

}  // namespace reprise

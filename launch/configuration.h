// What a run is asked to do: every flag of `reprise train` and `reprise plan` as plain, validated data.
//
//   ASSIGN_OR_RETURN(TrainConfiguration configuration, Resolve(Subcommand::kTrain, arguments));
//   std::cout << ToToml(configuration);   // a file that --config takes: the same run again
//
// Values come from the command line, else from the TOML file of --config, else from the defaults that stand here.
// Plain data: copy it, compare it, pass it to any thread.
#ifndef REPRISE_LAUNCH_CONFIGURATION_H_
#define REPRISE_LAUNCH_CONFIGURATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace reprise {

enum class Subcommand : uint8_t { kTrain, kPlan, kReport };

// A flag that is written as "1.5GiB" and kept as bytes.
// Sequences per rank and micro-batch: a number, or as many as the memory budget and the data hold.
struct MicroBatch {
  int64_t sequences = 4;   // 0 where `automatic`
  bool automatic = false;  // --micro_batch=auto, until the job is planned
  bool operator==(const MicroBatch&) const = default;
};

struct ByteCount {
  int64_t bytes = 0;
  bool operator==(const ByteCount&) const = default;
};

// Members have the names of their flags. Strings that are one of a few words were checked against them.
struct TrainConfiguration {
  // Model.
  std::string model = "gpt2";
  std::vector<std::string> plugin;  // shared libraries with models and operations, loaded in this order
  std::string model_config;         // a config.json, or key=value,...
  std::string init;                 // a Hugging Face folder; empty: random from `seed`
  int64_t seed = 1;
  std::string freeze;  // regular expression of parameter names
  int64_t lora_rank = 0;
  double lora_alpha = 0;  // 0: as lora_rank
  std::vector<std::string> lora_targets;
  std::string adapter;  // a folder in PEFT's layout
  double dropout = 0;   // [0, 1)

  // Data.
  std::string data;
  std::string validation_data;
  std::string data_format = "auto";  // auto, text, u16, llmc, idx
  std::string labels;                // which tokens of --data count as labels, and as what
  std::string validation_labels;     // likewise
  int64_t document_separator = -1;   // token that ends a document; -1: a window is one
  int64_t validation_every = 0;      // steps; 0: at the end only
  int64_t validation_windows = 0;    // windows of each validation; 0: all

  // Batch and length of the run.
  MicroBatch micro_batch;
  int64_t sequence_length = 0;  // tokens; 0: the model's n_positions, but at most 1024
  int64_t image_size = 0;       // pixels of a side; 0: the model's
  int64_t accumulation = 1;     // micro-batches per step
  int64_t steps = 0;            // exactly one of steps and epochs is set for `train`
  int64_t epochs = 0;

  // Optimizer.
  std::string optimizer = "adamw";  // adamw, sgd
  double learning_rate = 6e-4;
  int64_t warmup_steps = 0;
  std::string decay = "cosine";  // cosine, linear, constant
  double min_learning_rate = 0;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip_norm = 1;  // 0: off

  // Precision, sharding and memory.
  std::string precision = "fp32";    // fp32, bf16
  std::string sharding = "full";     // full, gradients, optimizer, none
  int64_t replicas = 1;              // hybrid sharding
  std::string checkpoint = "none";   // none, all, every:K, sqrt, selective, auto
  ByteCount memory_budget;           // per rank; 0: no cap
  ByteCount host_budget;             // per rank; 0: no cap
  int64_t prefetch = 1;              // units gathered ahead
  std::vector<std::string> offload;  // of activations, parameters, optimizer; sorted, each once
  std::string offload_file;

  // Machine.
  std::string device = "auto";         // auto, cpu, cuda
  int64_t threads = 0;                 // compute threads per rank; 0: cores of the machine / ranks on it
  std::string stream_order = "async";  // async, random:SEED
  std::string cuda_graphs = "off";     // off, on
  double deadline = 300;               // seconds that any wait may last
  std::string profile_cache = "auto";  // folder of measured times; auto: in the user's cache folder; none: no cache

  // Snapshots and outputs.
  std::string snapshot_dir;
  int64_t snapshot_every = 0;
  std::string resume = "none";            // none, auto, a path
  std::string export_folder;              // --export
  std::string export_dtype = "fp32";      // fp32, bf16
  ByteCount export_part_size{5LL << 30};  // of one file of it
  std::string dump_gradients;
  std::string metrics;
  std::string trace;
  std::string report;

  // Derived from the words above by Resolve; no flags of their own.
  int64_t checkpoint_every = 0;  // K of every:K, else 0
  bool random_stream_order = false;
  int64_t stream_order_seed = 0;  // SEED of random:SEED
  bool offload_activations = false;
  bool offload_parameters = false;
  bool offload_optimizer = false;

  bool operator==(const TrainConfiguration&) const = default;
};

// What `plan` is asked beyond the settings of a run.
struct PlanRequest {
  int64_t world_size = 0;    // ranks; 0: those of the launcher
  std::string hardware;      // a machine that is not here; empty: this one is measured
  std::string profile;       // a saved profile in place of a model
  std::string save_profile;  // where to save the profile
  std::string maximize;      // micro_batch, sequence_length, image_size, n_layer; empty: nothing
  bool json = false;
};

// Reads `arguments` (what stands behind the subcommand) and the file of --config, and checks every value and what must
// go together. InvalidArgument, in one sentence that names the flag (or file, line and key) and the mend, for: an
// unknown name, a missing or bad value, a combination that makes no sense, and what is not built yet. The flags' state
// is global and set anew by each call: one thread at a time.
absl::StatusOr<TrainConfiguration> Resolve(Subcommand subcommand, absl::Span<const std::string> arguments);

// The flags of `plan` as the last Resolve(Subcommand::kPlan, ...) read them, checked.
absl::StatusOr<PlanRequest> ResolvePlanRequest(const TrainConfiguration& configuration);

// Every setting in a fixed order, one `name = value` a line; --config takes it back. Equal text, equal settings.
std::string ToToml(const TrainConfiguration& configuration);

// The same as one JSON object.
std::string ToJson(const TrainConfiguration& configuration);

// Text of --help: every flag by group, with what it takes and its default.
std::string HelpText(Subcommand subcommand);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_CONFIGURATION_H_

#include "launch/flags.h"

#include "absl/flags/flag.h"
#include "absl/flags/marshalling.h"
#include "absl/flags/reflection.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/check.h"

namespace reprise {

// Found by Abseil through the type's namespace.
bool AbslParseFlag(absl::string_view text, ByteCount* count, std::string* error) {
  absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    *error = std::string(bytes.status().message());
    return false;
  }
  count->bytes = *bytes;
  return true;
}

std::string AbslUnparseFlag(ByteCount count) { return absl::StrCat(count.bytes); }

bool AbslParseFlag(absl::string_view text, MicroBatch* batch, std::string* error) {
  *batch = {.sequences = 0, .automatic = text == "auto"};
  return batch->automatic || absl::ParseFlag(text, &batch->sequences, error);
}

std::string AbslUnparseFlag(MicroBatch batch) { return batch.automatic ? "auto" : absl::UnparseFlag(batch.sequences); }

namespace {

const TrainConfiguration& Defaults() {
  static const TrainConfiguration* const defaults = new TrainConfiguration();
  return *defaults;
}

}  // namespace
}  // namespace reprise

// A flag whose default is that of its member.
#define SETTING(type, name, help) ABSL_FLAG(type, name, reprise::Defaults().name, help)

SETTING(std::string, model, "gpt2, or any registered name");
SETTING(std::vector<std::string>, plugin, "list of shared libraries with models and operations of one's own");
SETTING(std::string, model_config, "a Hugging Face config.json, or key=value,key=value in its names (n_layer=12)");
SETTING(std::string, init, "a Hugging Face folder to start from; empty: random from --seed");
SETTING(int64_t, seed, "of initial values, data order and dropout");
SETTING(std::string, freeze, "regular expression of parameter names that are not trained");
SETTING(int64_t, lora_rank, "of low-rank adapters, which alone are trained; 0: none");
SETTING(double, lora_alpha, "their factor is this / --lora_rank; 0: as the rank");
SETTING(std::vector<std::string>, lora_targets,
        "products that get adapters, by name (q_proj,v_proj), or all-linear; empty: the usual ones of the model");
SETTING(std::string, adapter, "folder of adapters in PEFT's layout to go on from, in place of --lora_rank");
SETTING(double, dropout, "probability, 0 to below 1");

SETTING(std::string, data, "training file or folder");
SETTING(std::string, validation_data, "validation file or folder");
SETTING(std::string, data_format,
        "auto, text (bytes as tokens), u16 (headerless), llmc (its header), idx (MNIST's images and labels)");
SETTING(
    std::string, labels,
    "file of --data's labels: a byte a token (0: not counted), or an int32 (-100: not counted); of a folder, a folder");
SETTING(std::string, validation_labels, "likewise, of --validation_data");
SETTING(int64_t, document_separator, "token that ends a document: attention stays within one; -1: a window is one");
SETTING(int64_t, validation_every, "steps between validations; 0: at the end");
SETTING(int64_t, validation_windows, "windows of a validation; 0: all");

SETTING(reprise::MicroBatch, micro_batch,
        "sequences per rank and micro-batch; auto: as many as --memory_budget and the data hold");
SETTING(int64_t, sequence_length, "tokens; 0: the model's n_positions, at most 1024");
SETTING(int64_t, image_size, "pixels of a side that images are resized to; 0: the model's image_size");
SETTING(int64_t, accumulation, "micro-batches per step");
SETTING(int64_t, steps, "steps to train; or --epochs");
SETTING(int64_t, epochs, "times through the data; or --steps");

SETTING(std::string, optimizer, "adamw, sgd");
SETTING(double, learning_rate, "highest learning rate");
SETTING(int64_t, warmup_steps, "steps of linear growth to --learning_rate");
SETTING(std::string, decay, "cosine, linear, constant");
SETTING(double, min_learning_rate, "where the decay ends");
SETTING(double, weight_decay, "decoupled from the gradient; 0: off");
SETTING(double, beta1, "AdamW's decay of the mean, 0 to below 1");
SETTING(double, beta2, "AdamW's decay of the square, 0 to below 1");
SETTING(double, epsilon, "AdamW's, above 0");
SETTING(double, clip_norm, "highest global gradient norm; 0: off");

SETTING(std::string, precision, "fp32, bf16 (bf16 compute, float32 master parameters and state)");
SETTING(std::string, sharding, "full, gradients, optimizer, none");
SETTING(int64_t, replicas, "groups of ranks that each hold a whole model (hybrid sharding)");
SETTING(std::string, checkpoint, "activation checkpoints: none, all, every:K, sqrt, selective, auto");
SETTING(reprise::ByteCount, memory_budget, "device bytes per rank (KiB, MiB, GiB); 0: no cap");
SETTING(reprise::ByteCount, host_budget, "host bytes per rank for offloading; 0: no cap");
SETTING(int64_t, prefetch, "units gathered ahead; checkpoint=auto chooses where it is 1");
SETTING(std::vector<std::string>, offload, "list of activations, parameters, optimizer; empty: nothing");
SETTING(std::string, offload_file, "where offloaded bytes beyond --host_budget go");

SETTING(std::string, device, "auto, cpu, cuda");
SETTING(int64_t, threads, "compute threads per rank; 0: cores of the machine / ranks on it");
SETTING(std::string, stream_order, "async, or random:SEED (cpu: one thread, any order the events allow)");
SETTING(std::string, cuda_graphs, "off, on: steps after the first are started as a whole (cuda)");
SETTING(double, deadline, "seconds that any wait may last");
SETTING(std::string, profile_cache, "folder of measured times; auto: in the user's cache folder; none: measure anew");

SETTING(std::string, snapshot_dir, "folder of saved training states");
SETTING(int64_t, snapshot_every, "steps between snapshots");
SETTING(std::string, resume, "none, auto, or a snapshot");
ABSL_FLAG(std::string, export, reprise::Defaults().export_folder,
          "folder for a Hugging Face checkpoint at the end; with adapters, for these in PEFT's layout");
SETTING(std::string, export_dtype, "fp32 or bf16: of what --export writes");
SETTING(reprise::ByteCount, export_part_size, "most bytes of one file of --export (KiB, MiB, GiB)");
SETTING(std::string, dump_gradients, "safetensors file for the last step's whole, unclipped gradients");
SETTING(std::string, metrics, "JSON Lines file, one object a step");
SETTING(std::string, trace, "Chrome trace JSON file");
SETTING(std::string, report, "one self-contained HTML file");

ABSL_FLAG(std::string, config, "", "TOML file of the same names; flags on the command line win");

ABSL_FLAG(int64_t, world_size, 0, "plan for so many ranks");
ABSL_FLAG(std::string, hardware, "", "plan for this kind of machine: a name in hardware/, or a .toml file");
ABSL_FLAG(std::string, profile, "", "plan this saved profile (JSON)");
ABSL_FLAG(std::string, save_profile, "", "JSON file for the profile that the plan was made from");
ABSL_FLAG(std::string, maximize, "",
          "find the largest micro_batch, sequence_length, image_size or n_layer that fits the budget");
ABSL_FLAG(bool, json, false, "print JSON");

ABSL_FLAG(std::string, output, "", "the HTML file to write");

#undef SETTING

namespace reprise {
namespace {

using C = TrainConfiguration;

constexpr char kModel[] = "Model";
constexpr char kData[] = "Data";
constexpr char kLength[] = "Batch and length";
constexpr char kOptimizer[] = "Optimizer";
constexpr char kMemory[] = "Precision, sharding and memory";
constexpr char kMachine[] = "Machine";
constexpr char kOutput[] = "Snapshots and outputs";

constexpr Setting kSettings[] = {
    {"model", kModel, &C::model},
    {"plugin", kModel, &C::plugin},
    {"model_config", kModel, &C::model_config},
    {"init", kModel, &C::init},
    {"seed", kModel, &C::seed},
    {"freeze", kModel, &C::freeze},
    {"lora_rank", kModel, &C::lora_rank},
    {"lora_alpha", kModel, &C::lora_alpha},
    {"lora_targets", kModel, &C::lora_targets},
    {"adapter", kModel, &C::adapter},
    {"dropout", kModel, &C::dropout},
    {"data", kData, &C::data},
    {"validation_data", kData, &C::validation_data},
    {"data_format", kData, &C::data_format},
    {"labels", kData, &C::labels},
    {"validation_labels", kData, &C::validation_labels},
    {"document_separator", kData, &C::document_separator},
    {"validation_every", kData, &C::validation_every},
    {"validation_windows", kData, &C::validation_windows},
    {"micro_batch", kLength, &C::micro_batch},
    {"sequence_length", kLength, &C::sequence_length},
    {"image_size", kLength, &C::image_size},
    {"accumulation", kLength, &C::accumulation},
    {"steps", kLength, &C::steps},
    {"epochs", kLength, &C::epochs},
    {"optimizer", kOptimizer, &C::optimizer},
    {"learning_rate", kOptimizer, &C::learning_rate},
    {"warmup_steps", kOptimizer, &C::warmup_steps},
    {"decay", kOptimizer, &C::decay},
    {"min_learning_rate", kOptimizer, &C::min_learning_rate},
    {"weight_decay", kOptimizer, &C::weight_decay},
    {"beta1", kOptimizer, &C::beta1},
    {"beta2", kOptimizer, &C::beta2},
    {"epsilon", kOptimizer, &C::epsilon},
    {"clip_norm", kOptimizer, &C::clip_norm},
    {"precision", kMemory, &C::precision},
    {"sharding", kMemory, &C::sharding},
    {"replicas", kMemory, &C::replicas},
    {"checkpoint", kMemory, &C::checkpoint},
    {"memory_budget", kMemory, &C::memory_budget},
    {"host_budget", kMemory, &C::host_budget},
    {"prefetch", kMemory, &C::prefetch},
    {"offload", kMemory, &C::offload},
    {"offload_file", kMemory, &C::offload_file},
    {"device", kMachine, &C::device},
    {"threads", kMachine, &C::threads},
    {"stream_order", kMachine, &C::stream_order},
    {"cuda_graphs", kMachine, &C::cuda_graphs},
    {"deadline", kMachine, &C::deadline},
    {"profile_cache", kMachine, &C::profile_cache},
    {"snapshot_dir", kOutput, &C::snapshot_dir},
    {"snapshot_every", kOutput, &C::snapshot_every},
    {"resume", kOutput, &C::resume},
    {"export", kOutput, &C::export_folder},
    {"export_dtype", kOutput, &C::export_dtype},
    {"export_part_size", kOutput, &C::export_part_size},
    {"dump_gradients", kOutput, &C::dump_gradients},
    {"metrics", kOutput, &C::metrics},
    {"trace", kOutput, &C::trace},
    {"report", kOutput, &C::report},
};

constexpr const char* kReportFlags[] = {"metrics", "trace", "output"};
constexpr const char* kPlanFlags[] = {"world_size", "hardware", "profile", "save_profile", "maximize", "json"};

absl::CommandLineFlag& Find(absl::string_view name) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  REPRISE_CHECK(flag != nullptr) << "no flag " << name;
  return *flag;
}

}  // namespace

absl::Span<const Setting> Settings() { return kSettings; }

absl::Span<const char* const> PlanFlags() { return kPlanFlags; }

std::vector<std::string> FlagNames(Subcommand subcommand) {
  if (subcommand == Subcommand::kReport) return {std::begin(kReportFlags), std::end(kReportFlags)};
  std::vector<std::string> names;
  for (const Setting& setting : kSettings) names.emplace_back(setting.name);
  names.emplace_back("config");
  if (subcommand == Subcommand::kPlan) names.insert(names.end(), std::begin(kPlanFlags), std::end(kPlanFlags));
  return names;
}

FlagKind KindOf(absl::string_view name) {
  const absl::CommandLineFlag& flag = Find(name);
  if (flag.IsOfType<int64_t>()) return FlagKind::kInteger;
  if (flag.IsOfType<double>()) return FlagKind::kNumber;
  if (flag.IsOfType<bool>()) return FlagKind::kBoolean;
  if (flag.IsOfType<ByteCount>()) return FlagKind::kBytes;
  if (flag.IsOfType<MicroBatch>()) return FlagKind::kCount;
  if (flag.IsOfType<std::vector<std::string>>()) return FlagKind::kList;
  return FlagKind::kText;
}

const char* KindWords(FlagKind kind) {
  switch (kind) {
    case FlagKind::kInteger:
      return "an integer";
    case FlagKind::kNumber:
      return "a number";
    case FlagKind::kText:
      return "a string";
    case FlagKind::kList:
      return "a list of words";
    case FlagKind::kCount:
      return "an integer or auto";
    case FlagKind::kBytes:
      return "a size such as 512MiB";
    case FlagKind::kBoolean:
      return "true or false";
  }
  return "";
}

std::string FlagHelp(absl::string_view name) { return Find(name).Help(); }
std::string FlagDefault(absl::string_view name) { return Find(name).DefaultValue(); }
std::string FlagValue(absl::string_view name) { return Find(name).CurrentValue(); }

absl::Status SetFlag(const Assignment& assignment) {
  std::string error;
  if (Find(assignment.name).ParseFrom(assignment.value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(assignment.origin, " wants ", KindWords(KindOf(assignment.name)), ", not '", assignment.value, "'"));
}

void ResetFlags() {
  for (const std::string& name : FlagNames(Subcommand::kPlan)) {
    absl::CommandLineFlag& flag = Find(name);
    std::string error;
    REPRISE_CHECK(flag.ParseFrom(flag.DefaultValue(), &error)) << name << ": " << error;
  }
}

PlanRequest ReadPlanFlags() {
  return {.world_size = absl::GetFlag(FLAGS_world_size),
          .hardware = absl::GetFlag(FLAGS_hardware),
          .profile = absl::GetFlag(FLAGS_profile),
          .save_profile = absl::GetFlag(FLAGS_save_profile),
          .maximize = absl::GetFlag(FLAGS_maximize),
          .json = absl::GetFlag(FLAGS_json)};
}

TrainConfiguration ReadFlags() {
  TrainConfiguration configuration;
  for (const Setting& setting : kSettings) {
    std::visit(
        [&](auto member) {
          using Value = std::decay_t<decltype(configuration.*member)>;
          absl::optional<Value> value = Find(setting.name).TryGet<Value>();
          REPRISE_CHECK(value.has_value()) << setting.name << " has another type than its member";
          configuration.*member = *std::move(value);
        },
        setting.member);
  }
  return configuration;
}

}  // namespace reprise

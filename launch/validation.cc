#include "launch/validation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

// Bounds that no run comes near and that keep products of two or three of these within 64 bits.
constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr int64_t kMostSequences = int64_t{1} << 20;
constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kMostPixels = 1 << 14;  // of a side
constexpr int64_t kMostThreads = 4096;
constexpr int64_t kMostPrefetch = 1 << 16;
constexpr int64_t kMostPlannedPrefetch = 3;  // of the planner's class
constexpr double kMostSeconds = 1e7;

absl::Status Wrong(const char* flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " ", what));
}

absl::Status Between(const char* flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Wrong(flag, absl::StrCat("must be from ", low, " to ", high, ", and is ", value));
}

absl::Status Finite(const char* flag, double value) {
  return std::isfinite(value) ? absl::OkStatus() : Wrong(flag, absl::StrCat("must be a finite number, and is ", value));
}

absl::Status NotNegative(const char* flag, double value) {
  RETURN_IF_ERROR(Finite(flag, value));
  return value >= 0 ? absl::OkStatus() : Wrong(flag, absl::StrCat("must not be negative, and is ", value));
}

absl::Status Positive(const char* flag, double value) {
  RETURN_IF_ERROR(Finite(flag, value));
  return value > 0 ? absl::OkStatus() : Wrong(flag, absl::StrCat("must be above 0, and is ", value));
}

absl::Status BelowOne(const char* flag, double value) {
  RETURN_IF_ERROR(Finite(flag, value));
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Wrong(flag, absl::StrCat("must be from 0 to below 1, and is ", value));
}

absl::Status UnknownWord(const char* flag, absl::string_view word, const std::vector<std::string>& words) {
  return Wrong(flag, absl::StrCat("takes ", absl::StrJoin(words, ", "), ", not '", word, "'", DidYouMean(word, words)));
}

absl::Status OneOf(const char* flag, const std::string& word, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), word) != words.end()) return absl::OkStatus();
  return UnknownWord(flag, word, words);
}

// The number behind `prefix`, as in every:4.
absl::Status ReadSuffix(const char* flag, const std::string& word, absl::string_view prefix, int64_t low,
                        int64_t* number) {
  absl::string_view digits = word;
  absl::ConsumePrefix(&digits, prefix);
  const bool plain =
      !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (plain && absl::SimpleAtoi(digits, number) && *number >= low) return absl::OkStatus();
  return Wrong(flag, absl::StrCat("wants an integer from ", low, " behind '", prefix, "', not '", digits, "'"));
}

absl::Status CheckModelAndData(const TrainConfiguration& c) {
  if (c.model.empty()) return Wrong("model", "must name a model, for example gpt2");
  RETURN_IF_ERROR(Between("seed", c.seed, 0, INT64_MAX));
  RETURN_IF_ERROR(Between("lora_rank", c.lora_rank, 0, 1 << 20));
  RETURN_IF_ERROR(NotNegative("lora_alpha", c.lora_alpha));
  if (c.lora_rank == 0 && c.lora_alpha > 0) return Wrong("lora_alpha", "needs --lora_rank");
  if (c.lora_rank == 0 && !c.lora_targets.empty()) return Wrong("lora_targets", "needs --lora_rank");
  if (c.lora_rank > 0 && !c.adapter.empty()) {
    return Wrong("lora_rank", "and --adapter are both set: an adapter folder says its own rank, give one of them");
  }
  RETURN_IF_ERROR(BelowOne("dropout", c.dropout));
  RETURN_IF_ERROR(OneOf("data_format", c.data_format, {"auto", "text", "u16", "llmc", "idx"}));
  RETURN_IF_ERROR(Between("document_separator", c.document_separator, -1, INT32_MAX));
  if (c.data.empty() && !c.labels.empty()) return Wrong("labels", "needs --data");
  if (c.validation_data.empty() && !c.validation_labels.empty()) {
    return Wrong("validation_labels", "needs --validation_data");
  }
  RETURN_IF_ERROR(Between("validation_every", c.validation_every, 0, kMostSteps));
  RETURN_IF_ERROR(Between("validation_windows", c.validation_windows, 0, kMostSteps));
  if (c.validation_data.empty() && c.validation_every > 0) {
    return Wrong("validation_every", "needs --validation_data");
  }
  if (c.validation_data.empty() && c.validation_windows > 0) {
    return Wrong("validation_windows", "needs --validation_data");
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const TrainConfiguration& c) {
  if (c.micro_batch.automatic) {
    if (c.memory_budget.bytes <= 0) return Wrong("micro_batch", "=auto needs --memory_budget, which it is to fill");
  } else {
    RETURN_IF_ERROR(Between("micro_batch", c.micro_batch.sequences, 1, kMostSequences));
  }
  RETURN_IF_ERROR(Between("sequence_length", c.sequence_length, 0, kMostSequences));
  RETURN_IF_ERROR(Between("image_size", c.image_size, 0, kMostPixels));
  RETURN_IF_ERROR(Between("accumulation", c.accumulation, 1, kMostSequences));
  RETURN_IF_ERROR(Between("steps", c.steps, 0, kMostSteps));
  RETURN_IF_ERROR(Between("epochs", c.epochs, 0, kMostSequences));
  if (c.micro_batch.sequences * std::max<int64_t>(c.sequence_length, 1) > kMostTokens) {
    return Wrong("micro_batch", absl::StrCat("times --sequence_length must be at most ", kMostTokens, " tokens"));
  }
  if (c.steps > 0 && c.epochs > 0) return Wrong("steps", "and --epochs are both set: give one of them");
  return absl::OkStatus();
}

absl::Status CheckOptimizer(const TrainConfiguration& c) {
  RETURN_IF_ERROR(OneOf("optimizer", c.optimizer, {"adamw", "sgd"}));
  RETURN_IF_ERROR(NotNegative("learning_rate", c.learning_rate));
  RETURN_IF_ERROR(Between("warmup_steps", c.warmup_steps, 0, kMostSteps));
  RETURN_IF_ERROR(OneOf("decay", c.decay, {"cosine", "linear", "constant"}));
  RETURN_IF_ERROR(NotNegative("min_learning_rate", c.min_learning_rate));
  if (c.min_learning_rate > c.learning_rate) {
    return Wrong("min_learning_rate",
                 absl::StrCat("(", c.min_learning_rate, ") is above --learning_rate (", c.learning_rate, ")"));
  }
  RETURN_IF_ERROR(NotNegative("weight_decay", c.weight_decay));
  RETURN_IF_ERROR(BelowOne("beta1", c.beta1));
  RETURN_IF_ERROR(BelowOne("beta2", c.beta2));
  RETURN_IF_ERROR(Positive("epsilon", c.epsilon));
  // It would be 0 in float32, and 0 / 0 where a gradient is.
  if (c.epsilon < std::numeric_limits<float>::min()) {
    return Wrong("epsilon",
                 absl::StrCat("must be at least ", std::numeric_limits<float>::min(), ", the smallest float32"));
  }
  return NotNegative("clip_norm", c.clip_norm);
}

absl::Status CheckCheckpoint(TrainConfiguration* c) {
  c->checkpoint_every = 0;
  if (absl::StartsWith(c->checkpoint, "every:")) {
    RETURN_IF_ERROR(ReadSuffix("checkpoint", c->checkpoint, "every:", 1, &c->checkpoint_every));
  } else if (c->checkpoint == "every:K" || c->checkpoint == "every") {
    return Wrong("checkpoint", "wants the blocks of a segment behind every, for example every:4");
  } else {
    const std::vector<std::string> words = {"none", "all", "every:K", "sqrt", "selective", "auto"};
    RETURN_IF_ERROR(OneOf("checkpoint", c->checkpoint, words));
  }
  if (c->checkpoint == "auto" && c->memory_budget.bytes == 0) {
    return Wrong("checkpoint", "auto needs --memory_budget, the bytes that the plan must fit");
  }
  return absl::OkStatus();
}

absl::Status CheckOffload(TrainConfiguration* c) {
  std::vector<std::string>& words = c->offload;
  for (const std::string& word : words) {
    RETURN_IF_ERROR(OneOf("offload", word, {"activations", "parameters", "optimizer"}));
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  c->offload_activations = has("activations");
  c->offload_parameters = has("parameters");
  c->offload_optimizer = has("optimizer");
  if (c->offload_activations && c->checkpoint == "none") {
    return Wrong("offload",
                 "activations moves what --checkpoint retains: choose all, every:K, sqrt or selective with it");
  }
  if (words.empty() && c->host_budget.bytes > 0)
    return Wrong("host_budget", "needs --offload, for example activations");
  if (words.empty() && !c->offload_file.empty())
    return Wrong("offload_file", "needs --offload, for example activations");
  return absl::OkStatus();
}

absl::Status CheckMachine(TrainConfiguration* c) {
  RETURN_IF_ERROR(OneOf("precision", c->precision, {"fp32", "bf16"}));
  RETURN_IF_ERROR(OneOf("sharding", c->sharding, {"full", "gradients", "optimizer", "none"}));
  RETURN_IF_ERROR(Between("replicas", c->replicas, 1, kMostSequences));
  RETURN_IF_ERROR(Between("prefetch", c->prefetch, 0, kMostPrefetch));
  if (c->checkpoint == "auto" && c->prefetch > kMostPlannedPrefetch) {
    return Wrong("prefetch", absl::StrCat("must be from 0 to ", kMostPlannedPrefetch, " with --checkpoint=auto"));
  }
  RETURN_IF_ERROR(OneOf("device", c->device, {"auto", "cpu", "cuda"}));
  RETURN_IF_ERROR(OneOf("cuda_graphs", c->cuda_graphs, {"off", "on"}));
  if (c->cuda_graphs == "on" && (!c->trace.empty() || !c->report.empty())) {
    return Wrong("cuda_graphs", "has no times of instructions, which --trace and --report show; leave out one");
  }
  RETURN_IF_ERROR(Between("threads", c->threads, 0, kMostThreads));
  RETURN_IF_ERROR(Positive("deadline", c->deadline));
  if (c->deadline > kMostSeconds) return Wrong("deadline", absl::StrCat("must be at most ", kMostSeconds, " seconds"));
  c->random_stream_order = absl::StartsWith(c->stream_order, "random:");
  c->stream_order_seed = 0;
  if (c->random_stream_order) {
    return ReadSuffix("stream_order", c->stream_order, "random:", 0, &c->stream_order_seed);
  }
  if (c->stream_order == "async") return absl::OkStatus();
  return UnknownWord("stream_order", c->stream_order, {"async", "random:SEED"});
}

absl::Status CheckSnapshots(const TrainConfiguration& c) {
  RETURN_IF_ERROR(Between("snapshot_every", c.snapshot_every, 0, kMostSteps));
  RETURN_IF_ERROR(OneOf("export_dtype", c.export_dtype, {"fp32", "bf16"}));
  if (c.export_part_size.bytes <= 0) return Wrong("export_part_size", "must be at least a byte");
  if (c.resume.empty()) return Wrong("resume", "takes none, auto, or the path of a snapshot");
  return absl::OkStatus();
}

absl::Status CheckNeeded(const TrainConfiguration& c) {
  if (c.data.empty()) return Wrong("data", "is needed: the file or folder to train on");
  // Without a step the model is exported as it starts.
  if (c.steps == 0 && c.epochs == 0 && c.export_folder.empty()) {
    return Wrong("steps", "or --epochs is needed: how long to train");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(Subcommand subcommand, TrainConfiguration* configuration) {
  RETURN_IF_ERROR(CheckModelAndData(*configuration));
  RETURN_IF_ERROR(CheckLength(*configuration));
  RETURN_IF_ERROR(CheckOptimizer(*configuration));
  RETURN_IF_ERROR(CheckCheckpoint(configuration));
  RETURN_IF_ERROR(CheckOffload(configuration));
  RETURN_IF_ERROR(CheckMachine(configuration));
  RETURN_IF_ERROR(CheckSnapshots(*configuration));
  return subcommand == Subcommand::kTrain ? CheckNeeded(*configuration) : absl::OkStatus();
}

absl::Status ValidatePlan(const TrainConfiguration& c, const PlanRequest& request) {
  RETURN_IF_ERROR(Between("world_size", request.world_size, 0, kMostSequences));
  if (!request.maximize.empty()) {
    RETURN_IF_ERROR(OneOf("maximize", request.maximize, {"micro_batch", "sequence_length", "image_size", "n_layer"}));
    if (c.memory_budget.bytes <= 0) return Wrong("maximize", "needs --memory_budget, within which to search");
    if (c.micro_batch.automatic) {
      return Wrong("maximize",
                   "cannot stand beside --micro_batch=auto, which is --maximize=micro_batch: give one of them");
    }
  }
  if (request.profile.empty()) return absl::OkStatus();
  for (const auto& [name, given] :
       {std::pair{"hardware", !request.hardware.empty()}, std::pair{"save_profile", !request.save_profile.empty()},
        std::pair{"maximize", !request.maximize.empty()}, std::pair{"world_size", request.world_size > 0}}) {
    if (given) return Wrong(name, "cannot stand beside --profile, which holds model, machine and ranks already");
  }
  if (!c.trace.empty()) return Wrong("trace", "needs a model to compile, which --profile does not hold");
  return absl::OkStatus();
}

}  // namespace reprise

#include "tests/tools/equality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/train/documents.h"
#include "runtime/train/training_job.h"
#include "tests/tools/equality_models.h"
#include "tests/tools/ranks.h"

namespace reprise::testing {
namespace {

constexpr int64_t kWidth = kEqualityWidth;
constexpr int64_t kVocabulary = kEqualityVocabulary;
constexpr int64_t kSequenceLength = kEqualityLength;
constexpr int64_t kMicroBatch = 2;
constexpr int64_t kTokens = kMicroBatch * kSequenceLength;
constexpr int32_t kSeparator = 7;  // of documents, where the model has any; a token as likely as any other is rare

Model ModelOf(const EqualityCell& cell) { return EqualityModel(cell.model, cell.layers, cell.dropout); }

JobOptions OptionsOf(const EqualityCell& cell) {
  JobOptions options;
  options.micro_batch = kMicroBatch;
  const int64_t rows = ModelOf(cell).sequence_length;  // of a model that has one length only
  options.sequence_length = rows > 0 ? rows : kSequenceLength;
  options.accumulation = cell.accumulation;
  options.dtype = cell.dtype;
  options.sharding = cell.sharding;
  options.checkpoint = cell.checkpoint;
  options.offload_activations = cell.offload;
  options.prefetch = cell.prefetch;
  options.plan = cell.plan;
  options.memory_budget_bytes = cell.memory_budget;
  options.times = cell.times;
  options.optimizer.clip_norm = 0.25;
  return options;
}

// The mixing function of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Ranks differ in how many labels count; in the second step the last of several has none in its first micro-batch.
int64_t FillBatch(const Communicator& communicator, int step, int micro_batch, TrainingJob* job) {
  const int rank = communicator.rank();
  const bool silent = step == 1 && micro_batch == 0 && rank > 0 && rank == communicator.size() - 1;
  const Batch batch = job->batch(micro_batch);
  const bool has_documents = !DataAs<int32_t>(batch.data, DataKind::kDocumentStarts).empty();
  const auto bits_of = [&](size_t i) {
    const uint64_t place =
        (static_cast<uint64_t>(step) * 8 + static_cast<uint64_t>(micro_batch)) * 8 + static_cast<uint64_t>(rank);
    return Mix(place * 64 + i);
  };
  for (size_t i = 0; i < batch.tokens().size(); ++i) {
    const bool separates = has_documents && (bits_of(i) >> 48) % 4 == 0;
    batch.tokens()[i] = separates ? kSeparator : static_cast<int32_t>(bits_of(i) % kVocabulary);
  }
  const auto pixels = DataAs<float>(batch.data, DataKind::kPixels);
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<float>(static_cast<double>(Mix(bits_of(0) + i) >> 40) * 0x1p-23 - 1);
  }
  for (size_t i = 0; i < batch.labels().size(); ++i) {
    const bool counts = !silent && (bits_of(i) >> 16) % static_cast<uint64_t>(3 + rank) != 0;
    batch.labels()[i] = counts ? static_cast<int32_t>((bits_of(i) >> 32) % kVocabulary) : kIgnoredLabel;
  }
  for (int64_t row = 0; has_documents && row < kMicroBatch; ++row) {
    const BatchData part = batch.Row(row, kMicroBatch);
    MarkDocuments(kSeparator, DataAs<int32_t>(part, DataKind::kTokens), DataAs<int32_t>(part, DataKind::kLabels),
                  DataAs<int32_t>(part, DataKind::kPositions), DataAs<int32_t>(part, DataKind::kDocumentStarts));
  }
  return std::count_if(batch.labels().begin(), batch.labels().end(), [](int32_t label) { return label >= 0; });
}

absl::Status ReadTensors(TrainingJob* job, CellOutcome* outcome) {
  for (const char* kind : {"gradient of ", ""}) {
    for (const Parameter* parameter : job->parameters()) {
      if (*kind != '\0' && !job->IsTrained(*parameter)) continue;
      std::vector<float> values(static_cast<size_t>(parameter->elements()));
      RETURN_IF_ERROR(*kind != '\0' ? job->ReadGradient(*parameter, 1, absl::MakeSpan(values))
                                    : job->ReadParameter(*parameter, absl::MakeSpan(values)));
      outcome->tensors.emplace_back(kind + parameter->name(), std::move(values));
    }
  }
  return absl::OkStatus();
}

// The largest number of gathered units that are live at one tick.
int64_t MostGathered(const Schedule& schedule) {
  int64_t most = 0;
  for (const Item& at : schedule.items) {
    if (at.kind != ItemKind::kGathered) continue;
    most =
        std::max<int64_t>(most, std::count_if(schedule.items.begin(), schedule.items.end(), [&](const Item& item) {
                            return item.kind == ItemKind::kGathered && item.first <= at.first && at.first <= item.last;
                          }));
  }
  return most;
}

// Layers in a segment: 0 where nothing is recomputed. `sqrt` is by definition the every:K of least predicted peak,
// ties to the smaller K.
int64_t SegmentLayers(const EqualityCell& cell) {
  absl::string_view policy = cell.checkpoint;
  int64_t layers = 0;
  if (policy == "none") return 0;
  if (policy == "all") return 1;
  if (absl::ConsumePrefix(&policy, "every:") && absl::SimpleAtoi(policy, &layers)) return layers;
  KernelSet kernels({.threads = 1});
  const Model model = ModelOf(cell);
  int64_t least = INT64_MAX;
  for (int64_t k = 1; k <= kEqualityLayers; ++k) {
    JobOptions options = OptionsOf(cell);
    options.checkpoint = absl::StrCat("every:", k);
    const auto plan = MakeJobPlan(model, options, cell.ranks, kernels);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (plan.ok() && (*plan)->device_bytes() < least) {
      least = (*plan)->device_bytes();
      layers = k;
    }
  }
  return layers;
}

// Sizes of the segments, front to back: all of `segment_layers` but perhaps the last.
std::vector<int64_t> Segments(int64_t segment_layers) {
  std::vector<int64_t> segments;
  for (int64_t first = 0; segment_layers > 0 && first < kEqualityLayers; first += segment_layers) {
    segments.push_back(std::min<int64_t>(segment_layers, kEqualityLayers - first));
  }
  return segments;
}

int64_t GathersOf(const EqualityCell& cell, const std::vector<int64_t>& segments) {
  if (cell.sharding == Sharding::kNone) return 0;
  if (cell.sharding != Sharding::kFull) return 1 + kEqualityLayers;  // each unit, after its update
  int64_t of_micro_batch = 2;                                        // of the root unit
  if (segments.empty()) of_micro_batch += 2 * kEqualityLayers;
  for (const int64_t layers : segments) of_micro_batch += 3 * layers - 1;
  return of_micro_batch * cell.accumulation;
}

template <typename Visit>
void VisitBits(const CellOutcome& outcome, const Visit& visit) {
  for (size_t i = 0; i < outcome.steps.size(); ++i) {
    visit("loss of step", i, std::bit_cast<uint64_t>(outcome.steps[i].loss));
    visit("gradient norm of step", i, std::bit_cast<uint64_t>(outcome.steps[i].gradient_norm));
  }
  for (const auto& [name, values] : outcome.tensors) {
    for (size_t i = 0; i < values.size(); ++i) visit(name, i, std::bit_cast<uint32_t>(values[i]));
  }
}

}  // namespace

std::string EqualityCell::Name() const {
  return absl::StrCat(model == "gpt2" ? "" : model + "_", absl::StrReplaceAll(checkpoint, {{":", "_"}}),
                      offload ? "_offload_" : "_", ShardingName(sharding),
                      dtype == DType::kBFloat16 ? "_bf16" : "_fp32", dropout > 0 ? "_dropout" : "", "_R", ranks,
                      "_accumulation_", accumulation, "_prefetch_", prefetch);
}

EqualityCell EqualityCell::Reference() const {
  EqualityCell reference = *this;
  reference.checkpoint = "none";
  reference.offload = false;
  reference.plan.reset();
  reference.memory_budget = 0;
  reference.times = nullptr;
  return reference;
}

absl::StatusOr<std::unique_ptr<JobPlan>> TryPlanCell(const EqualityCell& cell) {
  KernelSet kernels(KernelsOfDevice(cell.device));
  return MakeJobPlan(ModelOf(cell), OptionsOf(cell), cell.ranks, kernels);
}

std::unique_ptr<JobPlan> PlanCell(const EqualityCell& cell) {
  absl::StatusOr<std::unique_ptr<JobPlan>> plan = TryPlanCell(cell);
  REPRISE_CHECK(plan.ok()) << plan.status().message();
  return *std::move(plan);
}

absl::StatusOr<CellOutcome> RunCell(const EqualityCell& cell, const StreamOrder& order, Communicator& communicator) {
  ASSIGN_OR_RETURN(const auto job,
                   TrainingJob::Create(ModelOf(cell), OptionsOf(cell),
                                       {.device = cell.device, .stream_order = order, .cuda_graphs = cell.cuda_graphs},
                                       communicator));
  RETURN_IF_ERROR(job->SetParameters(RandomParameters(/*seed=*/7)));
  CellOutcome outcome;
  outcome.predicted_peak_bytes = job->plan().device_bytes();
  outcome.most_gathered = MostGathered(job->plan().schedule);
  for (int step = 0; step < kEqualitySteps; ++step) {
    int64_t counted = 0;
    for (int m = 0; m < cell.accumulation; ++m) counted += FillBatch(communicator, step, m, job.get());
    ASSIGN_OR_RETURN(const StepResult result, job->Step({.seed = 3,
                                                         .step = step,
                                                         .learning_rate = 1e-2,
                                                         .counted_labels = counted,
                                                         .first_sequence = communicator.rank() * kMicroBatch,
                                                         .sequence_stride = communicator.size() * kMicroBatch}));
    outcome.steps.push_back(result);
  }
  RETURN_IF_ERROR(ReadTensors(job.get(), &outcome));
  return outcome;
}

std::vector<CellOutcome> RunOnLocalRanks(const EqualityCell& cell, const StreamOrder& order) {
  std::vector<CellOutcome> outcomes(static_cast<size_t>(cell.ranks));
  RunRanks(cell.ranks, [&](Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    auto outcome = RunCell(cell, {.random = order.random, .seed = order.seed * 8 + rank}, communicator);
    EXPECT_TRUE(outcome.ok()) << cell.Name() << ", rank " << rank << ": " << outcome.status();
    if (outcome.ok()) outcomes[rank] = *std::move(outcome);
  });
  return outcomes;
}

std::string FirstDifference(const CellOutcome& a, const CellOutcome& b) {
  std::vector<uint64_t> expected;
  VisitBits(b, [&](const std::string& /*name*/, size_t /*index*/, uint64_t bits) { expected.push_back(bits); });
  if (expected.empty()) return "nothing to compare with";
  std::string difference;
  size_t at = 0;
  VisitBits(a, [&](const std::string& name, size_t index, uint64_t bits) {
    if (difference.empty() && (at >= expected.size() || expected[at] != bits)) {
      difference = absl::StrCat(name, " ", index, ": bits ", absl::Hex(bits), ", not ",
                                at < expected.size() ? absl::StrCat(absl::Hex(expected[at])) : "missing");
    }
    ++at;
  });
  if (difference.empty() && at != expected.size()) difference = "values are missing at the end";
  return difference;
}

uint64_t HashOf(const CellOutcome& outcome) {
  uint64_t hash = 0;
  VisitBits(outcome,
            [&](const std::string& /*name*/, size_t /*index*/, uint64_t bits) { hash = Mix(hash ^ Mix(bits)); });
  return hash;
}

CellCounts CountsOf(const EqualityCell& cell) {
  constexpr int64_t kInner = 4 * kWidth;
  constexpr int64_t kExpand = 2 * kTokens * kWidth * kInner;  // c_fc; as much for c_proj behind it
  constexpr int64_t kQkv = 2 * kTokens * kWidth * (3 * kWidth);
  constexpr int64_t kProjection = 2 * kTokens * kWidth * kWidth;
  // Scores and their product with the values, 2 N T C each, half of it under the causal mask.
  constexpr int64_t kAttention = 2 * (2 * kTokens * kSequenceLength * kWidth) / 2;
  constexpr int64_t kLayer = kQkv + kAttention + kProjection + 2 * kExpand;
  const std::vector<int64_t> segments = Segments(SegmentLayers(cell));
  const auto segment_count = static_cast<int64_t>(segments.size());
  CellCounts counts;
  counts.gathers = GathersOf(cell, segments);
  if (segment_count > 0) {
    counts.recomputed_flops = (kEqualityLayers * kLayer - segment_count * kExpand) * cell.accumulation;
  }
  if (cell.offload) {
    counts.offloaded_bytes = (segment_count - 1) * kTokens * kWidth * SizeOf(cell.dtype) * cell.accumulation;
  }
  return counts;
}

void ExpectCounts(const EqualityCell& cell, const std::vector<CellOutcome>& outcome) {
  const CellCounts counts = CountsOf(cell);
  for (const CellOutcome& rank : outcome) {
    EXPECT_EQ(rank.steps.size(), static_cast<size_t>(kEqualitySteps));
    for (const StepResult& step : rank.steps) {
      EXPECT_EQ(step.gathers, counts.gathers);
      EXPECT_EQ(step.offloaded_bytes, counts.offloaded_bytes);
      EXPECT_EQ(step.recomputed_flops, counts.recomputed_flops);
      EXPECT_TRUE(step.updated);
    }
  }
}

}  // namespace reprise::testing

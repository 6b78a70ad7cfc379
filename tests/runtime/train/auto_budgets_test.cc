// checkpoint=auto on GPT-2 of 124 M parameters, in fifty budgets from the smallest to that of keeping everything: the
// bits of `none`, in the memory that was predicted, and never more than the budget.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/gpt2.h"
#include "runtime/plan/hardware.h"
#include "runtime/train/training_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

constexpr int64_t kLength = 128;
const Gpt2Config kGpt2 = {.vocab_size = 50257, .n_positions = 1024, .n_embd = 768, .n_layer = 12, .n_head = 12};

Hardware TwoCores() {
  return {.name = "two cores",
          .compute_fp32 = 1e11,
          .compute_bf16 = 1e11,
          .memory = 1e10,
          .kernel_latency = 1e-6,
          .link = 5e9,
          .network = 5e9,
          .link_latency = 1e-6,
          .host = 5e9,
          .disk = 1e9,
          .device_memory = 1e11,
          .ranks_per_host = 1};
}

JobOptions Options() {
  JobOptions options;
  options.micro_batch = 8;  // enough tokens for activations to set the peak
  options.sequence_length = kLength;
  return options;
}

// One step and all its gradients, as bits.
std::string TrainOnce(const Model& model, const JobOptions& options, int64_t* peak) {
  std::string bits;
  testing::RunRanks(1, [&](Communicator& communicator) {
    const auto created = TrainingJob::Create(model, options, {.threads = 2, .touch_arena = false}, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    // Cheap to make, and nothing in it repeats.
    const absl::Status set = job.SetParameters([](const Parameter& p, int64_t first, absl::Span<float> out) {
      const bool norm = p.shape().size() == 1;
      for (size_t i = 0; i < out.size(); ++i) {
        const uint64_t mixed =
            (static_cast<uint64_t>(first) + i + static_cast<uint64_t>(p.serial())) * 0x9E3779B97F4A7C15;
        out[i] = (norm ? 1.0F : 0.0F) + (static_cast<float>(mixed >> 40) / (1 << 24) - 0.5F) * 0.08F;
      }
      return absl::OkStatus();
    });
    ASSERT_TRUE(set.ok()) << set;
    for (size_t i = 0; i < job.tokens(0).size(); ++i) {
      job.tokens(0)[i] = static_cast<int32_t>(i * 7919 % 50257);
      job.labels(0)[i] = static_cast<int32_t>((i + 1) * 7919 % 50257);
    }
    const auto result = job.Step({.seed = 1,
                                  .step = 0,
                                  .learning_rate = 1e-4,
                                  .counted_labels = static_cast<int64_t>(job.labels(0).size()),
                                  .first_sequence = 0,
                                  .sequence_stride = options.micro_batch});
    ASSERT_TRUE(result.ok()) << result.status();
    *peak = result->peak_device_bytes;
    uint64_t hash = 0;
    for (const Parameter* parameter : job.parameters()) {
      std::vector<float> values(static_cast<size_t>(parameter->elements()));
      ASSERT_TRUE(job.ReadGradient(*parameter, 1, absl::MakeSpan(values)).ok());
      hash = XXH3_64bits_withSeed(values.data(), values.size() * sizeof(float), hash);
    }
    bits = absl::StrCat(absl::Hex(std::bit_cast<uint64_t>(result->loss)), " ",
                        absl::Hex(std::bit_cast<uint64_t>(result->gradient_norm)), " ", absl::Hex(hash));
  });
  return bits;
}

struct Range {
  bool offload;
  int budgets;
};

class AutoBudgetsLong : public ::testing::TestWithParam<Range> {};

TEST_P(AutoBudgetsLong, Gpt2Of124M) {
  const Model model = Gpt2(kGpt2);
  KernelSet kernels({.kind = KernelKind::kCpu, .threads = 2});
  JobOptions options = Options();
  const auto everything = MakeJobPlan(model, options, 1, kernels);
  ASSERT_TRUE(everything.ok()) << everything.status();
  int64_t peak = 0;
  const std::string expected = TrainOnce(model, options, &peak);
  ASSERT_NE(expected, "");
  EXPECT_EQ(peak, (*everything)->device_bytes());

  options.checkpoint = "auto";
  options.offload_activations = GetParam().offload;
  options.times = std::make_shared<const MachineTimes>(EstimateTimes(TwoCores(), (*everything)->schedule.kernels, 1));
  options.memory_budget_bytes = (*everything)->device_bytes();
  const auto widest = MakeJobPlan(model, options, 1, kernels);
  ASSERT_TRUE(widest.ok()) << widest.status();
  const auto both = FindSmallestBudgets(**widest, kernels);
  ASSERT_TRUE(both.ok()) << both.status();
  const int64_t smallest = GetParam().offload ? both->offloaded : both->resident;

  const int budgets = GetParam().budgets;
  std::set<int64_t> peaks;
  int64_t time = INT64_MAX;
  for (int i = 0; i < budgets; ++i) {
    options.memory_budget_bytes = smallest + ((*everything)->device_bytes() - smallest) * i / (budgets - 1);
    SCOPED_TRACE(absl::StrCat("budget ", options.memory_budget_bytes));
    const auto job = MakeJobPlan(model, options, 1, kernels);
    ASSERT_TRUE(job.ok()) << job.status();
    const int64_t predicted = (*job)->device_bytes();
    EXPECT_LE(predicted, options.memory_budget_bytes);
    EXPECT_GE(predicted, peaks.empty() ? 0 : *peaks.rbegin()) << "less memory gave a higher peak";
    EXPECT_LE((*job)->estimate->class_ns, time) << "more memory made the step slower";
    time = (*job)->estimate->class_ns;
    if (!peaks.insert(predicted).second) continue;  // the same plan again
    EXPECT_EQ(TrainOnce(model, options, &peak), expected);
    EXPECT_EQ(peak, predicted);
  }
  std::printf("%zu different plans in %d budgets from %lld to %lld bytes\n", peaks.size(), budgets,
              static_cast<long long>(smallest), static_cast<long long>((*everything)->device_bytes()));
  EXPECT_GE(peaks.size(), static_cast<size_t>(budgets) / 2) << "the budgets made little difference";

  options.memory_budget_bytes = smallest - 1;
  const absl::Status refused = MakeJobPlan(model, options, 1, kernels).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.message()).find(absl::StrCat("is ", smallest, " bytes")), std::string::npos) << refused;
}

INSTANTIATE_TEST_SUITE_P(Offload, AutoBudgetsLong, ::testing::Values(Range{false, 50}, Range{true, 10}),
                         [](const auto& info) { return info.param.offload ? "allowed" : "off"; });

}  // namespace
}  // namespace reprise

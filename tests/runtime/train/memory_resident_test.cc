// The predicted peak against what the operating system counts: in an arena that nobody touched before, a step raises
// the resident memory of the process by it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "base/check.h"
#include "tests/tools/memory_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using ::reprise::testing::FillRandomBatch;
using ::reprise::testing::MemoryJob;
using ::reprise::testing::RunRanks;

// A field of /proc/self/status, in bytes.
int64_t StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kibibytes = -1;
  while (status >> word) {
    if (word == field + ":") status >> kibibytes;
  }
  return kibibytes * 1024;
}

// Forgets the high-water mark so far.
void ResetHighWater() { std::ofstream("/proc/self/clear_refs") << "5"; }

absl::Status Constant(const Parameter& /*parameter*/, int64_t /*first*/, absl::Span<float> out) {
  std::fill(out.begin(), out.end(), 0.01F);
  return absl::OkStatus();
}

int64_t TrainOneStep(const MemoryJob& what, TrainingJob& job) {
  REPRISE_CHECK(job.SetParameters(Constant).ok());
  const int64_t counted = FillRandomBatch(what, 1, job);
  const auto result = job.Step({.seed = 1, .learning_rate = 1e-3, .counted_labels = counted});
  REPRISE_CHECK(result.ok()) << result.status().ToString();
  return job.plan().schedule.device_bytes;
}

std::unique_ptr<TrainingJob> MakeJob(const Model& model, const MemoryJob& what, Communicator& communicator) {
  const MachineOptions machine = {.threads = 2, .touch_arena = false};
  auto job = TrainingJob::Create(model, what.options, machine, communicator);
  REPRISE_CHECK(job.ok()) << job.status().ToString();
  return *std::move(job);
}

// In a process of its own: exits with 0 where the rise is within 2 % of the prediction.
[[noreturn, maybe_unused]] void MeasureInThisProcess(const MemoryJob& what) {
  double ratio = 0;
  const Model model = Gpt2(what.model);
  RunRanks(1, [&](Communicator& communicator) {
    // A first job takes what oneDNN keeps for itself, outside any arena.
    TrainOneStep(what, *MakeJob(model, what, communicator));
    const auto job = MakeJob(model, what, communicator);
    ResetHighWater();
    const int64_t before = StatusBytes("VmHWM");
    const int64_t predicted = TrainOneStep(what, *job);
    REPRISE_CHECK(predicted >= int64_t{256} << 20) << predicted;
    ratio = static_cast<double>(StatusBytes("VmHWM") - before) / static_cast<double>(predicted);
  });
  std::fprintf(stderr, "rose by %.4f of the predicted peak\n", ratio);
  std::_Exit(std::abs(ratio - 1) <= 0.02 ? 0 : 1);
}

struct ResidentCase {
  std::string name;
  MemoryJob job;
};

std::vector<ResidentCase> Cases() {
  MemoryJob activations;  // of 10 layers
  activations.model = {.vocab_size = 300, .n_positions = 128, .n_embd = 64, .n_layer = 10, .n_head = 4};
  activations.options.micro_batch = 64;
  activations.options.sequence_length = 128;
  MemoryJob states;  // 24 million parameters, gathered one unit at a time
  states.model = {.vocab_size = 20000, .n_positions = 64, .n_embd = 512, .n_layer = 4, .n_head = 8};
  states.options.micro_batch = 2;
  states.options.sequence_length = 8;
  states.options.checkpoint = "all";
  MemoryJob halves = states;
  halves.options.dtype = DType::kBFloat16;
  halves.options.sharding = Sharding::kNone;
  return {{"Activations", activations}, {"States", states}, {"StatesInBf16", halves}};
}

class ResidentDeathTest : public ::testing::TestWithParam<ResidentCase> {};

TEST_P(ResidentDeathTest, RisesByThePredictedPeak) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory is resident, too";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(MeasureInThisProcess(GetParam().job), ::testing::ExitedWithCode(0), "rose by");
#endif
}

std::string CaseName(const ::testing::TestParamInfo<ResidentCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Jobs, ResidentDeathTest, ::testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace reprise

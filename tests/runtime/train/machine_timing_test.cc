#include "runtime/train/machine_timing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/gpt2.h"
#include "tests/tools/chain_model.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

const Gpt2Config kSmall = {.vocab_size = 41, .n_positions = 12, .n_embd = 24, .n_layer = 5, .n_head = 3};

JobOptions Options() {
  JobOptions options;
  options.micro_batch = 2;
  options.sequence_length = 12;
  return options;
}

TEST(OneLayerOfEach, KeepsTheFirstOfEachKind) {
  const BatchShape shape{2, 12, DType::kFloat32, /*training=*/true};
  const Model gpt2 = Gpt2(kSmall);
  const Model probe = OneLayerOfEach(gpt2, shape);
  ASSERT_EQ(probe.layer_count(), 1);
  EXPECT_EQ(probe.blocks[1].get(), gpt2.blocks[1].get());
  EXPECT_EQ(OneLayerOfEach(testing::UnequalChain(7, 1), shape).layer_count(), 7);
}

// Every rank has the times of the slowest, and they are those of every kernel that any policy of the job calls.
TEST(MachineTiming, TimesWhatAnyPlanIsMadeOf) {
  const Model model = Gpt2(kSmall);
  for (const int ranks : {1, 2}) {
    std::vector<std::string> texts(static_cast<size_t>(ranks));
    testing::RunRanks(ranks, [&](Communicator& communicator) {
      const auto times = TimeMachine(model, Options(), {}, ranks, communicator);
      ASSERT_TRUE(times.ok()) << times.status();
      texts[static_cast<size_t>(communicator.rank())] = times->ToText();
    });
    for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
    const auto times = MachineTimes::FromText(texts[0]);
    ASSERT_TRUE(times.ok()) << times.status();
    for (const auto& [kernel, nanoseconds] : times->kernel_ns) EXPECT_GT(nanoseconds, 0) << kernel;
    const auto rate = [&](Stream stream) { return times->transfer[static_cast<size_t>(stream)].Nanoseconds(1 << 20); };
    EXPECT_GT(rate(Stream::kOffload), 0);
    EXPECT_GT(rate(Stream::kReload), 0);
    if (ranks > 1) {
      EXPECT_GT(rate(Stream::kGather), 0);
      EXPECT_GT(rate(Stream::kReduce), 0);
    }
    EXPECT_GT(times->update_picoseconds_per_element, 0);
    KernelSet kernels({.kind = KernelKind::kCpu, .threads = 1});
    JobOptions options = Options();
    options.times = std::make_shared<const MachineTimes>(*times);
    for (const char* policy : {"none", "all", "every:2", "selective"}) {
      options.checkpoint = policy;
      const auto job = MakeJobPlan(model, options, ranks, kernels);
      ASSERT_TRUE(job.ok()) << policy << ": " << job.status();
      EXPECT_GT((*job)->estimate->step_ns, 0) << policy;
    }
  }
}

}  // namespace
}  // namespace reprise

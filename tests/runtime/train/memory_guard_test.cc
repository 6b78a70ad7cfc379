// In seeded orders, every arena byte that no running instruction names is off limits: AddressSanitizer reports a touch,
// and elsewhere the poison of freed memory shows as other bits.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "runtime/graph/gradient.h"
#include "runtime/tensor/operation.h"
#include "tests/tools/memory_job.h"
#include "tests/tools/ranks.h"

namespace reprise {
namespace {

using ::reprise::testing::FillRandomBatch;
using ::reprise::testing::MemoryJob;
using ::reprise::testing::RandomMemoryJob;
using ::reprise::testing::RunRanks;

// Losses and norms of two steps, by rank.
std::vector<double> Train(const MemoryJob& what, const StreamOrder& order) {
  const Model model = Gpt2(what.model);
  std::vector<double> numbers(static_cast<size_t>(what.ranks) * 4, -1.0);
  RunRanks(what.ranks, [&](Communicator& communicator) {
    auto created = TrainingJob::Create(model, what.options, {.stream_order = order}, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    ASSERT_TRUE(job.SetParameters(RandomParameters(1)).ok());
    const auto rank = static_cast<size_t>(communicator.rank());
    for (int step = 0; step < 2; ++step) {
      const int64_t counted = FillRandomBatch(what, 10 * rank + static_cast<size_t>(step), job);
      const auto result = job.Step({.seed = 1, .step = step, .learning_rate = 1e-2, .counted_labels = counted});
      ASSERT_TRUE(result.ok()) << result.status();
      numbers[rank * 4 + static_cast<size_t>(step) * 2] = result->loss;
      numbers[rank * 4 + static_cast<size_t>(step) * 2 + 1] = result->gradient_norm;
    }
  });
  return numbers;
}

class MemoryGuardTest : public ::testing::TestWithParam<int> {};

TEST_P(MemoryGuardTest, NothingTouchesBytesThatAreNotLive) {
  std::mt19937_64 random(static_cast<uint64_t>(1000 + GetParam()));
  const MemoryJob what = RandomMemoryJob(random);
  SCOPED_TRACE(what.ToString());
  const std::vector<double> expected = Train(what, {});
  for (const uint64_t seed : {1, 2}) EXPECT_EQ(Train(what, {.random = true, .seed = seed}), expected);
}

INSTANTIATE_TEST_SUITE_P(Jobs, MemoryGuardTest, ::testing::Range(0, 16));

#ifdef __SANITIZE_ADDRESS__

// `trespass` copies its input, and reads what stands in the arena before it: other items' bytes.
constexpr int64_t kReach = 4096;

void Trespass(const KernelArguments& arguments, int64_t bytes) {
  std::memcpy(arguments.outputs[0], arguments.inputs[0], static_cast<size_t>(bytes));
  const volatile std::byte* begin = arguments.inputs[0] - kReach;
  for (int64_t i = 0; i < kReach; ++i) static_cast<void>(begin[i]);
}

[[maybe_unused]] const bool registered =
    RegisterOperation({.name = "trespass",
                       .infer = [](const OperationTypes& t, const Attributes&) { return OperationTypes{t[0]}; }}) &&
    RegisterGradient("trespass",
                     [](GradientBuilder& b, const Node& node) { b.Add(node.inputs[0], b.Of(node.outputs[0])); }) &&
    RegisterKernel("trespass", KernelKind::kCpu,
                   [](const KernelSpec& spec, const KernelOptions&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                     const int64_t bytes = spec.inputs[0].bytes();
                     return MakeFunctionKernel([bytes](const KernelArguments& a) { Trespass(a, bytes); });
                   });

class TrespassingLayer : public Block {
 public:
  TrespassingLayer()
      : Block("layer"),
        gain_(*this, "gain", {8}, Initializer::Constant(1)),
        bias_(*this, "bias", {8}, Initializer::Constant(0)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return Apply("trespass", {LayerNorm(boundary[0], t.Get(gain_), t.Get(bias_), 1e-5)});
  }

 private:
  Parameter gain_, bias_;
};

void RunTrespasser() {
  MemoryJob what;
  what.model = {.vocab_size = 512, .n_positions = 8, .n_embd = 8, .n_layer = 1, .n_head = 1};
  what.options.sequence_length = 8;
  what.options.sharding = Sharding::kNone;
  Model model = Gpt2(what.model);
  model.blocks[1] = std::make_shared<TrespassingLayer>();
  const MachineOptions machine = {.stream_order = {.random = true, .seed = 1}};
  RunRanks(1, [&](Communicator& communicator) {
    auto job = TrainingJob::Create(model, what.options, machine, communicator);
    REPRISE_CHECK(job.ok()) << job.status().ToString();
    REPRISE_CHECK((*job)->SetParameters(RandomParameters(1)).ok());
    const int64_t counted = FillRandomBatch(what, 1, **job);
    static_cast<void>((*job)->Step({.seed = 1, .learning_rate = 1e-3, .counted_labels = counted}));
  });
}

TEST(MemoryGuardDeathTest, AKernelThatReadsAnotherItemIsCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(RunTrespasser(), "use-after-poison");
}

#endif

}  // namespace
}  // namespace reprise

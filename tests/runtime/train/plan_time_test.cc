// The time that docs/plan_profile.md gives a plan, by two ways that share no code: the planner's rules on the profile
// (CostOf), and the compiled schedule with the gates of that page as waits, on the simulated clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/gpt2.h"
#include "runtime/plan/hardware.h"
#include "runtime/schedule/simulation.h"
#include "runtime/train/job_plan.h"
#include "runtime/train/step_profile.h"

namespace reprise {
namespace {

constexpr int64_t kLayers = 6;

// Links so slow that transfers are exposed, or so fast that they hide.
Hardware Machine(double link) {
  Hardware hardware;
  hardware.name = "test";
  hardware.compute_fp32 = hardware.compute_bf16 = 1e9;
  hardware.memory = 1e10;
  hardware.kernel_latency = 1e-6;
  hardware.link = hardware.network = hardware.host = link;
  hardware.link_latency = 1e-6;
  hardware.disk = hardware.device_memory = 1e12;
  hardware.ranks_per_host = 8;
  return hardware;
}

// A transfer may be placed where an offload or a reduction still reads, and then waits for it; the rules let only the
// step behind both wait. This is the one thing in which a schedule can be slower than its plan.
Schedule WithoutHandovers(Schedule schedule) {
  for (Instruction& instruction : schedule.instructions) {
    if (instruction.stream == Stream::kCompute) continue;
    const auto hands_over = [&](int32_t wait) {
      const Instruction& waited = schedule.instructions[static_cast<size_t>(wait)];
      const bool own_offload = instruction.kind == InstructionKind::kReload && waited.block == instruction.block;
      return waited.kind == InstructionKind::kReduce || (waited.kind == InstructionKind::kOffload && !own_offload);
    };
    instruction.waits.erase(std::remove_if(instruction.waits.begin(), instruction.waits.end(), hands_over),
                            instruction.waits.end());
  }
  return schedule;
}

class PlanTimeTest : public ::testing::Test {
 protected:
  static JobOptions Options() {
    JobOptions options;
    options.micro_batch = 2;
    options.sequence_length = 8;
    options.checkpoint = "all";
    return options;
  }

  std::shared_ptr<const MachineTimes> Times(double link, const JobOptions& options) {
    const auto job = MakeJobPlan(model_, options, kRanks, kernels_);
    EXPECT_TRUE(job.ok()) << job.status();
    MachineTimes times = EstimateTimes(Machine(link), (*job)->schedule.kernels, kRanks);
    times.interference_millionths = {0, 300'000, 200'000, 100'000, 50'000};
    return std::make_shared<const MachineTimes>(times);
  }

  void ExpectSameTime(const JobOptions& options, const std::string& name) {
    const auto job = MakeJobPlan(model_, options, kRanks, kernels_);
    ASSERT_TRUE(job.ok()) << name << job.status();
    const auto times = TimesFromTable((*job)->schedule, TableOf(*options.times));
    ASSERT_TRUE(times.ok()) << times.status();
    const auto ruled = Simulate(WithPlanGates(WithoutHandovers((*job)->schedule)), *times, {.ranks = kRanks});
    ASSERT_TRUE(ruled.ok()) << ruled.status();
    EXPECT_EQ(ruled->makespan_ns, (*job)->estimate->class_ns) << name;
    const auto gated = Simulate(WithPlanGates((*job)->schedule), *times, {.ranks = kRanks});
    ASSERT_TRUE(gated.ok()) << gated.status();
    // Without the gates the schedule is never slower.
    EXPECT_LE((*job)->estimate->step_ns, gated->makespan_ns) << name;
  }

  static constexpr int kRanks = 2;
  const Model model_ = Gpt2({.vocab_size = 61, .n_positions = 8, .n_embd = 24, .n_layer = kLayers, .n_head = 3});
  KernelSet kernels_{KernelOptions{.threads = 1}};
};

TEST_F(PlanTimeTest, OfPlansByHand) {
  for (const double link : {1e6, 1e8, 1e12}) {
    JobOptions options = Options();
    options.times = Times(link, options);
    for (const std::string policy : {"none", "all", "every:2", "every:3"}) {
      for (const int prefetch : {0, 1, 3}) {
        options.checkpoint = policy;
        options.prefetch = prefetch;
        options.offload_activations = policy != "none" && prefetch != 0;
        ExpectSameTime(options, absl::StrCat(policy, " prefetch ", prefetch, " link ", link));
      }
    }
  }
}

// Segments, saved sets, offloaded boundaries and units that stay gathered, in any mixture.
Plan RandomPlan(const Profile& profile, std::mt19937_64& random) {
  const auto below = [&](uint64_t bound) { return random() % bound; };
  Plan plan;
  plan.prefetch = static_cast<int>(below(4));
  for (int64_t i = 0; i < profile.layer_count(); ++i) {
    const std::vector<OptionProfile>& choices = profile.blocks[static_cast<size_t>(i + 1)].options;
    LayerPlan layer;
    const bool continues = i > 0 && plan.layers.back().keep == Keep::kBoundary && !plan.layers.back().stays_gathered;
    if (continues && below(2) == 0) {
      layer.keep = Keep::kBoundary;
      layer.starts_segment = false;
    } else {
      const OptionProfile& choice = choices[below(choices.size())];
      layer.keep = choice.keep;
      layer.set = choice.set;
      layer.offload_boundary = choice.reads_boundary && below(2) == 0;
      layer.stays_gathered = below(4) == 0;
    }
    plan.layers.push_back(layer);
  }
  return plan;
}

TEST_F(PlanTimeTest, OfRandomPlans) {
  std::mt19937_64 random(20);
  for (const double link : {1e6, 1e7, 1e8, 1e10}) {
    JobOptions options = Options();
    options.times = Times(link, options);
    const auto profiled = MakeJobPlan(model_, options, kRanks, kernels_);
    ASSERT_TRUE(profiled.ok()) << profiled.status();
    for (int trial = 0; trial < 25; ++trial) {
      options.plan = RandomPlan(*(*profiled)->profile, random);
      ExpectSameTime(options, absl::StrCat("trial ", trial, " link ", link));
    }
  }
}

}  // namespace
}  // namespace reprise

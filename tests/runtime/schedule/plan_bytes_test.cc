// The bytes of a profile: by the rules of docs/plan_profile.md they add up to the largest live sum of whatever plan is
// compiled, to the byte. The sum is written down here once more, step by step, from the document alone.
#include "runtime/schedule/plan_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/plan/plan_cost.h"
#include "tests/tools/equality.h"
#include "tests/tools/random_plan.h"
#include "tests/tools/schedules.h"

namespace reprise {
namespace {

using ::reprise::testing::EqualityCell;
using ::reprise::testing::PlanCell;
using ::reprise::testing::PlanLetters;
using ::reprise::testing::RandomPlan;
using ::reprise::testing::SmallJob;

struct DocumentStep {
  char kind = 'F';  // F, H, R, B
  int block = 0;
  int slot = -1;
  int micro_batch = 0;
  int first = 0, last = 0;  // of its segment; 0: of none
};

// The six sums of the document.
class DocumentPeak {
 public:
  DocumentPeak(const Profile& profile, const Plan& plan)
      : profile_(profile), plan_(plan), layers_(static_cast<int>(profile.layer_count())) {
    for (int m = 0; m < std::min<int64_t>(profile.accumulation, 3); ++m) AppendMicroBatch(m);
    AssignSlots();
  }

  int64_t Bytes() const {
    int64_t peak = 0;
    for (size_t s = 0; s < steps_.size(); ++s) {
      peak = std::max(peak, profile_.state_bytes + Retained(s) + Own(steps_[s]) + Gathered(s) + Reloading(steps_[s]) +
                                Gradients(s));
    }
    return peak;
  }

  int64_t HostBytes() const {
    int64_t bytes = 0;
    for (int i = 1; i <= layers_; ++i) bytes += layer(i).offload_boundary ? block(i).boundary_bytes : 0;
    return bytes;
  }

 private:
  const BlockProfile& block(int i) const { return profile_.blocks[static_cast<size_t>(i)]; }
  const LayerPlan& layer(int i) const { return plan_.layers[static_cast<size_t>(i - 1)]; }
  const OptionProfile& option(int i) const {
    for (const OptionProfile& o : block(i).options) {
      if (o.keep == layer(i).keep && (o.keep != Keep::kSet || o.set == layer(i).set)) return o;
    }
    ADD_FAILURE() << "layer " << i << " has no such option";
    return block(i).options[0];
  }
  bool Recomputes(int i) const { return layer(i).keep != Keep::kEverything && option(i).recompute_bytes > 0; }
  int SegmentLast(int first) const {
    int last = first;
    while (last < layers_ && !layer(last + 1).starts_segment) ++last;
    return last;
  }

  void AppendMicroBatch(int m) {
    for (int i = 0; i <= layers_; ++i) steps_.push_back({'F', i, -1, m});
    steps_.push_back({'H', layers_ + 1, -1, m});
    for (int first = layers_; first >= 1; --first) {
      if (!layer(first).starts_segment) continue;
      const int last = SegmentLast(first);
      for (int i = first; i <= last && (last > first || Recomputes(i)); ++i) {
        steps_.push_back({'R', i, -1, m, first, last});
      }
      for (int i = last; i >= first; --i) steps_.push_back({'B', i, -1, m, first, last});
    }
    steps_.push_back({'B', 0, -1, m});
  }

  int UnitOf(const DocumentStep& step) const { return step.block == layers_ + 1 ? 0 : step.block; }

  void AssignSlots() {
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].kind == 'B' && steps_[s].block == 0) continue;
      const bool goes_on = s > 0 && steps_[s - 1].slot >= 0 && UnitOf(steps_[s - 1]) == UnitOf(steps_[s]);
      if (!goes_on) slot_first_.push_back(s);
      steps_[s].slot = static_cast<int>(slot_first_.size()) - 1;
    }
  }

  bool InBackward(const DocumentStep& step) const { return step.kind == 'R' || step.kind == 'B'; }

  // 2.
  int64_t Retained(size_t at) const {
    std::vector<bool> retained(static_cast<size_t>(layers_) + 1, false);
    for (size_t s = 0; s <= at; ++s) {
      const DocumentStep& step = steps_[s];
      if (step.block < 1 || step.block > layers_) continue;
      if (step.kind == 'F') retained[static_cast<size_t>(step.block)] = s < at;
      if (InBackward(step)) retained[static_cast<size_t>(step.block)] = false;
    }
    int64_t bytes = 0;
    for (int i = 1; i <= layers_; ++i) {
      if (!retained[static_cast<size_t>(i)]) continue;
      bytes += option(i).kept_bytes;
      const bool resident = layer(i).starts_segment && option(i).reads_boundary && !layer(i).offload_boundary;
      if (resident) bytes += block(i).boundary_bytes;
      if (layer(i).stays_gathered) bytes += block(i).whole_bytes;
    }
    return bytes;
  }

  // 3.
  int64_t Own(const DocumentStep& step) const {
    const int i = step.block;
    if (i == 0) return step.kind == 'F' ? block(0).forward_bytes : block(0).backward_bytes;
    if (step.kind == 'H') return block(i).forward_bytes;
    if (step.kind == 'F') {
      const bool retained = layer(i).starts_segment && option(i).reads_boundary;
      return retained ? option(i).forward_bytes : option(i).forward_bytes_dropped;
    }
    int64_t bytes = step.kind == 'B' ? option(i).backward_bytes
                    : i == step.last ? option(i).recompute_bytes
                                     : block(i).recompute_through_bytes;
    for (int j = step.first; j < i; ++j) bytes += block(j).remade_bytes;
    return bytes;
  }

  // 4.
  int64_t Gathered(size_t at) const {
    if (!profile_.gathers) return 0;
    int begun = 0;  // slots whose first step has been reached
    for (const size_t first : slot_first_) begun += first <= at ? 1 : 0;
    const int own = steps_[at].slot;
    int64_t bytes = own >= 0 ? block(steps_[at].block).whole_bytes : 0;
    const int end = std::min<int>(begun + plan_.prefetch, static_cast<int>(slot_first_.size()));
    for (int k = begun; k < end; ++k) {
      const DocumentStep& first = steps_[slot_first_[static_cast<size_t>(k)]];
      const bool has_gather = !InBackward(first) || !layer(first.block).stays_gathered;
      if (has_gather) bytes += block(first.block).whole_bytes;
    }
    return bytes;
  }

  // 5.
  int64_t Reloading(const DocumentStep& step) const {
    int last = 0;  // layer of the segment whose boundary is on its way
    if (step.kind == 'H') last = layers_;
    if (InBackward(step) && step.block > 0) last = step.first - 1;
    if (last < 1) return 0;
    int first = last;
    while (!layer(first).starts_segment) --first;
    return layer(first).offload_boundary ? block(first).boundary_bytes : 0;
  }

  // 6.
  int64_t Gradients(size_t at) const {
    std::vector<bool> left(profile_.blocks.size(), false);
    int64_t bytes = 0;
    for (size_t s = 0; s < at; ++s) {
      const bool makes = steps_[s].kind == 'B' || steps_[s].kind == 'H';
      if (makes) left[static_cast<size_t>(steps_[s].block)] = true;
      if (makes && s + 1 == at) bytes += block(steps_[s].block).gradient_held_bytes;
    }
    for (size_t b = 0; b < left.size(); ++b) bytes += left[b] ? profile_.blocks[b].gradient_left_bytes : 0;
    return bytes;
  }

  const Profile& profile_;
  const Plan& plan_;
  const int layers_;
  std::vector<DocumentStep> steps_;
  std::vector<size_t> slot_first_;  // first step of each slot
};

Profile ProfileOf(const JobPlan& job) {
  KernelSet kernels({.threads = 1});
  const ScratchBytes scratch = [&](const KernelSpec& spec) -> absl::StatusOr<int64_t> {
    return (*kernels.Get(spec))->scratch_bytes();
  };
  Profile profile;
  const CompileOptions options{job.options.sharding, job.options.accumulation, job.options.optimizer.states()};
  const absl::Status status = FillBytes(job.program, job.units, options, scratch, &profile);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(CheckProfile(profile).ok()) << CheckProfile(profile);
  return profile;
}

// How much larger arenas are than their largest live sums.
struct Overhead {
  int above = 0;
  int plans = 0;
  double most = 1;

  void Add(const Schedule& schedule) {
    ++plans;
    above += schedule.device_bytes > schedule.largest_live_sum ? 1 : 0;
    most = std::max(most, static_cast<double>(schedule.device_bytes) / static_cast<double>(schedule.largest_live_sum));
  }
  void Print(const std::string& name) const {
    std::cout << name << ": " << above << " of " << plans << " arenas are larger than their largest live sum, by "
              << (most - 1) * 100 << " % at most\n";
  }
};

void ExpectTheDocumentsSum(const Profile& profile, const Plan& plan, const Schedule& schedule) {
  const DocumentPeak peak(profile, plan);
  EXPECT_EQ(peak.Bytes(), schedule.largest_live_sum) << PlanLetters(plan);
  EXPECT_EQ(peak.HostBytes(), schedule.host_bytes) << PlanLetters(plan);
  if (profile.accumulation > 1) return;  // CostOf takes one micro-batch
  // Times say which options recompute anything; units stay gathered only where they are gathered at all.
  Profile timed = profile;
  for (BlockProfile& block : timed.blocks) {
    for (OptionProfile& option : block.options) option.recompute_ns = option.recompute_bytes > 0 ? 1 : 0;
  }
  Plan meant = plan;
  for (LayerPlan& layer : meant.layers) layer.stays_gathered = layer.stays_gathered && profile.gathers;
  const absl::StatusOr<PlanCost> cost = CostOf(timed, meant);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->peak_bytes, schedule.largest_live_sum) << PlanLetters(plan);
}

class PlanBytesTest : public ::testing::TestWithParam<EqualityCell> {};

TEST_P(PlanBytesTest, TheDocumentsSumIsTheLargestLiveSum) {
  constexpr int kPlans = 20;
  EqualityCell cell = GetParam();
  const auto reference = PlanCell(cell);
  const Profile profile = ProfileOf(*reference);
  const auto sets = static_cast<int>(reference->program.graph(1).saved_sets.size());
  const std::string name = absl::StrCat(cell.Name(), cell.layers);
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 random(seed);
  Overhead overhead;
  for (int n = 0; n < kPlans; ++n) {
    cell.plan = RandomPlan({.layers = cell.layers, .sets = sets}, &random);
    const auto job = PlanCell(cell);
    ExpectTheDocumentsSum(profile, *cell.plan, job->schedule);
    overhead.Add(job->schedule);
  }
  overhead.Print(name);
}

// Where activations outweigh parameters, other steps make the peak.
TEST(PlanBytes, TheDocumentsSumIsTheLargestLiveSumOfLargeBatches) {
  constexpr int kPlans = 40;
  std::mt19937_64 random(11);
  for (const Sharding sharding : {Sharding::kFull, Sharding::kNone}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      JobOptions options;
      options.micro_batch = 32;
      options.sequence_length = 12;
      options.sharding = sharding;
      options.dtype = dtype;
      const SmallJob reference(options, 2, "gpt2_deep");
      const Profile profile = ProfileOf(reference.plan());
      const auto sets = static_cast<int>(reference.plan().program.graph(1).saved_sets.size());
      Overhead overhead;
      for (int n = 0; n < kPlans; ++n) {
        options.plan = RandomPlan({.layers = reference.layers(), .sets = sets}, &random);
        const SmallJob job(options, 2, "gpt2_deep");
        ExpectTheDocumentsSum(profile, *options.plan, job.schedule());
        overhead.Add(job.schedule());
      }
      overhead.Print(ShardingName(sharding));
    }
  }
}

std::vector<EqualityCell> Cells() {
  std::vector<EqualityCell> cells;
  for (const Sharding sharding : {Sharding::kFull, Sharding::kGradients, Sharding::kOptimizer, Sharding::kNone}) {
    for (const int accumulation : {1, 2, 3}) {
      for (const int ranks : {1, 2}) {
        const bool odd = cells.size() % 2 == 1;
        cells.push_back({.sharding = sharding,
                         .dtype = odd ? DType::kBFloat16 : DType::kFloat32,
                         .dropout = cells.size() % 3 == 0 ? 0.1 : 0.0,
                         .ranks = ranks,
                         .accumulation = accumulation,
                         .layers = 1 + static_cast<int>(cells.size() % 7)});
      }
    }
  }
  return cells;
}

INSTANTIATE_TEST_SUITE_P(Matrix, PlanBytesTest, ::testing::ValuesIn(Cells()), [](const auto& info) {
  return absl::StrCat("layers_", info.param.layers, "_", info.param.Name());
});

}  // namespace
}  // namespace reprise

// Cells of the equality matrix: the same small training run under one choice of checkpointing, offload, sharding,
// precision, dropout, ranks and accumulation; its outcome bit for bit; and what the choice must have cost, in closed
// form.
//
//   const EqualityCell cell{.checkpoint = "every:2", .offload = true, .sharding = Sharding::kFull, .ranks = 2};
//   const std::vector<CellOutcome> outcome = RunOnLocalRanks(cell);        // by rank
//   EXPECT_EQ(FirstDifference(outcome[0], RunOnLocalRanks(cell.Reference())[0]), "");
//   ExpectCounts(cell, outcome);                                           // gathers, offloaded bytes, flops
#ifndef REPRISE_TESTS_TOOLS_EQUALITY_H_
#define REPRISE_TESTS_TOOLS_EQUALITY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "device/device.h"
#include "runtime/fsdp/sharding.h"
#include "runtime/plan/plan.h"
#include "runtime/schedule/step.h"
#include "runtime/tensor/types.h"
#include "runtime/train/job_plan.h"
#include "tests/tools/test_device.h"

namespace reprise::testing {

inline constexpr int kEqualityLayers = 7;
inline constexpr int kEqualitySteps = 3;

struct EqualityCell {
  std::string checkpoint = "none";
  bool offload = false;
  Sharding sharding = Sharding::kFull;
  DType dtype = DType::kFloat32;
  double dropout = 0;
  int ranks = 1;
  int accumulation = 1;
  int prefetch = 1;
  int layers = kEqualityLayers;
  std::optional<Plan> plan = std::nullopt;              // in place of checkpoint, offload and prefetch
  int64_t memory_budget = 0;                            // of checkpoint "auto"
  std::shared_ptr<const MachineTimes> times = nullptr;  // likewise
  std::string model = "gpt2";                           // of equality_models.h
  std::string device = TestDevice();
  bool cuda_graphs = false;

  std::string Name() const;        // "every_2_offload_full_bf16_dropout_R2_accumulation_2_prefetch_1"
  EqualityCell Reference() const;  // keeps everything, moves nothing; all else equal
  friend std::ostream& operator<<(std::ostream& out, const EqualityCell& cell) { return out << cell.Name(); }
};

// What one rank saw.
struct CellOutcome {
  std::vector<StepResult> steps;
  std::vector<std::pair<std::string, std::vector<float>>> tensors;  // last gradients, then parameters after all steps
  int64_t most_gathered = 0;  // units whole at once by the schedule, where each is gathered anew
  int64_t predicted_peak_bytes = 0;
};

// The cell as it is planned, without running it; the second form for one that may be refused.
std::unique_ptr<JobPlan> PlanCell(const EqualityCell& cell);
absl::StatusOr<std::unique_ptr<JobPlan>> TryPlanCell(const EqualityCell& cell);

// One rank of a cell; all ranks call it together.
absl::StatusOr<CellOutcome> RunCell(const EqualityCell& cell, const StreamOrder& order, Communicator& communicator);

// The cell on `local` ranks, each in a thread of its own. A rank that fails fails the test, and has an empty outcome.
// With `random`, each rank draws an order of its own from the seed.
std::vector<CellOutcome> RunOnLocalRanks(const EqualityCell& cell, const StreamOrder& order = {});

// Names the first loss, norm or element whose bits differ; "" where there is none. NaN equals the same NaN.
std::string FirstDifference(const CellOutcome& a, const CellOutcome& b);
uint64_t HashOf(const CellOutcome& outcome);  // of the same bits

// What a step of the cell does, from its policy alone. Not for cells with a plan, another model or number of layers.
struct CellCounts {
  int64_t gathers = 0;
  int64_t offloaded_bytes = 0;
  int64_t recomputed_flops = 0;
};
CellCounts CountsOf(const EqualityCell& cell);

// Every step of every rank did just that.
void ExpectCounts(const EqualityCell& cell, const std::vector<CellOutcome>& outcome);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_EQUALITY_H_

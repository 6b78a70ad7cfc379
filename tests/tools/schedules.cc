#include "tests/tools/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/schedule/step.h"
#include "runtime/snapshot/read_model_config.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/backend.h"
#include "tests/tools/paths.h"
#include "tests/tools/test_device.h"

namespace reprise::testing {
namespace {

JobOptions WithDefaults(JobOptions options) {
  if (options.micro_batch == 1 && options.sequence_length == 1) {
    options.micro_batch = 2;
    options.sequence_length = 8;
  }
  return options;
}

template <typename T>
T Take(absl::StatusOr<T> value) {
  REPRISE_CHECK(value.ok()) << value.status().message();
  return *std::move(value);
}

ModelSource Source(const std::string& fixture) {
  ModelConfig config = Take(ReadModelConfig(PosixStorage(), FixturePath(fixture + "/config.json")));
  return Take(BuildModel("gpt2", config, {}));
}

// Places in the arena, as a rank finds them.
struct Places {
  const Schedule& schedule;
  std::byte* arena;
  int rank;

  float* Floats(const Operand& operand) const {
    return reinterpret_cast<float*>(arena + schedule.items[static_cast<size_t>(operand.item)].offset + operand.offset +
                                    rank * operand.rank_stride);
  }
};

// Numbers about as large as a trained model's; padding and moments zero.
void FillParameters(const JobPlan& plan, const Places& places) {
  for (size_t u = 0; u < plan.units.units.size(); ++u) {
    const Unit& unit = plan.units.units[u];
    const UnitState& state = places.schedule.unit_states[u];
    const int64_t begin = places.rank * unit.shard_elements;
    float* master = places.Floats(state.master_shard);
    std::fill_n(master, unit.shard_elements, 0.0F);
    for (const Operand& moment : state.moments) std::fill_n(places.Floats(moment), unit.shard_elements, 0.0F);
    for (const UnitRange& range : RangesOf(unit, begin, begin + unit.shard_elements)) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        master[i - begin] = 0.3F * static_cast<float>(std::sin(static_cast<double>(i * 37 % 1009 + 11 * u)));
      }
    }
  }
}

void FillBatch(Step& step, int micro_batches, int rank) {
  for (int m = 0; m < micro_batches; ++m) {
    for (size_t i = 0; i < step.tokens(m).size(); ++i) {
      step.tokens(m)[i] = static_cast<int32_t>((i * 7 + static_cast<size_t>(rank * 5 + m)) % 97);
      step.labels(m)[i] = static_cast<int32_t>((i * 11 + static_cast<size_t>(rank * 3 + m)) % 97);
    }
  }
}

void AppendBytes(const void* data, size_t bytes, std::string* out) {
  out->append(static_cast<const char*>(data), bytes);
}

}  // namespace

SmallJob::SmallJob(JobOptions options, int ranks, const std::string& fixture, const std::string& device)
    : source_(Source(fixture)),
      kernels_(KernelsOfDevice(device)),
      plan_(Take(MakeJobPlan(source_.model, WithDefaults(std::move(options)), ranks, kernels_))) {}

ScheduleRunner::ScheduleRunner(const JobPlan& plan, int ranks, const std::string& device)
    : plan_(plan), ranks_(ranks), device_(device) {
  REPRISE_CHECK(plan.options.sharding == Sharding::kFull);
  const KernelOptions options = KernelsOfDevice(device);
  for (int rank = 0; rank < ranks; ++rank) kernels_.push_back(std::make_unique<KernelSet>(options));
}

RunOutcome ScheduleRunner::Run(const Schedule& schedule, const StreamOrder& order) {
  std::vector<RunOutcome> outcomes(static_cast<size_t>(ranks_));
  CommunicatorOptions options;
  options.deadline_seconds = 60;
  std::vector<std::thread> threads;
  for (std::unique_ptr<Communicator>& communicator : MakeLocalCommunicators(ranks_, options)) {
    // A rank that fails takes its communicator with it, so that the others do not wait for it.
    threads.emplace_back([&, own = std::move(communicator)] {
      outcomes[static_cast<size_t>(own->rank())] = RunRank(schedule, order, *own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  RunOutcome all;
  for (const RunOutcome& outcome : outcomes) {
    if (all.status.ok()) all.status = outcome.status;
    all.bits += outcome.bits;
  }
  if (!all.status.ok()) all.bits.clear();
  return all;
}

RunOutcome ScheduleRunner::RunRank(const Schedule& schedule, const StreamOrder& order, Communicator& communicator) {
  const int rank = communicator.rank();
  StreamOrder own_order = order;
  own_order.seed = order.seed * 1000 + static_cast<uint64_t>(rank);
  KernelSet& kernels = *kernels_[static_cast<size_t>(rank)];
  const Backend* const backend = Take(FindBackend(device_));
  const auto device = Take(backend->MakeDevice(
      communicator, {.arena_bytes = schedule.device_bytes, .threads = 1, .stream_order = own_order}));
  const auto host = Take(backend->MakeHostStore(std::max<int64_t>(schedule.host_bytes, 1)));
  const auto own = Take(backend->MakeCommunicator(communicator, *device, {.deadline_seconds = 60}));
  const auto step = Take(Step::Create(schedule, plan_.units, plan_.options.dtype, plan_.options.optimizer,
                                      {.device = device.get(),
                                       .host = host.get(),
                                       .communicator = own != nullptr ? own.get() : &communicator,
                                       .kernels = &kernels,
                                       .copy_kernels = &kernels,
                                       .poison = order.random}));
  const Places places{schedule, device->arena(), rank};
  FillParameters(plan_, places);
  FillBatch(*step, plan_.options.accumulation, rank);
  const int64_t labels = plan_.options.accumulation * plan_.options.micro_batch * plan_.options.sequence_length;
  const absl::StatusOr<StepResult> result = step->Run({.learning_rate = 1e-2, .counted_labels = labels});
  RunOutcome outcome{.status = result.status(), .bits = ""};
  if (!result.ok()) return outcome;
  AppendBytes(&result->loss, sizeof(double), &outcome.bits);
  AppendBytes(&result->gradient_norm, sizeof(double), &outcome.bits);
  for (size_t u = 0; u < plan_.units.units.size(); ++u) {
    const auto bytes = static_cast<size_t>(plan_.units.units[u].shard_elements) * sizeof(float);
    AppendBytes(step->gradient_shard(static_cast<int32_t>(u)).data(), bytes, &outcome.bits);
    AppendBytes(places.Floats(schedule.unit_states[u].master_shard), bytes, &outcome.bits);
  }
  return outcome;
}

}  // namespace reprise::testing

#include "runtime/train/machine_timing.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "runtime/schedule/update_calls.h"
#include "runtime/train/backend.h"
#include "runtime/train/kernel_timing.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostNs = 3'000'000'000;       // of passes over the kernels: another is begun before that only
constexpr int64_t kShortPassNs = 1'000'000'000;  // below it the first pass does not count
constexpr int64_t kBesideNs = 200'000'000;       // of the kernels beside which transfers are timed
constexpr int kMostPasses = 9;
constexpr int kTransfers = 7;  // timed for each size
constexpr int64_t kSmallBytes = 64 << 10;
constexpr int64_t kLargeBytes = 16 << 20;
constexpr int64_t kUpdateElements = 1 << 20;
constexpr int64_t kAligned = 64;  // elements: tensors begin at 256 bytes
constexpr int64_t kMillion = 1'000'000;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

int64_t Median(std::vector<int64_t> samples) {
  const auto middle = samples.begin() + static_cast<int64_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// Where in the arena the timed transfers have their bytes: behind all of the probe's.
int64_t ScratchOffset(const JobPlan& probe) { return RoundUp(probe.device_bytes(), 4096); }

// Starts one transfer of so many bytes, as the stream's work does; `done` as in Work.
using Transfer = std::function<absl::Status(int64_t bytes, Completion* done)>;

class MachineTiming {
 public:
  // `ranks`: of the host's memory. `collectives`: of the device's.
  MachineTiming(const JobPlan& probe, Communicator& ranks, Communicator& collectives, Device* device, HostStore* host)
      : probe_(probe),
        ranks_(ranks),
        collectives_(collectives),
        device_(*device),
        host_(*host),
        kernels_(probe.schedule, device) {}

  absl::StatusOr<MachineTimes> Run(KernelSet& kernels) {
    RETURN_IF_ERROR(kernels_.Bind(kernels));
    RETURN_IF_ERROR(TimeKernels());
    RETURN_IF_ERROR(TimeUpdate(kernels));
    RETURN_IF_ERROR(TimeCopies());
    RETURN_IF_ERROR(TimeCollectives());
    return std::move(times_);
  }

 private:
  absl::Status TimeKernels() {
    const Clock::time_point start = Clock::now();
    ASSIGN_OR_RETURN(const int64_t first, kernels_.Pass());
    // Caches and pages that the first pass finds cold are nothing in a long one.
    if (first < kShortPassNs) kernels_.DropSamples();
    for (int pass = 0; pass < kMostPasses && NanosecondsSince(start) < kMostNs; ++pass) {
      RETURN_IF_ERROR(kernels_.Pass().status());
    }
    times_.kernel_ns = kernels_.Medians();
    calls_beside_ = kernels_.CallsWithin(kBesideNs);
    std::vector<int64_t> alone;
    for (int i = 0; i < 3; ++i) {
      ASSIGN_OR_RETURN(const int64_t pass, kernels_.PassOver(calls_beside_));
      alone.push_back(pass);
    }
    beside_ns_ = Median(alone);
    return absl::OkStatus();
  }

  // The optimizer's rate, by the kernel of the root unit's first parameters.
  absl::Status TimeUpdate(KernelSet& kernels) {
    const int64_t elements = std::min(kUpdateElements, scratch_bytes() / 4 / 4) / kAligned * kAligned;
    if (elements <= 0) return absl::OkStatus();
    const std::vector<Unit>& units = probe_.units.units;
    const Unit& unit = *std::find_if(units.begin(), units.end(), [](const Unit& u) { return u.trained; });
    KernelSpec spec = UpdateCalls(unit, 0, unit.shard_elements, probe_.options.optimizer)[0].spec;
    for (TensorType& type : spec.inputs) type.shape = {elements};
    for (TensorType& type : spec.outputs) type.shape = {elements};
    ASSIGN_OR_RETURN(const Kernel* kernel, kernels.Get(spec));
    const std::byte* gradient = scratch();
    std::vector<std::byte*> outputs;
    for (size_t k = 0; k < spec.outputs.size(); ++k) {
      outputs.push_back(scratch() + static_cast<int64_t>(k + 1) * elements * 4);
    }
    std::vector<int64_t> samples;
    for (int i = 0; i < kTransfers; ++i) {
      WorkTimes times;
      Work work;
      work.times = &times;
      work.run = [&] {
        kernel->Run({.inputs = {&gradient, 1}, .outputs = outputs, .step = kernels_.values()});
        return absl::OkStatus();
      };
      device_.ResetStatistics();
      device_.Enqueue(Stream::kCompute, &work);
      RETURN_IF_ERROR(device_.Synchronize());
      samples.push_back(times.end_ns - times.start_ns);
    }
    times_.update_picoseconds_per_element = Median(samples) * 1000 / elements + 1;
    return absl::OkStatus();
  }

  absl::Status TimeCopies() {
    RETURN_IF_ERROR(TimeTransfer(Stream::kOffload, [this](int64_t bytes, Completion* /*done*/) {
      return host_.Write(0, {scratch(), static_cast<size_t>(bytes)});
    }));
    return TimeTransfer(Stream::kReload, [this](int64_t bytes, Completion* /*done*/) {
      return host_.Read(0, {scratch(), static_cast<size_t>(bytes)});
    });
  }

  absl::Status TimeCollectives() {
    const int ranks = collectives_.size();
    RETURN_IF_ERROR(TimeTransfer(Stream::kGather, [this, ranks](int64_t bytes, Completion* done) {
      collectives_.AllGather(Sequence::kGather, {.label = "timing", .whole = scratch(), .shard_bytes = bytes / ranks},
                             done);
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(TimeTransfer(Stream::kReduce, [this, ranks](int64_t bytes, Completion* done) {
      const int64_t elements = bytes / ranks / 4;
      auto* whole = reinterpret_cast<float*>(scratch());
      collectives_.ReduceScatter(Sequence::kReduce,
                                 {.label = "timing",
                                  .whole = whole,
                                  .shard = whole + collectives_.rank() * elements,
                                  .shard_elements = elements},
                                 done);
      return absl::OkStatus();
    }));
    times_.scalars_ns = times_.transfer[static_cast<size_t>(Stream::kReduce)].latency_ns;
    return absl::OkStatus();
  }

  // Transfers of one size, one after the other on `stream`: nanoseconds for each.
  absl::StatusOr<int64_t> TimeAlone(Stream stream, const Transfer& transfer, int64_t bytes) {
    std::vector<int64_t> samples;
    Completion done;
    Work work;
    if (stream == Stream::kGather || stream == Stream::kReduce) work.completion = &done;
    work.run = [&] { return transfer(bytes, &done); };
    for (int i = 0; i < kTransfers; ++i) {
      RETURN_IF_ERROR(Barrier(ranks_));
      const Clock::time_point start = Clock::now();
      device_.Enqueue(stream, &work);
      RETURN_IF_ERROR(device_.Synchronize());
      samples.push_back(NanosecondsSince(start));
    }
    return Median(samples);
  }

  absl::Status TimeTransfer(Stream stream, const Transfer& transfer) {
    const auto s = static_cast<size_t>(stream);
    const int64_t large = std::min(kLargeBytes, scratch_bytes()) / (ranks_.size() * 128) * (ranks_.size() * 128);
    const int64_t small = std::min(kSmallBytes, large / 16) / (ranks_.size() * 128) * (ranks_.size() * 128);
    if (small <= 0) return absl::OkStatus();  // a probe of next to nothing
    ASSIGN_OR_RETURN(const int64_t small_ns, TimeAlone(stream, transfer, small));
    ASSIGN_OR_RETURN(const int64_t large_ns, TimeAlone(stream, transfer, large));
    TransferTime& time = times_.transfer[s];
    time.picoseconds_per_byte = std::max<int64_t>((large_ns - small_ns) * 1000 / (large - small), 1);
    time.latency_ns = std::max<int64_t>(small_ns - small * time.picoseconds_per_byte / 1000, 0);
    return TimeBeside(stream, transfer, large, large_ns);
  }

  // A short pass over kernels with transfers beside it, of about half its length: what the pass takes longer is lost.
  absl::Status TimeBeside(Stream stream, const Transfer& transfer, int64_t bytes, int64_t transfer_ns) {
    // All ranks make the same number of collectives: the smallest that any wants.
    const int64_t wanted = std::clamp<int64_t>(beside_ns_ / 2 / std::max<int64_t>(transfer_ns, 1), 1, 64);
    ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGatherText(ranks_, absl::StrCat(wanted)));
    int64_t count = wanted;
    for (const std::string& text : all) {
      int64_t theirs = wanted;
      if (absl::SimpleAtoi(text, &theirs)) count = std::min(count, theirs);
    }
    Completion done;
    Work work;
    if (stream == Stream::kGather || stream == Stream::kReduce) work.completion = &done;
    work.run = [&] { return transfer(bytes, &done); };
    std::vector<int64_t> lost;
    for (int i = 0; i < 3; ++i) {
      RETURN_IF_ERROR(Barrier(ranks_));
      for (int64_t k = 0; k < count; ++k) device_.Enqueue(stream, &work);
      ASSIGN_OR_RETURN(const int64_t pass, kernels_.PassOver(calls_beside_));
      lost.push_back(std::max<int64_t>(pass - beside_ns_, 0));
    }
    times_.interference_millionths[static_cast<size_t>(stream)] =
        std::min(Median(lost) * kMillion / (count * transfer_ns), 2 * kMillion);
    return absl::OkStatus();
  }

  // What transfers move lies behind what the kernels beside them read and write.
  std::byte* scratch() const { return device_.arena() + ScratchOffset(probe_); }
  int64_t scratch_bytes() const { return std::min(device_.arena_bytes() - ScratchOffset(probe_), host_.bytes()); }

  const JobPlan& probe_;
  Communicator& ranks_;
  Communicator& collectives_;
  Device& device_;
  HostStore& host_;
  KernelTiming kernels_;
  MachineTimes times_;
  size_t calls_beside_ = 0;
  int64_t beside_ns_ = 0;  // of a pass over these, alone
};

}  // namespace

Model OneLayerOfEach(const Model& model, const BatchShape& shape) {
  const Program program = TraceModel(model, shape);
  Model probe = model;
  probe.blocks.clear();
  std::set<int32_t> seen;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const bool end = b == 0 || b + 1 == model.blocks.size();
    if (end || seen.insert(program.blocks[b].graph).second) probe.blocks.push_back(model.blocks[b]);
  }
  return probe;
}

absl::StatusOr<MachineTimes> TimeMachine(const Model& model, const JobOptions& options, const MachineOptions& machine,
                                         int ranks, Communicator& communicator) {
  JobOptions o = options;
  o.checkpoint = "all";
  o.offload_activations = false;
  o.memory_budget_bytes = 0;
  o.accumulation = 1;
  o.evaluates = false;
  o.times = nullptr;
  o.plan.reset();
  const Model layers = OneLayerOfEach(model, {o.micro_batch, o.sequence_length, o.dtype, /*training=*/true});
  const absl::StatusOr<KernelOptions> kernel_options = KernelsOf(machine);
  RETURN_IF_ERROR(Agree(communicator, kernel_options.status()));
  ASSIGN_OR_RETURN(const Backend* backend, FindBackend(machine.device));
  RETURN_IF_ERROR(Agree(communicator, backend->Select(communicator)));
  KernelSet kernels(*kernel_options);
  ASSIGN_OR_RETURN(const std::unique_ptr<JobPlan> probe, MakeJobPlan(layers, o, ranks, kernels));
  const int64_t arena_bytes = ScratchOffset(*probe) + kLargeBytes;
  absl::StatusOr<std::unique_ptr<Device>> device = backend->MakeDevice(
      communicator,
      {.arena_bytes = arena_bytes, .threads = machine.threads, .deadline_seconds = machine.deadline_seconds});
  absl::StatusOr<std::unique_ptr<HostStore>> host = backend->MakeHostStore(kLargeBytes);
  RETURN_IF_ERROR(Agree(communicator, device.ok() ? host.status() : device.status()));
  absl::StatusOr<std::unique_ptr<Communicator>> own =
      backend->MakeCommunicator(communicator, **device, {.deadline_seconds = machine.deadline_seconds});
  RETURN_IF_ERROR(Agree(communicator, own.status()));
  Communicator& collectives = *own != nullptr ? **own : communicator;
  absl::StatusOr<MachineTimes> mine =
      MachineTiming(*probe, communicator, collectives, device->get(), host->get()).Run(kernels);
  RETURN_IF_ERROR(Agree(communicator, mine.status()));
  ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGatherText(communicator, mine->ToText()));
  MachineTimes slowest;
  for (const std::string& text : all) {
    ASSIGN_OR_RETURN(const MachineTimes times, MachineTimes::FromText(text));
    slowest.TakeSlower(times);
  }
  return slowest;
}

}  // namespace reprise

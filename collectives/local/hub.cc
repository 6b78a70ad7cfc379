#include "collectives/local/hub.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/ordered_sum.h"

namespace reprise {
namespace {

void Copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void GatherAll(const std::vector<Operation>& ranks) {
  for (const Operation& to : ranks) {
    for (size_t from = 0; from < ranks.size(); ++from) {
      const int64_t offset = static_cast<int64_t>(from) * to.bytes;
      if (&to != &ranks[from]) Copy(to.data + offset, ranks[from].data + offset, to.bytes);
    }
  }
}

void ReduceAndScatter(const std::vector<Operation>& ranks, std::vector<const float*>& inputs) {
  for (size_t to = 0; to < ranks.size(); ++to) {
    const int64_t count = ranks[to].bytes / static_cast<int64_t>(sizeof(float));
    for (size_t from = 0; from < ranks.size(); ++from) {
      inputs[from] = ranks[from].whole + static_cast<int64_t>(to) * count;
    }
    SumInRankOrder(inputs, ranks[to].accumulate, count, ranks[to].shard);
  }
}

void ReduceAll(const std::vector<Operation>& ranks, std::vector<const double*>& inputs) {
  constexpr int64_t kBlock = 512;
  std::array<double, kBlock> sums;
  const int64_t count = ranks[0].bytes / static_cast<int64_t>(sizeof(double));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    for (size_t from = 0; from < ranks.size(); ++from) {
      inputs[from] = reinterpret_cast<const double*>(ranks[from].data) + begin;
    }
    SumInRankOrder(inputs, length, sums.data());
    for (const Operation& to : ranks) {
      std::copy_n(sums.data(), length, reinterpret_cast<double*>(to.data) + begin);
    }
  }
}

}  // namespace

LocalHub::LocalHub(int size, double deadline_seconds)
    : size_(size), deadline_seconds_(deadline_seconds), left_(static_cast<size_t>(size), false) {
  const auto ranks = static_cast<size_t>(size);
  for (Line& line : lines_) {
    line.ring.resize(kMaximumPending);
    for (Slot& slot : line.ring) slot.operations.resize(ranks);
    line.next.resize(ranks, 0);
    line.floats.resize(ranks);
    line.doubles.resize(ranks);
  }
  watcher_ = std::thread([this] { WatchDeadlines(); });
}

LocalHub::~LocalHub() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake_watcher_.notify_one();
  }
  watcher_.join();
}

int64_t LocalHub::overhead_bytes() const {
  const int64_t slot = static_cast<int64_t>(sizeof(Slot)) + size_ * static_cast<int64_t>(sizeof(Operation));
  return static_cast<int64_t>(sizeof(LocalHub)) + kSequenceCount * kMaximumPending * slot;
}

void LocalHub::Submit(int rank, Operation operation) {
  Slot* slot = Arrive(rank, &operation);
  if (slot == nullptr) return;
  Line& line = lines_[static_cast<size_t>(operation.sequence)];
  Execute(line, *slot);
  for (const Operation& finished : slot->operations) finished.done->Finish(absl::OkStatus());
  const std::lock_guard lock(mutex_);
  Clear(*slot);
  ++line.completed;
  line.progress = Clock::now();
}

LocalHub::Slot* LocalHub::Arrive(int rank, Operation* operation) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) {
    operation->done->Finish(failure_);
    return nullptr;
  }
  Line& line = lines_[static_cast<size_t>(operation->sequence)];
  operation->number = line.next[static_cast<size_t>(rank)]++;
  Slot& slot = SlotOf(line, operation->number);
  if (absl::Status arrival = CheckArrival(rank, *operation, line, slot); !arrival.ok()) {
    operation->done->Finish(arrival);
    Fail(std::move(arrival));
    return nullptr;
  }
  if (slot.arrived++ == 0) {
    slot.first = rank;
    slot.since = Clock::now();
  }
  slot.operations[static_cast<size_t>(rank)] = *operation;
  if (slot.arrived == size_) {
    slot.running = true;
    return &slot;
  }
  if (watcher_idle_) wake_watcher_.notify_one();
  return nullptr;
}

absl::Status LocalHub::CheckArrival(int rank, const Operation& operation, const Line& line, const Slot& slot) const {
  if (operation.number - line.completed >= kMaximumPending) return TooManyPendingError(rank, operation);
  if (slot.arrived > 0) {
    const OperationHeader mine = HeaderOf(operation);
    const OperationHeader theirs = HeaderOf(slot.operations[static_cast<size_t>(slot.first)]);
    if (!Matches(mine, theirs)) {
      return slot.first < rank ? MismatchError(operation.sequence, slot.first, theirs, rank, mine)
                               : MismatchError(operation.sequence, rank, mine, slot.first, theirs);
    }
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (left_[static_cast<size_t>(peer)] && line.next[static_cast<size_t>(peer)] <= operation.number) {
      return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", DescribeInSequence(operation), " waits for rank ",
                                                 peer, ", which has ended"));
    }
  }
  return absl::OkStatus();
}

void LocalHub::Execute(Line& line, const Slot& slot) const {
  const std::vector<Operation>& ranks = slot.operations;
  switch (ranks[0].kind) {
    case CollectiveKind::kAllGather:
      return GatherAll(ranks);
    case CollectiveKind::kReduceScatter:
      return ReduceAndScatter(ranks, line.floats);
    case CollectiveKind::kAllReduce:
      return ReduceAll(ranks, line.doubles);
    case CollectiveKind::kBroadcast:
      for (const Operation& to : ranks) Copy(to.data, ranks[static_cast<size_t>(to.root)].data, to.bytes);
      return;
    case CollectiveKind::kBarrier:
      return;
  }
}

void LocalHub::Clear(Slot& slot) const {
  for (Operation& operation : slot.operations) operation = Operation();
  slot.arrived = 0;
  slot.running = false;
}

void LocalHub::Fail(absl::Status status) {
  failure_ = std::move(status);
  for (Line& line : lines_) {
    for (Slot& slot : line.ring) {
      if (slot.running || slot.arrived == 0) continue;
      for (const Operation& operation : slot.operations) {
        if (operation.done != nullptr) operation.done->Finish(failure_);
      }
      Clear(slot);
    }
  }
}

void LocalHub::Leave(int rank) {
  const std::lock_guard lock(mutex_);
  left_[static_cast<size_t>(rank)] = true;
  if (!failure_.ok()) return;
  for (Line& line : lines_) {
    for (int64_t number = line.completed; number < line.completed + kMaximumPending; ++number) {
      const Slot& slot = SlotOf(line, number);
      if (slot.running || slot.arrived == 0) continue;
      const bool came = slot.operations[static_cast<size_t>(rank)].done != nullptr;
      return Fail(absl::UnavailableError(absl::StrCat(
          "rank ", rank, " has ended ", came ? "while it had " : "and others wait for it in ",
          DescribeInSequence(slot.operations[static_cast<size_t>(slot.first)]), came ? " in flight" : "")));
    }
  }
}

void LocalHub::WatchDeadlines() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point deadline = CheckDeadlines();
    // Deadlines only grow: a call that comes while the watcher waits for an earlier one need not wake it.
    watcher_idle_ = deadline == Clock::time_point::max();
    if (watcher_idle_) {
      wake_watcher_.wait(lock);
    } else {
      wake_watcher_.wait_until(lock, deadline + std::chrono::milliseconds(1));
    }
  }
}

LocalHub::Clock::time_point LocalHub::CheckDeadlines() {
  Clock::time_point earliest = Clock::time_point::max();
  const auto patience = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(deadline_seconds_));
  for (Line& line : lines_) {
    const Slot& oldest = SlotOf(line, line.completed);
    if (oldest.running || oldest.arrived == 0) continue;
    // A call that stood behind another one waits for its peers only from the other's end.
    const Clock::time_point deadline = std::max(oldest.since, line.progress) + patience;
    if (deadline <= Clock::now()) {
      Fail(DeadlineError(oldest));
      return Clock::time_point::max();
    }
    earliest = std::min(earliest, deadline);
  }
  return earliest;
}

absl::Status LocalHub::DeadlineError(const Slot& slot) const {
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (slot.operations[static_cast<size_t>(rank)].done == nullptr) missing.push_back(rank);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", slot.first, ": ", DescribeInSequence(slot.operations[static_cast<size_t>(slot.first)]),
                   " was not met within ", deadline_seconds_, " s by ", NameRanks(missing)));
}

}  // namespace reprise

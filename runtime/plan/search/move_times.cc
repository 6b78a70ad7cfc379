#include "runtime/plan/search/move_times.h"

#include <algorithm>

#include "runtime/plan/interference.h"

namespace reprise {
namespace {

// Where the gather of the i-th next slot stands.
size_t GatherAt(const TimeLayout& layout, int i) {
  return static_cast<size_t>(layout.gathers) + static_cast<size_t>(i);
}

}  // namespace

// Symbols for the times at one point of the forward. Transfers that a step waits for two steps later are two.
struct MoveTimes::ForwardTimes {
  Lags end = Lags::Of(0);            // of the step before
  Lags due_offload = Lags::Never();  // the next step waits for it
  Lags new_offload = Lags::Never();  // the one after that does
  std::array<Lags, kMostPrefetch + 1> gathers = {Lags::Never(), Lags::Never(), Lags::Never(), Lags::Never()};
  int64_t lost = 0;  // by the next step, to transfers
};

struct MoveTimes::BackwardTimes {
  Lags end = Lags::Of(0);
  Lags due_reduce = Lags::Never();
  Lags new_reduce = Lags::Never();
  Lags reload = Lags::Never();       // of this segment's boundary
  Lags next_reload = Lags::Never();  // of the next one's
  std::array<Lags, kMostPrefetch + 1> gathers = {Lags::Never(), Lags::Never(), Lags::Never(), Lags::Never()};
  size_t slot = 0;
  int64_t lost = 0;
};

MoveTimes::MoveTimes(const Trellis& trellis) : trellis_(trellis) {
  const auto layout = [&](bool copies, bool reduces) {
    TimeLayout result;
    if (copies) result.copy = result.count++;
    if (reduces) result.reduce = result.count++;
    if (trellis.gathers && trellis.prefetch > 0) {
      result.gathers = result.count;
      result.count += trellis.prefetch;
    }
    return result;
  };
  backward_ = layout(trellis.offloads, trellis.reduces);
  if (trellis.offloads) {
    forward_ = layout(true, false);
    return;
  }
  std::vector<ForwardTimes> by_guess(trellis.guesses.size() + 1);  // the first: without one
  for (size_t g = 0; g < by_guess.size(); ++g) {
    const int32_t guess = static_cast<int32_t>(g) - 1;
    by_guess[g] = RunStart(guess);
    for (int32_t layer = 1; layer <= trellis.layers(); ++layer) RunForward(layer, guess, false, &by_guess[g]);
  }
  for (const CutState& state : trellis.states.back()) {
    fixed_heads_.push_back(HeadFrom(by_guess[static_cast<size_t>(state.guess + 1)], state));
  }
}

int64_t MoveTimes::Lost(Stream stream, int64_t ns) const { return LostTo(*trellis_.profile, stream, ns); }

MoveTimes::ForwardTimes MoveTimes::LoadForward() const {
  ForwardTimes times;
  if (forward_.copy >= 0) times.due_offload = Lags::Of(forward_.copy);
  if (forward_.gathers < 0) return times;
  for (int i = 0; i < trellis_.prefetch; ++i) times.gathers[static_cast<size_t>(i)] = Lags::Of(forward_.gathers + i);
  return times;
}

MoveTimes::BackwardTimes MoveTimes::LoadBackward() const {
  BackwardTimes times;
  if (backward_.copy >= 0) times.reload = Lags::Of(backward_.copy);
  if (backward_.reduce >= 0) times.due_reduce = Lags::Of(backward_.reduce);
  if (backward_.gathers < 0) return times;
  for (int i = 0; i < trellis_.prefetch; ++i) times.gathers[static_cast<size_t>(i)] = Lags::Of(backward_.gathers + i);
  return times;
}

LagMatrix MoveTimes::Store(const BackwardTimes& times) const {
  LagMatrix matrix;
  matrix.fill(Lags::Never());
  matrix[0] = times.end;
  if (backward_.copy >= 0) matrix[static_cast<size_t>(backward_.copy)] = times.next_reload;
  if (backward_.reduce >= 0) matrix[static_cast<size_t>(backward_.reduce)] = times.due_reduce;
  if (backward_.gathers < 0) return matrix;
  for (int i = 0; i < trellis_.prefetch; ++i) {
    matrix[GatherAt(backward_, i)] = times.gathers[static_cast<size_t>(i)];
  }
  return matrix;
}

// `gathers` are those of the slot that begins and the ones ahead; the farthest ahead is issued now. It waits for those
// on its stream, of which it need know those only that the compute stream has not waited for.
void MoveTimes::IssueGather(const Slot& slot, Lags* gathers, const Lags& end, int64_t* lost) const {
  const auto farthest = static_cast<size_t>(trellis_.prefetch);
  gathers[farthest] = Lags::Never();
  const int64_t ns = slot.gathered ? trellis_.block(slot.block).gather_ns : 0;
  if (ns == 0) return;
  Lags start = end;
  for (size_t i = 0; i < farthest; ++i) start = Max(start, gathers[i]);
  gathers[farthest] = start + ns;
  *lost += Lost(Stream::kGather, ns);
}

// F(block), and before it the offload of the boundary before it.
void MoveTimes::RunForward(int32_t block, int32_t guess, bool offloads, ForwardTimes* times) const {
  ForwardTimes& t = *times;
  if (offloads) {
    const int64_t ns = trellis_.block(block).offload_ns;
    t.new_offload = Max(t.end, t.due_offload) + ns;
    t.lost += Lost(Stream::kOffload, ns);
  }
  if (trellis_.gathers) {
    IssueGather(trellis_.ForwardSlot(block + trellis_.prefetch, guess), t.gathers.data(), t.end, &t.lost);
  }
  t.end = Max(Max(t.end, t.gathers[0]), t.due_offload) + (trellis_.block(block).forward_ns + t.lost);
  t.lost = 0;
  t.due_offload = t.new_offload;
  t.new_offload = Lags::Never();
  std::rotate(t.gathers.begin(), t.gathers.begin() + 1, t.gathers.end());
  t.gathers.back() = Lags::Never();
}

// F(0), before which the gathers of all slots up to the prefetch are issued.
MoveTimes::ForwardTimes MoveTimes::RunStart(int32_t guess) const {
  ForwardTimes times;
  if (trellis_.gathers) {
    for (int i = 0; i < trellis_.prefetch; ++i) {
      const Slot slot = trellis_.ForwardSlot(i, guess);
      const int64_t ns = slot.gathered ? trellis_.block(slot.block).gather_ns : 0;
      if (ns == 0) continue;
      Lags start = times.end;
      for (int before = 0; before < i; ++before) start = Max(start, times.gathers[static_cast<size_t>(before)]);
      times.gathers[static_cast<size_t>(i)] = start + ns;
      times.lost += Lost(Stream::kGather, ns);
    }
  }
  RunForward(0, guess, false, &times);
  return times;
}

Times MoveTimes::Start(int32_t state) const {
  Times start;
  start.fill(kNever);
  start[0] = 0;
  if (fixed_heads_.empty()) {
    const ForwardTimes times = RunStart(trellis_.state(0, state).guess);
    start[0] = times.end.lag[0];
    for (int i = 0; forward_.gathers >= 0 && i < trellis_.prefetch; ++i) {
      start[GatherAt(forward_, i)] = times.gathers[static_cast<size_t>(i)].lag[0];
    }
  }
  return start;
}

LagMatrix MoveTimes::Forward(const Move& move) const {
  LagMatrix matrix;
  matrix.fill(Lags::Never());
  matrix[0] = Lags::Of(0);
  if (!fixed_heads_.empty()) return matrix;
  const int32_t guess = trellis_.state(move.to_cut, move.to_state).guess;
  ForwardTimes times = LoadForward();
  for (int32_t layer = move.first(); layer <= move.last(); ++layer) {
    RunForward(layer, guess, layer == move.first() && move.offloads, &times);
  }
  matrix[0] = times.end;
  if (forward_.copy >= 0) matrix[static_cast<size_t>(forward_.copy)] = times.due_offload;
  for (int i = 0; forward_.gathers >= 0 && i < trellis_.prefetch; ++i) {
    matrix[GatherAt(forward_, i)] = times.gathers[static_cast<size_t>(i)];
  }
  return matrix;
}

// H, and before it the reload of the last segment's boundary, which may have to wait for its offload.
LagMatrix MoveTimes::HeadFrom(const ForwardTimes& before, const CutState& state) const {
  ForwardTimes t = before;
  const BlockProfile& head = trellis_.profile->blocks.back();
  if (trellis_.gathers) {
    const auto ahead = static_cast<size_t>(trellis_.prefetch);
    Slot slot = {trellis_.layers() + 1, true};
    if (ahead > 0) slot = ahead <= state.ahead.size() ? state.ahead[ahead - 1] : Slot{-1, false};
    IssueGather(slot, t.gathers.data(), t.end, &t.lost);
  }
  BackwardTimes after;
  if (state.offloaded > 0) {
    const int64_t ns = trellis_.block(state.offloaded).reload_ns;
    after.next_reload = Max(t.end, t.due_offload) + ns;
    t.lost += Lost(Stream::kReload, ns);
  }
  after.end = Max(Max(t.end, t.gathers[0]), t.due_offload) + (head.forward_ns + t.lost);
  for (size_t i = 0; i < kMostPrefetch; ++i) after.gathers[i] = t.gathers[i + 1];
  return Store(after);
}

LagMatrix MoveTimes::Head(int32_t state) const {
  if (!fixed_heads_.empty()) return fixed_heads_[static_cast<size_t>(state)];
  return HeadFrom(LoadForward(), trellis_.state(trellis_.layers(), state));
}

// One step of a segment's backward. `slots`: those of the segment, then those ahead of it. A step on the layer of the
// step before (recompute, then backward) does not start a slot.
void MoveTimes::Step(const Move& move, int32_t layer, int64_t duration, const Slots& slots,
                     BackwardTimes* times) const {
  BackwardTimes& t = *times;
  const bool starts_slot = t.slot == 0 || !trellis_.gathers || slots[t.slot - 1].block != layer;
  const bool starts_segment = t.slot == 0;
  if (starts_slot && trellis_.gathers) {
    const size_t farthest = t.slot + static_cast<size_t>(trellis_.prefetch);
    IssueGather(farthest < slots.size() ? slots[farthest] : Slot{-1, false}, t.gathers.data(), t.end, &t.lost);
  }
  const CutState& below = trellis_.state(move.from_cut, move.from_state);
  if (starts_segment && below.offloaded > 0) {
    const int64_t ns = trellis_.block(below.offloaded).reload_ns;
    t.next_reload = Max(t.end, t.reload) + ns;
    t.lost += Lost(Stream::kReload, ns);
  }
  Lags start = Max(t.end, t.due_reduce);
  if (starts_slot) start = Max(start, t.gathers[0]);
  if (starts_segment && move.offloads) start = Max(start, t.reload);
  t.end = start + (duration + t.lost);
  t.lost = 0;
  t.due_reduce = t.new_reduce;
  t.new_reduce = Lags::Never();
  if (!starts_slot) return;
  std::rotate(t.gathers.begin(), t.gathers.begin() + 1, t.gathers.end());
  t.gathers.back() = Lags::Never();
  ++t.slot;
}

LagMatrix MoveTimes::Backward(const Move& move) const {
  if (trellis_.profile->forward_only(move.first())) return Unchanged();
  Slots slots;
  if (trellis_.gathers) {
    slots = trellis_.SlotsOf(move);
    const Slots& ahead = trellis_.state(move.from_cut, move.from_state).ahead;
    slots.insert(slots.end(), ahead.begin(), ahead.end());
  }
  BackwardTimes times = LoadBackward();
  const auto reduce = [&](int32_t block) {
    const int64_t ns = trellis_.reduces ? trellis_.block(block).reduce_ns : 0;
    if (ns == 0) return;
    times.new_reduce = Max(times.end, times.due_reduce) + ns;
    times.lost += Lost(Stream::kReduce, ns);
  };
  // The reduction behind a segment's last step belongs to the next segment, or to B(0).
  reduce(move.last() + 1);
  const OptionProfile& last = trellis_.block(move.last()).options[static_cast<size_t>(move.option)];
  for (int32_t layer = move.first(); layer < move.last(); ++layer) {
    Step(move, layer, trellis_.block(layer).recompute_through_ns, slots, &times);
  }
  const int64_t recompute_ns =
      move.several() ? trellis_.block(move.last()).options.back().recompute_ns : last.recompute_ns;
  if (move.several() || recompute_ns > 0) Step(move, move.last(), recompute_ns, slots, &times);
  for (int32_t layer = move.last(); layer >= move.first(); --layer) {
    Step(move, layer, trellis_.block(layer).backward_ns, slots, &times);
    if (layer > move.first()) reduce(layer);
  }
  return Store(times);
}

// Behind the last segment: its reduction, and B(0) with its own where there is one.
Times MoveTimes::Tail() const {
  BackwardTimes t = LoadBackward();
  const int64_t first = trellis_.profile->first_backward;
  const int64_t ns = trellis_.reduces ? trellis_.block(std::max<int64_t>(first, 1)).reduce_ns : 0;
  if (ns > 0) {
    t.new_reduce = Max(t.end, t.due_reduce) + ns;
    t.lost += Lost(Stream::kReduce, ns);
  }
  if (first > 0) return Max(Max(t.end, t.due_reduce), t.new_reduce).lag;
  t.end = Max(t.end, t.due_reduce) + (trellis_.block(0).backward_ns + t.lost);
  const int64_t last_ns = trellis_.reduces ? trellis_.block(0).reduce_ns : 0;
  t.end = last_ns > 0 ? Max(t.end, t.new_reduce) + last_ns : Max(t.end, t.new_reduce);
  return t.end.lag;
}

LagMatrix MoveTimes::Unchanged() const {
  LagMatrix matrix;
  matrix.fill(Lags::Never());
  for (int i = 0; i < backward_.count; ++i) matrix[static_cast<size_t>(i)] = Lags::Of(i);
  return matrix;
}

// A transfer that the compute stream waits for starts at the latest when the step two before it does, so what it may
// lag behind that step's end is its own time less the step's.
Times MoveTimes::LargestLag(int32_t cut, int32_t state_index) const {
  const CutState& state = trellis_.state(cut, state_index);
  // The step before: of the layer above the cut, or of the lowest with a backward.
  const int64_t lowest = std::max<int64_t>(cut, trellis_.profile->first_backward - 1);
  const bool at_head = lowest == trellis_.layers();
  const BlockProfile& above = trellis_.block(lowest + 1);
  const int64_t step_ns = at_head ? above.forward_ns : above.backward_ns;
  Times lag = {};
  if (backward_.copy >= 0 && state.offloaded > 0) {
    lag[static_cast<size_t>(backward_.copy)] = trellis_.block(state.offloaded).reload_ns - step_ns;
  }
  if (backward_.reduce >= 0 && !at_head) {
    lag[static_cast<size_t>(backward_.reduce)] = trellis_.block(lowest + 2).reduce_ns - step_ns;
  }
  int64_t gathers_ns = 0;
  for (size_t i = 0; backward_.gathers >= 0 && i < state.ahead.size(); ++i) {
    if (!state.ahead[i].gathered) continue;
    gathers_ns += trellis_.block(state.ahead[i].block).gather_ns;
    lag[static_cast<size_t>(backward_.gathers) + i] = gathers_ns - step_ns;
  }
  for (int64_t& ns : lag) ns = std::max<int64_t>(ns, 0);
  return lag;
}

}  // namespace reprise

#include "runtime/plan/search/label_walk.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise {
namespace {

// What a move does to a path's times, once they are asked for.
class Stretch {
 public:
  Stretch(const MoveTimes& times, const LowerBound& bound, const Move& move)
      : times_(times), floor_(bound.floor(move.to_cut, move.to_state)), move_(move) {}

  // Returns by how much the sum of the first times grows.
  int64_t Apply(RelativeTimes* times) const {
    if (!made_) {
      forward_ = times_.Forward(move_);
      backward_ = times_.Backward(move_);
      made_ = true;
    }
    const auto forward = [&](size_t to, size_t from) { return forward_[to].lag[from]; };
    const auto backward = [&](size_t to, size_t from) { return backward_[from].lag[to]; };
    return Multiply(times_.forward().count, forward, floor_.forward, &times->forward) +
           Multiply(times_.backward().count, backward, floor_.backward, &times->backward);
  }

 private:
  // Times below the floor are raised to it. Returns by how much the first grows.
  template <typename Lag>
  static int64_t Multiply(int count, const Lag& lag, const Times& floor, Times* times) {
    const Times old = *times;
    int64_t first = 0;
    for (size_t to = 0; to < static_cast<size_t>(count); ++to) {
      int64_t time = to == 0 ? kNever : first + floor[to];
      for (size_t from = 0; from < static_cast<size_t>(count); ++from) time = std::max(time, old[from] + lag(to, from));
      if (to == 0) first = time;
      (*times)[to] = time - first;
    }
    return first;
  }

  const MoveTimes& times_;
  const RelativeTimes& floor_;
  const Move& move_;
  mutable bool made_ = false;  // many moves are not taken by any path
  mutable LagMatrix forward_;
  mutable LagMatrix backward_;
};

}  // namespace

LabelWalk::LabelWalk(const Trellis& trellis, const MoveTimes& times, const LowerBound& bound, const PeakNeeds* needs,
                     const WalkLimits& limits)
    : trellis_(trellis),
      times_(times),
      bound_(bound),
      needs_(needs),
      limits_(limits),
      extra_{static_cast<size_t>(times.forward().count) - 1, static_cast<size_t>(times.backward().count) - 1} {
  lists_.resize(trellis.states.size());
  origins_.resize(trellis.states.size());
  for (size_t cut = 0; cut < lists_.size(); ++cut) {
    lists_[cut].resize(trellis.states[cut].size());
    origins_[cut].resize(trellis.states[cut].size());
  }
  result_.references = bound.references();
}

RelativeTimes LabelWalk::TimesOf(const Label& label, const LabelList& list) const {
  RelativeTimes times;
  if (extra_.count() == 0) return times;
  const auto forward = list.extra.begin() + label.extra;
  const auto backward = forward + static_cast<int64_t>(extra_.forward);
  std::copy(forward, backward, times.forward.begin() + 1);
  std::copy(backward, backward + static_cast<int64_t>(extra_.backward), times.backward.begin() + 1);
  return times;
}

WalkResult LabelWalk::Run() {
  Start();
  const auto cuts = static_cast<int32_t>(lists_.size());
  int32_t longest = 1;
  for (const Move& move : trellis_.moves) longest = std::max(longest, move.to_cut - move.from_cut);
  for (int32_t cut = 0; cut < cuts; ++cut) {
    for (int32_t state = 0; state < static_cast<int32_t>(lists_[static_cast<size_t>(cut)].size()); ++state) {
      LabelList& list = At(cut, state);
      for (const int32_t index : trellis_.into[static_cast<size_t>(cut)][static_cast<size_t>(state)]) {
        const Move& move = trellis_.moves[static_cast<size_t>(index)];
        Extend(move, index, At(move.from_cut, move.from_state), &list);
      }
      KeepUseful(extra_, &list);
      DropBeyondRoom(cut);
    }
    Remember(cut);
    if (cut >= longest) lists_[static_cast<size_t>(cut - longest)].clear();
  }
  Finish();
  return std::move(result_);
}

void LabelWalk::Start() {
  const Times tail = times_.Tail();
  for (int32_t state = 0; state < static_cast<int32_t>(lists_[0].size()); ++state) {
    const ConvexFunction& to_go = bound_.ToGo(0, state);
    if (trellis_.start_bytes[static_cast<size_t>(state)] > limits_.memory_budget_bytes || to_go.empty()) continue;
    const Times start = times_.Start(state);
    const RelativeTimes& floor = bound_.floor(0, state);
    RelativeTimes relative;
    for (size_t i = 1; i <= extra_.forward; ++i) relative.forward[i] = std::max(start[i] - start[0], floor.forward[i]);
    for (size_t i = 1; i <= extra_.backward; ++i) relative.backward[i] = std::max(tail[i] - tail[0], floor.backward[i]);
    Label label{.time_ns = start[0] + tail[0]};
    label.excess_ns = label.time_ns + bound_.Correction(0, state, relative);
    label.bound_ns = RoundUpSafely(static_cast<double>(label.excess_ns) + to_go.At(0) + bound_.HostCharge(0));
    if (label.bound_ns <= limits_.slowest_ns) Append(label, relative, &At(0, state));
  }
}

bool LabelWalk::Fits(const Label& label, const Move& move) const {
  const std::vector<PeakNeed>& needs = (*needs_)[static_cast<size_t>(move.to_cut)][static_cast<size_t>(move.to_state)];
  // Of those within the budget of the device the last needs least of the host.
  const auto end = std::upper_bound(needs.begin(), needs.end(), limits_.memory_budget_bytes - label.bytes,
                                    [](int64_t bytes, const PeakNeed& need) { return bytes < need.peak_bytes; });
  return end != needs.begin() && label.host + std::prev(end)->host_bytes <= limits_.host_budget_bytes;
}

// Appends all of `from`, taken along the move, but for what can be no part of the plan that is wanted.
void LabelWalk::Extend(const Move& move, int32_t index, const LabelList& from, LabelList* to) const {
  const ConvexFunction& to_go = bound_.ToGo(move.to_cut, move.to_state);
  if (from.labels.empty() || to_go.empty()) return;
  const Stretch stretch(times_, bound_, move);
  const int64_t at_least = bound_.AtLeast(index);
  const int64_t most_below =
      std::min(limits_.memory_budget_bytes - move.needed_bytes, to_go.last() - move.retained_bytes);
  size_t hint = 0;
  for (size_t parent = 0; parent < from.labels.size(); ++parent) {
    const Label& below = from.labels[parent];
    if (below.bytes > most_below) break;  // they come by rising bytes
    Label label{.bytes = below.bytes + move.retained_bytes, .move = index, .parent = static_cast<int32_t>(parent)};
    if (needs_ != nullptr) {
      label.host = below.host + move.host_bytes;
      if (!Fits(label, move)) continue;
    }
    // The times of most need not be worked out to see that they are too late.
    const double to_go_ns = to_go.At(label.bytes, &hint) + bound_.HostCharge(label.host);
    if (RoundUpSafely(static_cast<double>(below.excess_ns + at_least) + to_go_ns) > limits_.slowest_ns) continue;
    RelativeTimes now = TimesOf(below, from);
    label.time_ns = below.time_ns + stretch.Apply(&now);
    label.excess_ns = label.time_ns + bound_.Correction(move.to_cut, move.to_state, now);
    label.bound_ns = RoundUpSafely(static_cast<double>(label.excess_ns) + to_go_ns);
    if (label.bound_ns <= limits_.slowest_ns) Append(label, now, to);
  }
}

void LabelWalk::Append(Label label, const RelativeTimes& times, LabelList* list) const {
  label.extra = static_cast<uint32_t>(list->extra.size());
  list->labels.push_back(label);
  const auto append = [&](const Times& from, size_t count) {
    list->extra.insert(list->extra.end(), from.begin() + 1, from.begin() + 1 + static_cast<int64_t>(count));
  };
  append(times.forward, extra_.forward);
  append(times.backward, extra_.backward);
}

// Of all labels of a cut, those with the least bounds stay.
void LabelWalk::DropBeyondRoom(int32_t cut) {
  std::vector<int64_t> bounds;
  for (const LabelList& list : lists_[static_cast<size_t>(cut)]) {
    for (const Label& label : list.labels) bounds.push_back(label.bound_ns);
  }
  if (static_cast<int64_t>(bounds.size()) <= limits_.labels_a_cut) return;
  const auto last = bounds.begin() + (limits_.labels_a_cut - 1);
  std::nth_element(bounds.begin(), last, bounds.end());
  const int64_t largest = *last;
  int64_t room = limits_.labels_a_cut;
  for (auto kept = bounds.begin(); kept <= last; ++kept) room -= *kept < largest ? 1 : 0;  // for those with `largest`
  for (LabelList& list : lists_[static_cast<size_t>(cut)]) {
    std::vector<char> keep(list.labels.size(), 1);
    for (size_t i = 0; i < keep.size(); ++i) {
      const int64_t bound = list.labels[i].bound_ns;
      if (bound < largest || (bound == largest && room-- > 0)) continue;
      keep[i] = 0;
      result_.dropped_ns = std::min(result_.dropped_ns, bound);
    }
    KeepOnly(keep, extra_, &list);
  }
}

void LabelWalk::Remember(int32_t cut) {
  const auto c = static_cast<size_t>(cut);
  for (size_t state = 0; state < lists_[c].size(); ++state) {
    const LabelList& list = lists_[c][state];
    if (list.labels.empty()) continue;
    result_.labels += static_cast<int64_t>(list.labels.size());
    origins_[c][state].reserve(list.labels.size());
    const Label* best = &list.labels.front();
    for (const Label& label : list.labels) {
      origins_[c][state].push_back({label.move, label.parent});
      if (label.bound_ns < best->bound_ns) best = &label;
    }
    result_.references[c][state] = TimesOf(*best, list);
  }
}

// Joins forward and backward of each label at the last cut, and follows the best one's path back.
void LabelWalk::Finish() {
  const int32_t last = trellis_.layers();
  int32_t state = -1;
  int32_t label = -1;
  for (int32_t s = 0; s < static_cast<int32_t>(lists_.back().size()); ++s) {
    if (trellis_.head_bytes[static_cast<size_t>(s)] < 0) continue;
    const LagMatrix head = times_.Head(s);
    const LabelList& list = At(last, s);
    for (size_t i = 0; i < list.labels.size(); ++i) {
      const Label& candidate = list.labels[i];
      const int64_t time =
          candidate.time_ns + JoinAtHead(head, times_.forward(), times_.backward(), TimesOf(candidate, list));
      if (std::tie(time, candidate.bytes) >= std::tie(result_.time_ns, result_.retained_bytes) && state >= 0) continue;
      if (time > limits_.slowest_ns) continue;
      result_.time_ns = time;
      result_.retained_bytes = candidate.bytes;
      state = s;
      label = static_cast<int32_t>(i);
    }
  }
  for (int32_t cut = last; state >= 0 && cut > 0;) {
    const Origin origin = origins_[static_cast<size_t>(cut)][static_cast<size_t>(state)][static_cast<size_t>(label)];
    const Move& move = trellis_.moves[static_cast<size_t>(origin.move)];
    result_.path.push_back(origin.move);
    cut = move.from_cut;
    state = move.from_state;
    label = origin.parent;
  }
  std::reverse(result_.path.begin(), result_.path.end());
}

}  // namespace reprise

#include "runtime/plan/search/lower_bound.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise {

int64_t JoinAtHead(const LagMatrix& head, const TimeLayout& forward, const TimeLayout& backward,
                   const RelativeTimes& times) {
  int64_t latest = kNever;
  for (size_t b = 0; b < static_cast<size_t>(backward.count); ++b) {
    for (size_t f = 0; f < static_cast<size_t>(forward.count); ++f) {
      latest = std::max(latest, times.forward[f] + head[b].lag[f] + times.backward[b]);
    }
  }
  return latest;
}

LowerBound::LowerBound(const Trellis& trellis, const MoveTimes& times, int64_t memory_budget_bytes)
    : trellis_(&trellis), times_(&times), budget_(memory_budget_bytes) {
  floors_.resize(trellis.states.size());
  least_bytes_.resize(trellis.states.size());
  for (int32_t cut = 0; cut <= trellis.layers(); ++cut) {
    const auto c = static_cast<size_t>(cut);
    floors_[c].resize(trellis.states[c].size());
    least_bytes_[c].assign(trellis.states[c].size(), cut == 0 ? 0 : INT64_MAX);
    for (int32_t state = 0; state < static_cast<int32_t>(floors_[c].size()); ++state) {
      const Times lag = times.LargestLag(cut, state);
      Times& floor = floors_[c][static_cast<size_t>(state)].backward;
      for (size_t i = 0; i < floor.size(); ++i) floor[i] = -lag[i];
    }
  }
  for (const Move& move : trellis.moves) {
    const int64_t below = At(least_bytes_, move.from_cut, move.from_state);
    int64_t& least = least_bytes_[static_cast<size_t>(move.to_cut)][static_cast<size_t>(move.to_state)];
    if (below != INT64_MAX) least = std::min(least, below + move.retained_bytes);
  }
  Refine(floors_);
}

int64_t LowerBound::Correction(int32_t cut, int32_t state, const RelativeTimes& times) const {
  const RelativeTimes& reference = At(references_, cut, state);
  int64_t forward = 0;
  for (size_t i = 1; i < static_cast<size_t>(times_->forward().count); ++i) {
    forward = std::min(forward, times.forward[i] - reference.forward[i]);
  }
  int64_t backward = 0;
  for (size_t i = 1; i < static_cast<size_t>(times_->backward().count); ++i) {
    backward = std::min(backward, times.backward[i] - reference.backward[i]);
  }
  return forward + backward;
}

int64_t LowerBound::LeastExcess(const Move& move) const {
  const RelativeTimes& from = At(references_, move.from_cut, move.from_state);
  const RelativeTimes& to = At(references_, move.to_cut, move.to_state);
  const RelativeTimes& floor = At(floors_, move.to_cut, move.to_state);
  const auto forward_count = static_cast<size_t>(times_->forward().count);
  const LagMatrix ahead = times_->Forward(move);
  int64_t first = kNever;
  int64_t forward = INT64_MAX;
  for (size_t t = 0; t < forward_count; ++t) {
    int64_t time = t == 0 ? kNever : first + floor.forward[t];  // it is raised to there
    for (size_t f = 0; f < forward_count; ++f) time = std::max(time, from.forward[f] + ahead[t].lag[f]);
    if (t == 0) first = time;
    forward = std::min(forward, time - to.forward[t]);
  }
  const auto backward_count = static_cast<size_t>(times_->backward().count);
  const LagMatrix back = times_->Backward(move);
  int64_t backward = INT64_MAX;
  for (size_t t = 0; t < backward_count; ++t) {
    int64_t way = t == 0 ? kNever : first + floor.backward[t];
    for (size_t f = 0; f < backward_count; ++f) way = std::max(way, back[f].lag[t] + from.backward[f]);
    if (t == 0) first = way;
    backward = std::min(backward, way - to.backward[t]);
  }
  return forward + backward;
}

ConvexFunction LowerBound::AtEnd(int32_t state) const {
  const int64_t head_bytes = trellis_->head_bytes[static_cast<size_t>(state)];
  if (head_bytes < 0) return {};
  const int64_t least = JoinAtHead(times_->Head(state), times_->forward(), times_->backward(),
                                   At(references_, trellis_->layers(), state));
  return {At(least_bytes_, trellis_->layers(), state), budget_ - head_bytes, static_cast<double>(least)};
}

void LowerBound::Refine(References references) {
  references_ = std::move(references);
  at_least_.resize(trellis_->moves.size());
  to_go_.assign(trellis_->states.size(), {});
  for (int32_t cut = trellis_->layers(); cut >= 0; --cut) {
    const auto c = static_cast<size_t>(cut);
    for (int32_t state = 0; state < static_cast<int32_t>(trellis_->states[c].size()); ++state) {
      if (cut == trellis_->layers()) {
        to_go_[c].push_back(AtEnd(state));
        continue;
      }
      ConvexUnion best(At(least_bytes_, cut, state));
      for (const int32_t index : trellis_->out_of[c][static_cast<size_t>(state)]) {
        const Move& move = trellis_->moves[static_cast<size_t>(index)];
        const ConvexFunction& above = ToGo(move.to_cut, move.to_state);
        if (above.empty()) continue;
        int64_t& least = at_least_[static_cast<size_t>(index)];
        least = LeastExcess(move);
        best.Add(
            above,
            {.shift = move.retained_bytes, .add = static_cast<double>(least), .limit = budget_ - move.needed_bytes});
      }
      to_go_[c].push_back(best.Take());
    }
  }
  of_all_ = std::numeric_limits<double>::infinity();
  const Times tail = times_->Tail();
  for (int32_t state = 0; state < static_cast<int32_t>(to_go_[0].size()); ++state) {
    if (ToGo(0, state).empty()) continue;
    of_all_ = std::min(of_all_, static_cast<double>(times_->Start(state)[0] + tail[0]) + ToGo(0, state).At(0));
  }
}

}  // namespace reprise

#include "runtime/plan/search/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace reprise {

int64_t RoundUpSafely(double bound) { return static_cast<int64_t>(std::ceil(bound - 0.25 - 1e-12 * std::fabs(bound))); }

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

LowerBound::LowerBound(const Trellis& trellis, const MoveTimes& times, int64_t host_budget_bytes)
    : trellis_(&trellis), times_(&times), host_budget_(host_budget_bytes) {
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
  Refer(floors_);
}

LowerBound LowerBound::Within(int64_t memory_budget_bytes) const {
  LowerBound bound = *this;
  bound.budget_ = memory_budget_bytes;
  bound.BuildAtBestPrice();
  return bound;
}

bool LowerBound::Excludes(int64_t time_ns) const { return std::isinf(of_all_) || RoundUpSafely(of_all_) > time_ns; }

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

int64_t LowerBound::Begin(int32_t state) const {
  const Times start = times_->Start(state);
  const Times tail = times_->Tail();
  const RelativeTimes& least = floor(0, state);
  RelativeTimes times;
  for (size_t i = 1; i < static_cast<size_t>(times_->forward().count); ++i) {
    times.forward[i] = std::max(start[i] - start[0], least.forward[i]);
  }
  for (size_t i = 1; i < static_cast<size_t>(times_->backward().count); ++i) {
    times.backward[i] = std::max(tail[i] - tail[0], least.backward[i]);
  }
  return start[0] + tail[0] + Correction(0, state, times);
}

int64_t LowerBound::End(int32_t state) const {
  return JoinAtHead(times_->Head(state), times_->forward(), times_->backward(),
                    At(references_, trellis_->layers(), state));
}

void LowerBound::Refine(References references) {
  Refer(std::move(references));
  BuildAtBestPrice();
}

void LowerBound::Refer(References references) {
  references_ = std::move(references);
  at_least_.resize(trellis_->moves.size());
  for (size_t i = 0; i < at_least_.size(); ++i) at_least_[i] = LeastExcess(trellis_->moves[i]);
}

void LowerBound::BuildAtBestPrice() {
  Build();
  if (host_budget_ >= 0) SearchHostPrice();
}

void LowerBound::BuildAt(double host_price) {
  host_price_ = host_price;
  Build();
}

// The bound is a concave function of the price. Its top is looked for between nothing and more than a byte of the
// device is worth, or once a price is known, near that.
void LowerBound::SearchHostPrice() {
  constexpr double kGolden = 0.6180339887498949;
  constexpr int kTries = 10;
  const bool first = host_price_ == 0;
  double low = first ? 0 : host_price_ / 2;
  double high = first ? 2 * dearest_ : host_price_ * 2;
  // More would only cost accuracy: no boundary is worth many steps.
  int64_t bytes = std::max<int64_t>(host_budget_, 1);
  for (const BlockProfile& block : trellis_->profile->blocks) bytes = std::max(bytes, block.boundary_bytes);
  high = std::min(high, 16 * of_all_ / static_cast<double>(bytes));
  if (!(high > low)) return;  // the device's memory is no limit, or no plan fits
  double best_price = host_price_;
  double best = of_all_;
  const auto value = [&](double price) {
    BuildAt(price);
    if (of_all_ > best) {
      best = of_all_;
      best_price = price;
    }
    return of_all_;
  };
  double left = high - kGolden * (high - low);
  double right = low + kGolden * (high - low);
  double at_left = value(left);
  double at_right = value(right);
  for (int i = 0; i < kTries; ++i) {
    if (at_left >= at_right) {
      high = right;
      right = left;
      at_right = at_left;
      at_left = value(left = high - kGolden * (high - low));
    } else {
      low = left;
      left = right;
      at_left = at_right;
      at_right = value(right = low + kGolden * (high - low));
    }
  }
  BuildAt(best_price);
}

void LowerBound::Build() {
  to_go_.assign(trellis_->states.size(), {});
  for (int32_t cut = trellis_->layers(); cut >= 0; --cut) {
    const auto c = static_cast<size_t>(cut);
    for (int32_t state = 0; state < static_cast<int32_t>(trellis_->states[c].size()); ++state) {
      if (cut == trellis_->layers()) {
        const int64_t head_bytes = trellis_->head_bytes[static_cast<size_t>(state)];
        to_go_[c].push_back(head_bytes < 0 ? ConvexFunction()
                                           : ConvexFunction(At(least_bytes_, cut, state), budget_ - head_bytes,
                                                            static_cast<double>(End(state))));
        continue;
      }
      ConvexUnion best(At(least_bytes_, cut, state));
      for (const int32_t index : trellis_->out_of[c][static_cast<size_t>(state)]) {
        const Move& move = trellis_->moves[static_cast<size_t>(index)];
        const ConvexFunction& above = ToGo(move.to_cut, move.to_state);
        if (above.empty()) continue;
        const double host_charge = host_price_ * static_cast<double>(move.host_bytes);
        best.Add(above, {.shift = move.retained_bytes,
                         .add = static_cast<double>(AtLeast(index)) + host_charge,
                         .limit = budget_ - move.needed_bytes});
      }
      to_go_[c].push_back(best.Take());
    }
  }
  of_all_ = std::numeric_limits<double>::infinity();
  dearest_ = 0;
  for (int32_t state = 0; state < static_cast<int32_t>(to_go_[0].size()); ++state) {
    const ConvexFunction& to_go = ToGo(0, state);
    if (to_go.empty()) continue;
    of_all_ = std::min(of_all_, static_cast<double>(Begin(state)) + to_go.At(0) + HostCharge(0));
    dearest_ = std::max(dearest_, to_go.LargestSlope());
  }
}

}  // namespace reprise

#include "runtime/plan/search/trellis.h"

#include <algorithm>

#include "runtime/plan/search/move_bytes.h"

namespace reprise {
namespace {

class Builder {
 public:
  Builder(const Profile& profile, const PlanLimits& limits, int prefetch, Trellis* trellis)
      : limits_(limits), trellis_(*trellis), layers_(static_cast<int32_t>(profile.layer_count())) {
    trellis_.profile = &profile;
    trellis_.gathers = profile.gathers;
    trellis_.reduces = profile.reduces;
    trellis_.prefetch = profile.gathers ? prefetch : 0;
    trellis_.states.resize(static_cast<size_t>(layers_) + 1);
    trellis_.into.resize(trellis_.states.size());
    trellis_.out_of.resize(trellis_.states.size());
    if (trellis_.prefetch > 1) AddGuesses(layers_, {});
  }

  void Run() {
    const MoveBytes bytes(trellis_);
    AddStarts(bytes);
    for (int32_t cut = 1; cut <= layers_; ++cut) {
      const int32_t least = cut > ForwardOnly() ? ForwardOnly() : cut - 1;
      for (int32_t from = std::max(least, cut - Longest()); from < cut; ++from) AddMoves(from, cut, bytes);
    }
    for (const CutState& state : trellis_.states.back()) {
      trellis_.head_bytes.push_back(GuessHolds(state) ? bytes.Head(state) : -1);
    }
  }

 private:
  int32_t Longest() const { return static_cast<int32_t>(std::clamp<int64_t>(limits_.longest_segment, 1, layers_)); }

  // The layers up to here have no backward.
  int32_t ForwardOnly() const { return static_cast<int32_t>(trellis_.profile->forward_only_layers()); }

  // All beginnings of backward, from layer `last` down, behind the slots that stand already.
  void AddGuesses(int32_t last, const Slots& slots) {
    const size_t wanted = static_cast<size_t>(trellis_.prefetch) - 1;
    if (slots.size() >= wanted || last == ForwardOnly()) {
      Slots guess(slots.begin(), slots.begin() + static_cast<int64_t>(std::min(slots.size(), wanted)));
      if (std::find(trellis_.guesses.begin(), trellis_.guesses.end(), guess) == trellis_.guesses.end()) {
        trellis_.guesses.push_back(std::move(guess));
      }
      return;
    }
    for (int32_t from = last - 1; from >= std::max<int32_t>(ForwardOnly(), last - Longest()); --from) {
      for (const bool stays : {false, true}) {
        const Move move{.from_cut = from, .to_cut = last, .stays = stays};
        if (stays && (move.several() || !limits_.stays_gathered)) continue;
        Slots longer = slots;
        const Slots own = trellis_.SlotsOf(move);
        longer.insert(longer.end(), own.begin(), own.end());
        AddGuesses(from, longer);
      }
    }
  }

  bool GuessHolds(const CutState& state) const {
    if (state.guess < 0) return true;
    const Slots& guess = trellis_.guesses[static_cast<size_t>(state.guess)];
    return guess.size() <= state.ahead.size() && std::equal(guess.begin(), guess.end(), state.ahead.begin());
  }

  // The forward of this block gathers slots behind the head.
  bool NeedsGuess(int32_t block) const { return !trellis_.guesses.empty() && block + trellis_.prefetch >= layers_ + 2; }

  // Guesses that a path may have once the forward of `block` has run; `guess`: what it has before.
  std::vector<int32_t> GuessesBehind(int32_t block, int32_t guess) const {
    if (guess >= 0 || !NeedsGuess(block)) return {guess};
    std::vector<int32_t> all(trellis_.guesses.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    return all;
  }

  void AddStarts(const MoveBytes& bytes) {
    for (const int32_t guess : GuessesBehind(0, -1)) {
      CutState start;
      start.guess = guess;
      StateIndex(0, start);
      trellis_.start_bytes.push_back(bytes.Start(guess));
    }
  }

  void AddMoves(int32_t from, int32_t to, const MoveBytes& bytes) {
    const std::vector<OptionProfile>& options = trellis_.block(from + 1).options;
    const bool forward_only = trellis_.profile->forward_only(from + 1);
    const int32_t last = forward_only ? 0 : static_cast<int32_t>(options.size()) - 1;
    const bool several = to > from + 1;
    for (int32_t s = 0; s < static_cast<int32_t>(trellis_.states[static_cast<size_t>(from)].size()); ++s) {
      for (int32_t option = several ? last : 0; option <= last; ++option) {
        for (const bool offloads : {false, true}) {
          if (offloads && !(limits_.offloads && options[static_cast<size_t>(option)].reads_boundary)) continue;
          for (const bool stays : {false, true}) {
            if (stays && (several || forward_only || !trellis_.gathers || !limits_.stays_gathered)) continue;
            Add({.from_cut = from,
                 .from_state = s,
                 .to_cut = to,
                 .option = option,
                 .offloads = offloads,
                 .stays = stays},
                bytes);
          }
        }
      }
    }
  }

  void Add(Move move, const MoveBytes& bytes) {
    const CutState below = trellis_.state(move.from_cut, move.from_state);
    CutState above;
    above.offloaded = move.offloads ? move.first() : 0;
    if (trellis_.gathers) {
      above.ahead = trellis_.SlotsOf(move);
      above.ahead.insert(above.ahead.end(), below.ahead.begin(), below.ahead.end());
      above.ahead.resize(std::min(above.ahead.size(), static_cast<size_t>(trellis_.prefetch)));
    }
    trellis_.offloads |= move.offloads;
    for (const int32_t guess : GuessesBehind(move.to_cut, below.guess)) {
      above.guess = guess;
      move.to_state = StateIndex(move.to_cut, above);
      bytes.Set(below, guess, &move);
      const auto index = static_cast<int32_t>(trellis_.moves.size());
      trellis_.moves.push_back(move);
      trellis_.into[static_cast<size_t>(move.to_cut)][static_cast<size_t>(move.to_state)].push_back(index);
      trellis_.out_of[static_cast<size_t>(move.from_cut)][static_cast<size_t>(move.from_state)].push_back(index);
    }
  }

  int32_t StateIndex(int32_t cut, const CutState& state) {
    std::vector<CutState>& states = trellis_.states[static_cast<size_t>(cut)];
    const auto found = std::find(states.begin(), states.end(), state);
    if (found != states.end()) return static_cast<int32_t>(found - states.begin());
    states.push_back(state);
    trellis_.into[static_cast<size_t>(cut)].emplace_back();
    trellis_.out_of[static_cast<size_t>(cut)].emplace_back();
    return static_cast<int32_t>(states.size()) - 1;
  }

  const PlanLimits& limits_;
  Trellis& trellis_;
  const int32_t layers_;
};

}  // namespace

Slots Trellis::SlotsOf(const Move& move) const {
  if (profile->forward_only(move.first())) return {};
  if (!move.several()) return {{move.first(), !move.stays}};
  Slots slots;
  for (int32_t layer = move.first(); layer <= move.last(); ++layer) slots.push_back({layer, true});
  for (int32_t layer = move.last() - 1; layer >= move.first(); --layer) slots.push_back({layer, true});
  return slots;
}

Slot Trellis::ForwardSlot(int64_t k, int32_t guess) const {
  const int64_t head = layers() + 1;
  if (k <= head) return {static_cast<int32_t>(k), true};
  const auto behind = static_cast<size_t>(k - head - 1);
  if (guess < 0 || behind >= guesses[static_cast<size_t>(guess)].size()) return {-1, false};
  return guesses[static_cast<size_t>(guess)][behind];
}

Trellis BuildTrellis(const Profile& profile, const PlanLimits& limits, int prefetch) {
  Trellis trellis;
  Builder(profile, limits, prefetch, &trellis).Run();
  return trellis;
}

Plan PlanOf(const Trellis& trellis, const std::vector<int32_t>& path) {
  Plan plan;
  plan.policy = "auto";
  plan.prefetch = trellis.prefetch;
  for (const int32_t index : path) {
    const Move& move = trellis.moves[static_cast<size_t>(index)];
    for (int32_t layer = move.first(); layer <= move.last(); ++layer) {
      const std::vector<OptionProfile>& options = trellis.block(layer).options;
      const OptionProfile& option = move.several() ? options.back() : options[static_cast<size_t>(move.option)];
      const bool first = layer == move.first();
      plan.layers.push_back({.keep = option.keep,
                             .set = option.set,
                             .starts_segment = first,
                             .offload_boundary = first && move.offloads,
                             .stays_gathered = move.stays});
    }
  }
  return plan;
}

}  // namespace reprise

// Trellis: all plans of one prefetch depth as paths. Cut i lies behind layer i; a move goes from cut a-1 to cut b and
// makes the layers a..b one segment. What a move costs depends on the layers below it only through
//
// - the bytes that they retain, a sum, and
// - the state of the cut: the slots that backward runs next once it has left the segment above, and whether the
// boundary
//   of the topmost segment below has to be reloaded by then.
//
// Memory of a path is then: at each move, bytes retained below + needed_bytes <= budget.
//
// A layer without a backward is a move of its own with one option and no slots.
//
// The gathers of the last forwards are those of the first slots of backward, which the last layers choose. A path that
// comes near the end guesses them, and ends only in a state that makes the guess true.
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_TRELLIS_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_TRELLIS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/profile.h"

namespace reprise {

inline constexpr int kMostPrefetch = 3;

// A run of steps of one unit.
struct Slot {
  int32_t block = 0;
  bool gathered = true;  // false: the unit stayed gathered

  bool operator==(const Slot& other) const = default;
};
using Slots = std::vector<Slot>;

struct CutState {
  Slots ahead;            // the first slots of backward below the cut, as many as are gathered ahead
  int32_t offloaded = 0;  // first layer of the topmost segment, if its boundary is away; else 0
  int32_t guess = -1;     // of Trellis::guesses

  bool operator==(const CutState& other) const = default;
};

struct Move {
  int32_t from_cut = 0;
  int32_t from_state = 0;
  int32_t to_cut = 0;
  int32_t to_state = 0;
  int32_t option = 0;  // of its one layer; of several the last
  bool offloads = false;
  bool stays = false;
  int64_t retained_bytes = 0;  // from its forward to its backward
  int64_t needed_bytes = 0;    // most of its steps, with all that is live but what layers below retain
  int64_t host_bytes = 0;

  int32_t first() const { return from_cut + 1; }
  int32_t last() const { return to_cut; }
  bool several() const { return to_cut > from_cut + 1; }
};

struct Trellis {
  const Profile* profile = nullptr;
  int prefetch = 0;  // 0 without gathers
  bool gathers = false;
  bool reduces = false;
  bool offloads = false;                                  // some move does
  std::vector<Slots> guesses;                             // of the first slots of backward, prefetch - 1 of them
  std::vector<std::vector<CutState>> states;              // by cut
  std::vector<Move> moves;                                // by cut of arrival, then of departure
  std::vector<std::vector<std::vector<int32_t>>> into;    // by cut and state: moves
  std::vector<std::vector<std::vector<int32_t>>> out_of;  // likewise
  std::vector<int64_t> start_bytes;                       // by state of cut 0: what F(0) and B(0) need
  std::vector<int64_t> head_bytes;                        // by state of the last cut: what H needs; -1: not an end

  int32_t layers() const { return static_cast<int32_t>(states.size()) - 1; }
  const BlockProfile& block(int64_t index) const { return profile->blocks[static_cast<size_t>(index)]; }
  const CutState& state(int32_t cut, int32_t index) const {
    return states[static_cast<size_t>(cut)][static_cast<size_t>(index)];
  }
  // The slots of the backward of a move's segment, in order; none for layers without one.
  Slots SlotsOf(const Move& move) const;
  // Slot k of the step: forwards, head, and behind it what the guess says. Block -1: not known, there is no gather.
  Slot ForwardSlot(int64_t k, int32_t guess) const;
};

// The profile has been checked; it outlives the trellis.
Trellis BuildTrellis(const Profile& profile, const PlanLimits& limits, int prefetch);

// The plan of a path, moves from the first layer on.
Plan PlanOf(const Trellis& trellis, const std::vector<int32_t>& path);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_TRELLIS_H_

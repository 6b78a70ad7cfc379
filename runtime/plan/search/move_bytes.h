// Bytes of a move's steps, by the rules of docs/plan_profile.md.
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_MOVE_BYTES_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_MOVE_BYTES_H_

#include <cstdint>
#include <vector>

#include "runtime/plan/search/trellis.h"

namespace reprise {

class MoveBytes {
 public:
  explicit MoveBytes(const Trellis& trellis);

  // Sets retained_bytes, needed_bytes and host_bytes. `below` and `guess`: of the state that it leaves, and the guess
  // of the one where it arrives.
  void Set(const CutState& below, int32_t guess, Move* move) const;

  int64_t Start(int32_t guess) const;              // the larger of F(0) and B(0)
  int64_t Head(const CutState& last_state) const;  // H, without what the layers retain

 private:
  int64_t ForwardGathered(int64_t slot, int32_t guess) const;
  int64_t Retained(const Move& move) const;
  int64_t NeededInForward(int32_t guess, const Move& move) const;
  int64_t NeededInBackward(const CutState& below, const Move& move) const;
  const OptionProfile& OptionOf(const Move& move, int32_t layer) const;

  const Trellis& trellis_;
  std::vector<int64_t> gradients_above_;  // by layer: left by the blocks above it
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_MOVE_BYTES_H_

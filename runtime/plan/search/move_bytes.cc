#include "runtime/plan/search/move_bytes.h"

#include <algorithm>

namespace reprise {

MoveBytes::MoveBytes(const Trellis& trellis) : trellis_(trellis) {
  const std::vector<BlockProfile>& blocks = trellis.profile->blocks;
  gradients_above_.assign(blocks.size(), 0);
  for (size_t i = blocks.size() - 1; i-- > 0;) {
    gradients_above_[i] = gradients_above_[i + 1] + blocks[i + 1].gradient_left_bytes;
  }
}

const OptionProfile& MoveBytes::OptionOf(const Move& move, int32_t layer) const {
  const std::vector<OptionProfile>& options = trellis_.block(layer).options;
  return move.several() ? options.back() : options[static_cast<size_t>(move.option)];
}

// Slots from this one on whose gathers have been issued.
int64_t MoveBytes::ForwardGathered(int64_t slot, int32_t guess) const {
  if (!trellis_.gathers) return 0;
  int64_t sum = 0;
  for (int64_t k = slot; k <= slot + trellis_.prefetch; ++k) {
    const Slot ahead = trellis_.ForwardSlot(k, guess);
    if (ahead.gathered) sum += trellis_.block(ahead.block).whole_bytes;
  }
  return sum;
}

int64_t MoveBytes::Retained(const Move& move) const {
  const BlockProfile& first = trellis_.block(move.first());
  int64_t sum = move.stays ? first.whole_bytes : 0;
  if (OptionOf(move, move.first()).reads_boundary && !move.offloads) sum += first.boundary_bytes;
  for (int32_t layer = move.first(); layer <= move.last(); ++layer) sum += OptionOf(move, layer).kept_bytes;
  return sum;
}

int64_t MoveBytes::NeededInForward(int32_t guess, const Move& move) const {
  const bool boundary_read = OptionOf(move, move.first()).reads_boundary;
  int64_t most = 0;
  int64_t retained = 0;  // by the segment itself, so far
  for (int32_t layer = move.first(); layer <= move.last(); ++layer) {
    const OptionProfile& option = OptionOf(move, layer);
    const bool boundary_lives_on = layer == move.first() && boundary_read;
    most = std::max(most, retained + (boundary_lives_on ? option.forward_bytes : option.forward_bytes_dropped) +
                              ForwardGathered(layer, guess));
    retained += option.kept_bytes;
    if (boundary_lives_on && !move.offloads) retained += trellis_.block(layer).boundary_bytes;
  }
  return most;
}

int64_t MoveBytes::NeededInBackward(const CutState& below, const Move& move) const {
  if (trellis_.profile->forward_only(move.first())) return 0;
  Slots slots = trellis_.SlotsOf(move);
  slots.insert(slots.end(), below.ahead.begin(), below.ahead.end());
  const auto gathered = [&](size_t slot) {
    if (!trellis_.gathers) return int64_t{0};
    int64_t sum = trellis_.block(slots[slot].block).whole_bytes;
    for (size_t k = slot + 1; k < slots.size() && k <= slot + static_cast<size_t>(trellis_.prefetch); ++k) {
      if (slots[k].gathered) sum += trellis_.block(slots[k].block).whole_bytes;
    }
    return sum;
  };
  int64_t gradients = gradients_above_[static_cast<size_t>(move.last())];
  int64_t held = trellis_.block(move.last() + 1).gradient_held_bytes;
  int64_t kept = 0;  // by layers of the segment whose own recompute has not begun
  int64_t most = 0;
  const auto step = [&](int64_t bytes, size_t slot) {
    most = std::max(most, bytes + gradients + held + kept + gathered(slot));
    held = 0;
  };
  if (!move.several()) {
    const OptionProfile& option = OptionOf(move, move.first());
    if (option.recompute_ns > 0) step(option.recompute_bytes, 0);
    step(option.backward_bytes, 0);
  } else {
    for (int32_t layer = move.first(); layer <= move.last(); ++layer) kept += OptionOf(move, layer).kept_bytes;
    size_t slot = 0;
    int64_t waiting = 0;  // what has been remade, with the boundaries
    for (int32_t layer = move.first(); layer <= move.last(); ++layer) {
      const BlockProfile& block = trellis_.block(layer);
      kept -= OptionOf(move, layer).kept_bytes;
      const int64_t own = layer < move.last() ? block.recompute_through_bytes : OptionOf(move, layer).recompute_bytes;
      step(own + waiting, slot++);
      if (layer < move.last()) waiting += block.remade_bytes;
    }
    --slot;  // the last recompute and its backward are one slot
    for (int32_t layer = move.last(); layer >= move.first(); --layer) {
      const BlockProfile& block = trellis_.block(layer);
      step(OptionOf(move, layer).backward_bytes + waiting, slot++);
      gradients += block.gradient_left_bytes;
      held = block.gradient_held_bytes;
      if (layer > move.first()) waiting -= trellis_.block(layer - 1).remade_bytes;
    }
  }
  return most + (below.offloaded > 0 ? trellis_.block(below.offloaded).boundary_bytes : 0);
}

void MoveBytes::Set(const CutState& below, int32_t guess, Move* move) const {
  move->retained_bytes = Retained(*move);
  move->needed_bytes =
      trellis_.profile->state_bytes + std::max(NeededInForward(guess, *move), NeededInBackward(below, *move));
  move->host_bytes = move->offloads ? trellis_.block(move->first()).boundary_bytes : 0;
}

int64_t MoveBytes::Start(int32_t guess) const {
  const BlockProfile& first = trellis_.block(0);
  const int64_t forward = first.forward_bytes + ForwardGathered(0, guess);
  if (trellis_.profile->forward_only(0)) return trellis_.profile->state_bytes + forward;
  const int64_t backward = first.backward_bytes + gradients_above_[0] + trellis_.block(1).gradient_held_bytes;
  return trellis_.profile->state_bytes + std::max(forward, backward);
}

int64_t MoveBytes::Head(const CutState& last_state) const {
  const BlockProfile& head = trellis_.profile->blocks.back();
  int64_t sum = trellis_.profile->state_bytes + head.forward_bytes;
  if (trellis_.gathers) sum += head.whole_bytes;
  for (const Slot& slot : last_state.ahead) {
    if (slot.gathered) sum += trellis_.block(slot.block).whole_bytes;
  }
  if (last_state.offloaded > 0) sum += trellis_.block(last_state.offloaded).boundary_bytes;
  return sum;
}

}  // namespace reprise

// State items: the memory that parameters, optimizer state and the batch take for the whole step, and where in it each
// unit's pieces stand. The same for training and evaluation, so that both find the state at one address.
#ifndef REPRISE_RUNTIME_SCHEDULE_STATE_ITEMS_H_
#define REPRISE_RUNTIME_SCHEDULE_STATE_ITEMS_H_

#include <vector>

#include "runtime/fsdp/sharding.h"
#include "runtime/fsdp/unit.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

struct UnitState {
  Operand master;                // float32: this rank's shard, or the whole unit under `none`
  Operand master_shard;          // this rank's shard of it
  Operand whole;                 // compute type; item -1 under `full`, where each gather makes its own
  std::vector<Operand> moments;  // float32, as large as master
};

struct StateItems {
  std::vector<UnitState> units;
};

// Appends the items to `schedule` (also scalars, tokens and labels of `micro_batches` micro-batches).
StateItems AddStateItems(const UnitLayout& units, Sharding sharding, DType dtype, int moments, int micro_batches,
                         int64_t tokens, Schedule* schedule);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_STATE_ITEMS_H_

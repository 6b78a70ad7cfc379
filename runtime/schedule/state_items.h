// State items: the memory that parameters, optimizer state and the batch take for the whole step, and where in it each
// unit's pieces stand. The same for training and evaluation, so that both find the state at one address.
#ifndef REPRISE_RUNTIME_SCHEDULE_STATE_ITEMS_H_
#define REPRISE_RUNTIME_SCHEDULE_STATE_ITEMS_H_

#include "runtime/fsdp/sharding.h"
#include "runtime/fsdp/unit.h"
#include "runtime/model/program.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

// Appends the items to `schedule` (also scalars, and the data of `micro_batches` micro-batches) and notes them in its
// unit_states, scalars and data. Goes before any other item.
void AddStateItems(const UnitLayout& units, Sharding sharding, DType dtype, int moments, int micro_batches,
                   const DataBytes& data_bytes, Schedule* schedule);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_STATE_ITEMS_H_

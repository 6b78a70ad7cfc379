#include "runtime/schedule/state_items.h"

#include "absl/strings/str_cat.h"

namespace reprise {
namespace {

constexpr int64_t kFloatBytes = 4;

int32_t AddItem(Schedule* schedule, const std::string& name, int64_t bytes, ItemKind kind) {
  schedule->items.push_back({.name = name, .bytes = bytes, .kind = kind});
  return static_cast<int32_t>(schedule->items.size() - 1);
}

UnitState AddUnit(const Unit& unit, Sharding sharding, DType dtype, int moments, Schedule* schedule) {
  UnitState state;
  const bool master_is_whole = sharding == Sharding::kNone;
  const bool whole_stays = sharding != Sharding::kFull;
  const bool shares_whole = whole_stays && dtype == DType::kFloat32;  // the master is part of the whole copy
  const int64_t shard_bytes = unit.shard_elements * kFloatBytes;
  if (whole_stays) {
    state.whole.item =
        AddItem(schedule, unit.name + " parameters", unit.whole_elements * SizeOf(dtype), ItemKind::kState);
  }
  const int64_t master_bytes = master_is_whole ? unit.whole_elements * kFloatBytes : shard_bytes;
  if (shares_whole) {
    state.master = {state.whole.item, 0, master_is_whole ? 0 : shard_bytes};
  } else {
    state.master = {AddItem(schedule, unit.name + " master parameters", master_bytes, ItemKind::kState), 0, 0};
  }
  state.master_shard = {state.master.item, 0, shares_whole || master_is_whole ? shard_bytes : 0};
  for (int m = 0; unit.trained && m < moments; ++m) {
    state.moments.push_back(
        {AddItem(schedule, absl::StrCat(unit.name, " optimizer state ", m + 1), master_bytes, ItemKind::kState), 0, 0});
  }
  return state;
}

}  // namespace

void AddStateItems(const UnitLayout& units, Sharding sharding, DType dtype, int moments, int micro_batches,
                   const DataBytes& data_bytes, Schedule* schedule) {
  for (const Unit& unit : units.units) {
    schedule->unit_states.push_back(AddUnit(unit, sharding, dtype, moments, schedule));
  }
  schedule->scalars =
      AddItem(schedule, "scalars", kScalarCount * static_cast<int64_t>(sizeof(double)), ItemKind::kBatch);
  for (int m = 0; m < micro_batches; ++m) {
    for (size_t kind = 0; kind < data_bytes.size(); ++kind) {
      if (data_bytes[kind] == 0) continue;
      const std::string name = absl::StrCat(DataKindName(static_cast<DataKind>(kind)), " ", m);
      schedule->data[kind].push_back(AddItem(schedule, name, data_bytes[kind], ItemKind::kBatch));
    }
  }
}

}  // namespace reprise

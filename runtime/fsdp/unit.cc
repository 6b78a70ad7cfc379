#include "runtime/fsdp/unit.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"

namespace reprise {
namespace {

constexpr int64_t kAlignmentBytes = 128;

void AddParameters(const ProgramBlock& block, Unit* unit) {
  for (const Parameter* parameter : block.parameters) {
    const bool known = std::any_of(unit->parameters.begin(), unit->parameters.end(),
                                   [&](const UnitParameter& p) { return p.parameter == parameter; });
    if (!known) unit->parameters.push_back({parameter, 0});
  }
}

void AssignOffsets(int64_t alignment, int ranks, Unit* unit) {
  std::sort(unit->parameters.begin(), unit->parameters.end(), [](const UnitParameter& a, const UnitParameter& b) {
    return a.parameter->serial() < b.parameter->serial();
  });
  int64_t offset = 0;
  for (UnitParameter& p : unit->parameters) {
    p.offset = offset;
    offset = RoundUp(offset + p.parameter->elements(), alignment);
  }
  unit->shard_elements = RoundUp((offset + ranks - 1) / ranks, alignment);
  unit->whole_elements = unit->shard_elements * ranks;
}

}  // namespace

UnitLayout MakeUnits(const Program& program, int ranks) {
  UnitLayout layout;
  layout.ranks = ranks;
  layout.units.push_back({"root", {}, 0, 0});
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const bool root = b == 0 || b + 1 == program.blocks.size();
    if (!root) layout.units.push_back({program.blocks[b].name, {}, 0, 0});
    Unit& unit = root ? layout.units.front() : layout.units.back();
    AddParameters(program.blocks[b], &unit);
    layout.unit_of_block.push_back(root ? 0 : static_cast<int32_t>(layout.units.size() - 1));
  }
  const int64_t alignment = kAlignmentBytes / SizeOf(program.shape.dtype);
  for (Unit& unit : layout.units) AssignOffsets(alignment, ranks, &unit);
  return layout;
}

const UnitParameter& UnitLayout::Find(int32_t unit, const Parameter* parameter) const {
  for (const UnitParameter& p : units[static_cast<size_t>(unit)].parameters) {
    if (p.parameter == parameter) return p;
  }
  REPRISE_CHECK(false) << parameter->name() << " is not in unit " << units[static_cast<size_t>(unit)].name;
  return units[0].parameters[0];
}

int64_t UnitLayout::parameter_count() const {
  int64_t count = 0;
  for (const Unit& unit : units) {
    for (const UnitParameter& p : unit.parameters) count += p.parameter->elements();
  }
  return count;
}

std::vector<UnitRange> RangesOf(const Unit& unit, int64_t begin, int64_t end) {
  std::vector<UnitRange> ranges;
  for (const UnitParameter& p : unit.parameters) {
    const int64_t from = std::max(begin, p.offset);
    const int64_t to = std::min(end, p.end());
    if (from < to) ranges.push_back({&p, from, to});
  }
  return ranges;
}

std::vector<UnitRange> GapsOf(const Unit& unit, const std::vector<UnitRange>& ranges) {
  std::vector<UnitRange> gaps;
  int64_t position = 0;
  for (const UnitRange& range : ranges) {
    if (range.begin > position) gaps.push_back({nullptr, position, range.begin});
    position = range.end;
  }
  if (position < unit.whole_elements) gaps.push_back({nullptr, position, unit.whole_elements});
  return gaps;
}

}  // namespace reprise

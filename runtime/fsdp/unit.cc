#include "runtime/fsdp/unit.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/bytes.h"
#include "base/check.h"

namespace reprise {
namespace {

constexpr int64_t kAlignmentBytes = 128;

bool Holds(const Unit& unit, const Parameter* parameter) {
  return std::any_of(unit.parameters.begin(), unit.parameters.end(),
                     [&](const UnitParameter& p) { return p.parameter == parameter; });
}

// A unit is made for the first parameter of its kind.
void AddParameters(const ProgramBlock& block, const std::string& name, UnitGroup* group, std::vector<Unit>* units) {
  for (size_t k = 0; k < block.parameters.size(); ++k) {
    const bool trained = block.trained[k];
    int32_t& index = trained ? group->trained : group->frozen;
    if (index < 0) {
      index = static_cast<int32_t>(units->size());
      units->push_back({.name = trained ? name : name + " frozen", .parameters = {}, .trained = trained});
    }
    Unit& unit = (*units)[static_cast<size_t>(index)];
    if (!Holds(unit, block.parameters[k])) unit.parameters.push_back({block.parameters[k], 0});
  }
}

// By block: the first of the blocks that it shares parameters with, directly or through others; the root's are one.
std::vector<size_t> FirstSharers(const Program& program) {
  std::vector<size_t> first(program.blocks.size());
  std::iota(first.begin(), first.end(), size_t{0});
  const auto join = [&first](size_t a, size_t b) {
    const auto [low, high] = std::minmax({first[a], first[b]});  // copies
    std::replace(first.begin(), first.end(), high, low);
  };
  join(0, program.blocks.size() - 1);
  std::map<const Parameter*, size_t> holder;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    for (const Parameter* parameter : program.blocks[b].parameters) join(holder.emplace(parameter, b).first->second, b);
  }
  return first;
}

int64_t ElementsOf(const Unit& unit) {
  int64_t count = 0;
  for (const UnitParameter& p : unit.parameters) count += p.parameter->elements();
  return count;
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
  const size_t last = program.blocks.size() - 1;
  layout.groups.resize(last);
  const std::vector<size_t> first = FirstSharers(program);
  for (const size_t b : first) layout.group_of_block.push_back(static_cast<int32_t>(b));
  const auto add = [&](size_t b) {
    const std::string name = first[b] == 0 ? "root" : program.blocks[first[b]].name;
    AddParameters(program.blocks[b], name, &layout.groups[first[b]], &layout.units);
  };
  add(0);
  add(last);
  for (size_t b = 1; b < last; ++b) add(b);
  const int64_t alignment = kAlignmentBytes / SizeOf(program.shape.dtype);
  for (Unit& unit : layout.units) AssignOffsets(alignment, ranks, &unit);
  return layout;
}

int32_t GradientUnitOf(const Program& program, const UnitLayout& units, size_t block) {
  return program.blocks[block].trains_any() ? units.GroupOf(block).trained : -1;
}

std::vector<int32_t> UnitGroup::units() const {
  std::vector<int32_t> indices;
  if (frozen >= 0) indices.push_back(frozen);
  if (trained >= 0) indices.push_back(trained);
  return indices;
}

UnitPlace UnitLayout::Find(size_t block, const Parameter* parameter) const {
  for (const int32_t unit : GroupOf(block).units()) {
    for (const UnitParameter& p : units[static_cast<size_t>(unit)].parameters) {
      if (p.parameter == parameter) return {unit, &p};
    }
  }
  REPRISE_CHECK(false) << parameter->name() << " is not among the parameters of block " << block;
  return {};
}

int64_t UnitLayout::WholeElements(size_t block) const {
  int64_t elements = 0;
  for (const int32_t unit : GroupOf(block).units()) elements += units[static_cast<size_t>(unit)].whole_elements;
  return elements;
}

int64_t UnitLayout::parameter_count() const {
  int64_t count = 0;
  for (const Unit& unit : units) count += ElementsOf(unit);
  return count;
}

int64_t UnitLayout::trained_count() const {
  int64_t count = 0;
  for (const Unit& unit : units) count += unit.trained ? ElementsOf(unit) : 0;
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

// Units: how parameters are grouped, laid out in flat buffers and cut into shards.
//
// Parameters stand in the order of their declaration. Each layer is a group; the parameters of the first and last block
// together are the root group (index 0). Blocks that share a parameter are of one group: that of the first of them.
// A group becomes whole at once. It has a unit for its trained parameters and one for its frozen ones, which have
// neither gradients nor optimizer state, or only one of the two; without parameters, none. A unit is one flat buffer of
// elements; every parameter starts at a multiple of 128 bytes of the gathered type, and the buffer is cut into `ranks`
// equal shards of a multiple of 128 bytes. The same offsets hold for parameters, gradients and optimizer state. Padding
// is zero and stands in no norm and no file.
//
//   UnitLayout layout = MakeUnits(program, ranks);
//   layout.units[0].parameters[0].offset;    // elements, in the whole buffer
#ifndef REPRISE_RUNTIME_FSDP_UNIT_H_
#define REPRISE_RUNTIME_FSDP_UNIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/program.h"

namespace reprise {

struct UnitParameter {
  const Parameter* parameter = nullptr;
  int64_t offset = 0;  // elements
  int64_t end() const { return offset + parameter->elements(); }
};

struct Unit {
  std::string name;
  std::vector<UnitParameter> parameters;  // in order of offset
  int64_t shard_elements = 0;
  int64_t whole_elements = 0;  // shard_elements * ranks
  bool trained = true;
};

// Units that become whole together, by index; -1: none.
struct UnitGroup {
  int32_t frozen = -1;
  int32_t trained = -1;

  std::vector<int32_t> units() const;  // in order of gathering
};

// Where a parameter stands.
struct UnitPlace {
  int32_t unit = -1;
  const UnitParameter* parameter = nullptr;
};

struct UnitLayout {
  int ranks = 1;
  std::vector<Unit> units;
  std::vector<UnitGroup> groups;  // the root's, then each layer's
  std::vector<int32_t> group_of_block;

  const UnitGroup& GroupOf(size_t block) const { return groups[static_cast<size_t>(group_of_block[block])]; }
  // Where the group of `block` holds `parameter`; a broken invariant if it does not.
  UnitPlace Find(size_t block, const Parameter* parameter) const;
  int64_t WholeElements(size_t block) const;  // of the units of its group
  int64_t parameter_count() const;            // elements, without padding
  int64_t trained_count() const;              // likewise
};

UnitLayout MakeUnits(const Program& program, int ranks);

// The unit that gradients of the block go to; -1 where all its parameters are frozen.
int32_t GradientUnitOf(const Program& program, const UnitLayout& units, size_t block);

// Part of [begin, end) of a unit that belongs to one parameter; gaps between parameters are not covered.
struct UnitRange {
  const UnitParameter* parameter = nullptr;
  int64_t begin = 0;  // elements, in the whole buffer
  int64_t end = 0;
};
std::vector<UnitRange> RangesOf(const Unit& unit, int64_t begin, int64_t end);

// What `ranges` (ascending, disjoint) leave free of [0, whole_elements).
std::vector<UnitRange> GapsOf(const Unit& unit, const std::vector<UnitRange>& ranges);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_FSDP_UNIT_H_

// Units: how parameters are grouped, laid out in flat buffers and cut into shards.
//
// Parameters stand in the order of their declaration. Each layer is a unit; the parameters of the first and last block
// together are the root unit (index 0). A unit is one flat buffer of elements; every parameter starts at a multiple of
// 128 bytes of the gathered type, and the buffer is cut into `ranks` equal shards of a multiple of 128 bytes. The same
// offsets hold for parameters, gradients and optimizer state. Padding is zero and stands in no norm and no file.
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
};

struct UnitLayout {
  int ranks = 1;
  std::vector<Unit> units;
  std::vector<int32_t> unit_of_block;

  // Where `parameter` stands in `unit`; a broken invariant if it does not.
  const UnitParameter& Find(int32_t unit, const Parameter* parameter) const;
  int64_t parameter_count() const;  // elements, without padding
};

UnitLayout MakeUnits(const Program& program, int ranks);

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

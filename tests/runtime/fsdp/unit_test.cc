// Units: where parameters stand in flat buffers, and how these are cut into shards.
#include "runtime/fsdp/unit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "models/gpt2.h"
#include "tests/tools/threaded_model.h"

namespace reprise {
namespace {

constexpr int64_t kAlignmentBytes = 128;

// A layout, and the program that owns its parameters.
struct Laid {
  Program program;
  UnitLayout layout;
};

Laid LayOut(const Gpt2Config& config, DType dtype, int ranks) {
  Laid laid;
  laid.program = TraceModel(Gpt2(config), {.sequences = 1, .sequence_length = 2, .dtype = dtype});
  laid.layout = MakeUnits(laid.program, ranks);
  return laid;
}

const Gpt2Config kSmall = {.vocab_size = 5, .n_positions = 2, .n_embd = 6, .n_layer = 2, .n_head = 2};

TEST(Units, LayersAreAUnitEachAndTheRestIsRoot) {
  const Laid laid = LayOut(kSmall, DType::kFloat32, 2);
  const UnitLayout& layout = laid.layout;
  ASSERT_EQ(layout.units.size(), 3u);
  EXPECT_EQ(layout.units[0].name, "root");
  EXPECT_EQ(layout.group_of_block, (std::vector<int32_t>{0, 1, 2, 0}));
  for (int32_t g = 0; g < 3; ++g) EXPECT_EQ(layout.groups[static_cast<size_t>(g)].units(), std::vector<int32_t>{g});
  EXPECT_EQ(layout.ranks, 2);
}

// The embedding, "side" and the head share; so do "mix" and "again"; "swap" has no parameter.
TEST(Units, BlocksThatShareAParameterAreOfOneGroup) {
  const Program program = TraceModel(testing::ThreadedModel(), {.sequences = 1, .sequence_length = 2});
  const UnitLayout layout = MakeUnits(program, 2);
  EXPECT_EQ(layout.group_of_block, (std::vector<int32_t>{0, 1, 2, 3, 0, 2, 6, 7, 0}));
  EXPECT_TRUE(layout.groups[3].units().empty());
  EXPECT_TRUE(layout.groups[4].units().empty());
  std::set<const Parameter*> seen;
  for (const Unit& unit : layout.units) {
    for (const UnitParameter& p : unit.parameters) EXPECT_TRUE(seen.insert(p.parameter).second) << p.parameter->name();
  }
  EXPECT_EQ(seen.size(), 12U);
}

// Per layer: 2 norms of 2C, 3C(C + 1), C(C + 1), 4C(C + 1) and C(4C + 1). A tied head adds nothing but its norm.
TEST(Units, CountsATiedWeightOnce) {
  const Laid laid = LayOut(kSmall, DType::kFloat32, 3);
  const UnitLayout& layout = laid.layout;
  const int64_t c = 6;
  const int64_t layer = 4 * c + 4 * c * (c + 1) + 4 * c * (c + 1) + c * (4 * c + 1);
  EXPECT_EQ(layout.parameter_count(), 5 * c + 2 * c + 2 * c + 2 * layer);
  std::set<const Parameter*> seen;
  for (const Unit& unit : layout.units) {
    for (const UnitParameter& p : unit.parameters) EXPECT_TRUE(seen.insert(p.parameter).second) << p.parameter->name();
  }
}

// C=6 float32, aligned to 32 elements: wte 30 -> 32, wpe 12 -> 32, two of ln_f 6 -> 32: 128 in all.
TEST(Units, RootOfASmallModel) {
  const Laid one = LayOut(kSmall, DType::kFloat32, 1);
  const Unit& root = one.layout.units[0];
  ASSERT_EQ(root.parameters.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(root.parameters[i].offset, static_cast<int64_t>(32 * i));
  EXPECT_EQ(root.shard_elements, 128);
  const Laid three = LayOut(kSmall, DType::kFloat32, 3);
  EXPECT_EQ(three.layout.units[0].shard_elements, 64);  // 128 / 3 -> 43 -> 64
  EXPECT_EQ(three.layout.units[0].whole_elements, 192);
}

TEST(Units, EveryPlaceIsAligned) {
  std::mt19937 random(3);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 40; ++i) {
    const int64_t heads = draw(1, 3);
    const Gpt2Config config = {.vocab_size = draw(1, 90),
                               .n_positions = draw(2, 10),
                               .n_embd = heads * draw(1, 13),
                               .n_layer = draw(1, 3),
                               .n_head = heads};
    const DType dtype = i % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
    const int ranks = static_cast<int>(draw(1, 5));
    const Laid laid = LayOut(config, dtype, ranks);
    for (const Unit& unit : laid.layout.units) {
      int64_t end = 0;
      int64_t elements = 0;
      for (const UnitParameter& p : unit.parameters) {
        EXPECT_EQ(p.offset * SizeOf(dtype) % kAlignmentBytes, 0);
        EXPECT_GE(p.offset, end);
        EXPECT_LT((p.offset - end) * SizeOf(dtype), kAlignmentBytes) << "no more padding than alignment asks for";
        end = p.end();
        elements += p.parameter->elements();
      }
      EXPECT_GE(unit.whole_elements, elements);
      EXPECT_GE(unit.whole_elements, end);
      EXPECT_EQ(unit.whole_elements, unit.shard_elements * ranks);
      EXPECT_EQ(unit.shard_elements * SizeOf(dtype) % kAlignmentBytes, 0);
      EXPECT_LT((unit.whole_elements - end) * SizeOf(dtype), kAlignmentBytes * (ranks + 1));
    }
  }
}

// Layer 1 and ln_f are trained.
TEST(Units, FrozenAndTrainedNeverShareOne) {
  Model model = Gpt2(kSmall);
  model.trained = [](const Parameter& p) {
    return p.name().find("h.1.attn") != std::string::npos || p.name().find("ln_f") != std::string::npos;
  };
  const Program program = TraceModel(model, {.sequences = 1, .sequence_length = 2});
  const UnitLayout layout = MakeUnits(program, 2);
  std::map<std::string, size_t> counts;  // parameters
  for (const Unit& unit : layout.units) {
    counts[unit.name] = unit.parameters.size();
    for (const UnitParameter& p : unit.parameters) EXPECT_EQ(model.trained(*p.parameter), unit.trained) << unit.name;
  }
  EXPECT_EQ(counts,
            (std::map<std::string, size_t>{
                {"root frozen", 2}, {"root", 2}, {"layer 0 frozen", 12}, {"layer 1 frozen", 8}, {"layer 1", 4}}));
  EXPECT_EQ(program.first_backward, 2);
  EXPECT_EQ(GradientUnitOf(program, layout, 0), -1);
  EXPECT_EQ(GradientUnitOf(program, layout, 1), -1);
  EXPECT_EQ(layout.units[static_cast<size_t>(GradientUnitOf(program, layout, 2))].name, "layer 1");
  EXPECT_EQ(layout.units[static_cast<size_t>(GradientUnitOf(program, layout, 3))].name, "root");
  EXPECT_LT(layout.trained_count(), layout.parameter_count());
}

TEST(Units, FindNamesThePlace) {
  const Laid laid = LayOut(kSmall, DType::kFloat32, 2);
  const UnitLayout& layout = laid.layout;
  const UnitParameter& second = layout.units[1].parameters[1];
  EXPECT_EQ(layout.Find(1, second.parameter).parameter, &second);
  EXPECT_EQ(layout.Find(1, second.parameter).unit, 1);
}

// By element: the parameter that stands there, or none.
std::vector<const UnitParameter*> Owners(const Unit& unit) {
  std::vector<const UnitParameter*> owners(static_cast<size_t>(unit.whole_elements), nullptr);
  for (const UnitParameter& p : unit.parameters) {
    for (int64_t i = p.offset; i < p.end(); ++i) owners[static_cast<size_t>(i)] = &p;
  }
  return owners;
}

TEST(UnitRanges, CoverAShardAsBruteForceSays) {
  for (const int ranks : {1, 2, 3, 7}) {
    const Laid laid = LayOut(kSmall, DType::kFloat32, ranks);
    for (const Unit& unit : laid.layout.units) {
      const std::vector<const UnitParameter*> owners = Owners(unit);
      for (int rank = 0; rank < ranks; ++rank) {
        const int64_t begin = rank * unit.shard_elements;
        const int64_t end = begin + unit.shard_elements;
        std::vector<const UnitParameter*> covered(owners.size(), nullptr);
        int64_t position = begin;
        for (const UnitRange& range : RangesOf(unit, begin, end)) {
          ASSERT_GE(range.begin, position);
          ASSERT_LT(range.begin, range.end);
          ASSERT_LE(range.end, end);
          position = range.end;
          for (int64_t i = range.begin; i < range.end; ++i) covered[static_cast<size_t>(i)] = range.parameter;
        }
        for (int64_t i = begin; i < end; ++i) {
          ASSERT_EQ(covered[static_cast<size_t>(i)], owners[static_cast<size_t>(i)]) << "element " << i;
        }
      }
    }
  }
}

TEST(UnitRanges, GapsAreWhatRangesLeave) {
  std::mt19937 random(4);
  const Laid laid = LayOut(kSmall, DType::kFloat32, 3);
  const Unit& unit = laid.layout.units[1];
  for (int i = 0; i < 50; ++i) {
    std::vector<UnitRange> ranges;
    std::vector<int> covered(static_cast<size_t>(unit.whole_elements), 0);
    for (const UnitParameter& p : unit.parameters) {
      if (random() % 2 == 0) continue;
      ranges.push_back({&p, p.offset, p.end()});
      for (int64_t e = p.offset; e < p.end(); ++e) ++covered[static_cast<size_t>(e)];
    }
    for (const UnitRange& gap : GapsOf(unit, ranges)) {
      ASSERT_LT(gap.begin, gap.end);
      EXPECT_EQ(gap.parameter, nullptr);
      for (int64_t e = gap.begin; e < gap.end; ++e) ++covered[static_cast<size_t>(e)];
    }
    EXPECT_EQ(std::accumulate(covered.begin(), covered.end(), int64_t{0}), unit.whole_elements);
    EXPECT_EQ(*std::max_element(covered.begin(), covered.end()), 1);
  }
}

}  // namespace
}  // namespace reprise

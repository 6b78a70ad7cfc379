#include "tests/tools/random_profile.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace reprise::testing {
namespace {

constexpr int64_t kAlignment = 256;

// Draws the numbers of one profile. Sizes and times have a scale of their own; coarse profiles have few values.
class Drawer {
 public:
  Drawer(uint64_t seed, const RandomProfileSpec& spec) : random_(seed * 0x9E3779B97F4A7C15u + 1), spec_(spec) {
    const bool coarse = Chance(0.3);
    units_ = coarse ? Between(1, 4) : std::min(spec.largest_units, int64_t{4} << Between(1, 15));
    const int64_t scale = int64_t{10} << Between(1, 24);
    ns_ = coarse ? Between(1, 4) : std::min(spec.largest_ns, scale);
  }

  int64_t Between(int64_t smallest, int64_t largest) { return RandomBetween(random_, smallest, largest); }
  bool Chance(double probability) { return RandomChance(random_, probability); }
  int64_t Size() { return kAlignment * Between(0, units_); }
  int64_t SizeUpTo(int64_t bytes) { return kAlignment * Between(0, bytes / kAlignment); }
  int64_t Time(double scale = 1) { return Between(0, std::max<int64_t>(1, static_cast<int64_t>(scale * ns_))); }

  Profile Draw();

 private:
  void DrawTransfers(Profile* profile);
  BlockProfile DrawLayer(int64_t options, int64_t boundary, int64_t boundary_behind);
  BlockProfile DrawWildLayer(int64_t options);
  void DrawOptions(int64_t options, bool wild, BlockProfile* layer);
  void DrawEnd(int64_t boundary, BlockProfile* block);
  void DrawUnit(BlockProfile* block);
  void SetLayers(Profile* profile);
  void Freeze(Profile* profile);

  std::mt19937_64 random_;
  const RandomProfileSpec& spec_;
  int64_t units_ = 1;  // the largest size, in units of the alignment
  int64_t ns_ = 1;     // a long forward
  double transfer_scale_ = 1;
};

// Kinds of keeping, names, sets, and what falls and rises from option to option.
void Drawer::DrawOptions(int64_t options, bool wild, BlockProfile* layer) {
  std::vector<int64_t> kept(static_cast<size_t>(options));
  std::vector<int64_t> recompute(static_cast<size_t>(options));
  const int64_t everything = Size();
  for (int64_t& bytes : kept) bytes = SizeUpTo(everything);
  for (int64_t& ns : recompute) ns = std::max<int64_t>(wild ? 0 : 1, Time());
  kept.front() = everything;
  if (Chance(0.75)) kept.back() = 0;
  std::sort(kept.begin(), kept.end(), std::greater<>());
  if (!wild) std::sort(recompute.begin(), recompute.end());
  recompute.front() = 0;
  const int64_t first_set = Between(0, 3);
  for (int64_t o = 0; o < options; ++o) {
    OptionProfile option;
    option.keep = o == 0 ? Keep::kEverything : o == options - 1 ? Keep::kBoundary : Keep::kSet;
    if (option.keep == Keep::kSet) option.set = static_cast<int32_t>(first_set + 2 * (options - o));
    option.name = o == 0 ? "everything" : o == options - 1 ? "boundary" : absl::StrCat("set ", option.set);
    option.reads_boundary = o == options - 1 || Chance(0.6);
    option.kept_bytes = kept[static_cast<size_t>(o)];
    option.recompute_ns = recompute[static_cast<size_t>(o)];
    layer->options.push_back(option);
  }
}

BlockProfile Drawer::DrawLayer(int64_t options, int64_t boundary, int64_t boundary_behind) {
  BlockProfile layer;
  layer.forward_ns = Time();
  layer.backward_ns = layer.forward_ns + Time();
  DrawOptions(options, /*wild=*/false, &layer);
  const int64_t everything = layer.options.front().kept_bytes;
  const int64_t work = Size();
  for (OptionProfile& option : layer.options) {
    option.forward_bytes = boundary + option.kept_bytes + boundary_behind + work;
    option.forward_bytes_dropped = option.forward_bytes - SizeUpTo(boundary);
    option.backward_bytes = boundary + everything + 2 * boundary_behind + Size();
    if (option.recompute_ns > 0) option.recompute_bytes = boundary + everything + work;
  }
  const OptionProfile& last = layer.options.back();
  layer.recompute_through_ns = last.recompute_ns + Time(0.25);
  layer.recompute_through_bytes = last.recompute_bytes + boundary_behind;
  layer.remade_bytes = everything + boundary;
  return layer;
}

BlockProfile Drawer::DrawWildLayer(int64_t options) {
  BlockProfile layer;
  layer.forward_ns = Time();
  layer.backward_ns = Time();
  DrawOptions(options, /*wild=*/true, &layer);
  for (OptionProfile& option : layer.options) {
    for (int64_t* bytes :
         {&option.forward_bytes, &option.forward_bytes_dropped, &option.recompute_bytes, &option.backward_bytes}) {
      *bytes = Size();
    }
  }
  layer.recompute_through_ns = Time();
  layer.recompute_through_bytes = Size();
  layer.remade_bytes = Size();
  return layer;
}

void Drawer::DrawUnit(BlockProfile* block) {
  block->gather_ns = Time(transfer_scale_);
  block->reduce_ns = Time(transfer_scale_);
  block->offload_ns = Time(transfer_scale_);
  block->reload_ns = Time(transfer_scale_);
  block->whole_bytes = Size();
  block->gradient_held_bytes = Chance(0.8) ? SizeUpTo(block->whole_bytes) : 0;
  block->gradient_left_bytes = Chance(0.5) ? SizeUpTo(block->whole_bytes) : 0;
}

void Drawer::DrawEnd(int64_t boundary, BlockProfile* block) {
  block->forward_ns = Time(2);
  block->backward_ns = Time(2);
  block->forward_bytes = boundary + Size();
  block->backward_bytes = boundary + Size();
}

// Boundaries and layers: all of one kind, of two or three kinds, or each its own.
void Drawer::SetLayers(Profile* profile) {
  const int64_t layers = Between(spec_.smallest_layers, spec_.largest_layers);
  const int64_t kinds = Chance(0.25) ? 1 : Chance(0.25) ? Between(2, 3) : layers;
  const bool wild = spec_.wild && Chance(0.2);
  const int64_t boundary = Size();
  profile->blocks.resize(static_cast<size_t>(layers + 2));
  std::vector<int64_t> boundaries(profile->blocks.size() + 1, boundary);
  if (kinds > 1) {
    for (int64_t& bytes : boundaries) bytes = Chance(0.5) ? Size() : boundary;
  }
  for (int64_t i = 1; i <= layers; ++i) {
    BlockProfile& block = profile->blocks[static_cast<size_t>(i)];
    if (i <= kinds) {
      const int64_t options = Between(spec_.smallest_options, spec_.largest_options);
      const auto b = static_cast<size_t>(i);
      block = wild ? DrawWildLayer(options) : DrawLayer(options, boundaries[b], boundaries[b + 1]);
      DrawUnit(&block);
    } else {
      block = profile->blocks[static_cast<size_t>(i - kinds)];
    }
    block.name = absl::StrCat("layer ", i);
  }
  for (size_t b = 1; b < profile->blocks.size(); ++b) profile->blocks[b].boundary_bytes = boundaries[b];
}

void Drawer::DrawTransfers(Profile* profile) {
  if (!spec_.transfers) return;
  profile->gathers = Chance(0.6);
  profile->reduces = profile->gathers || Chance(0.5);
  if (Chance(0.5)) return;
  for (int64_t& millionths : profile->interference_millionths) millionths = Between(0, Chance(0.5) ? 1000000 : 5);
}

// Layers without a backward, and others with nothing to reduce.
void Drawer::Freeze(Profile* profile) {
  const auto last = static_cast<int64_t>(profile->blocks.size()) - 1;
  profile->first_backward = Chance(0.5) ? Between(0, std::min<int64_t>(last, 1)) : Between(0, last);
  for (int64_t b = 0; b <= last; ++b) {
    BlockProfile& block = profile->blocks[static_cast<size_t>(b)];
    if (profile->forward_only(b) || Chance(0.2)) block.reduce_ns = 0;
    if (!profile->forward_only(b) || b == 0) continue;
    block.options.front().kept_bytes = 0;
    block.options.front().reads_boundary = false;
  }
}

Profile Drawer::Draw() {
  Profile profile;
  constexpr double kScales[] = {0.05, 0.3, 1, 1, 3};  // cheap to dear beside a forward
  transfer_scale_ = kScales[Between(0, 4)];
  DrawTransfers(&profile);
  SetLayers(&profile);
  BlockProfile& first = profile.blocks.front();
  BlockProfile& last = profile.blocks.back();
  const int64_t boundary_before_last = last.boundary_bytes;
  DrawUnit(&first);
  last = first;  // one unit
  last.reduce_ns = Chance(0.5) ? Time(transfer_scale_) : first.reduce_ns;
  last.boundary_bytes = boundary_before_last;
  DrawEnd(profile.blocks[1].boundary_bytes, &first);
  DrawEnd(boundary_before_last, &last);
  first.name = "first";
  last.name = "last";
  profile.state_bytes = Size();
  profile.update_ns = Time();
  profile.accumulation = Chance(0.7) ? 1 : Between(2, 5);
  if (spec_.transfers && Chance(0.25)) Freeze(&profile);
  return profile;
}

}  // namespace

int64_t RandomBetween(std::mt19937_64& random, int64_t smallest, int64_t largest) {
  return smallest + static_cast<int64_t>(random() % static_cast<uint64_t>(largest - smallest + 1));
}

bool RandomChance(std::mt19937_64& random, double probability) {
  return static_cast<double>(random() >> 11) < probability * 0x1p53;
}

Profile RandomProfile(uint64_t seed, const RandomProfileSpec& spec) {
  Profile profile = Drawer(seed, spec).Draw();
  profile.description = absl::StrCat("random, seed ", seed);
  return profile;
}

PlanLimits RandomLimits(const Profile& profile, std::mt19937_64& random) {
  PlanLimits limits;
  limits.offloads = RandomChance(random, 0.5);
  limits.stays_gathered = RandomChance(random, 0.6);
  limits.longest_segment = RandomBetween(random, 1, 4);
  if (RandomChance(random, 0.1)) limits.longest_segment = std::max<int64_t>(1, profile.layer_count());
  limits.smallest_prefetch = static_cast<int>(RandomBetween(random, 0, 3));
  limits.largest_prefetch = static_cast<int>(RandomBetween(random, limits.smallest_prefetch, 3));
  return limits;
}

Plan RandomPlan(const Profile& profile, const PlanLimits& limits, double thrift, std::mt19937_64& random) {
  Plan plan;
  plan.policy = "random";
  const int largest_prefetch = profile.gathers ? limits.largest_prefetch : limits.smallest_prefetch;
  plan.prefetch = static_cast<int>(RandomBetween(random, limits.smallest_prefetch, largest_prefetch));
  const double offload = RandomChance(random, 0.5) ? 0 : thrift;
  const double stay = RandomChance(random, 0.5) ? 0 : 1 - thrift;
  const int64_t n = profile.layer_count();
  for (int64_t i = 0; i < n;) {
    if (profile.forward_only(i + 1)) {
      plan.layers.emplace_back();
      ++i;
      continue;
    }
    int64_t length = 1;
    while (length < std::min(limits.longest_segment, n - i) && RandomChance(random, thrift * 0.5)) ++length;
    const std::vector<OptionProfile>& options = profile.blocks[static_cast<size_t>(i + 1)].options;
    const auto last = static_cast<int64_t>(options.size()) - 1;
    const int64_t choice = length > 1 ? last : RandomChance(random, thrift) ? RandomBetween(random, 0, last) : 0;
    const OptionProfile& option = options[static_cast<size_t>(choice)];
    LayerPlan layer{.keep = option.keep, .set = option.set};
    layer.offload_boundary = limits.offloads && option.reads_boundary && RandomChance(random, offload);
    layer.stays_gathered = limits.stays_gathered && profile.gathers && length == 1 && RandomChance(random, stay);
    plan.layers.push_back(layer);
    for (int64_t j = 1; j < length; ++j) {
      plan.layers.push_back({.keep = Keep::kBoundary, .starts_segment = false});
    }
    i += length;
  }
  return plan;
}

}  // namespace reprise::testing

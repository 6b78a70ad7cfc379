#include "runtime/plan/profile.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

// Sums of times and of bytes stay below this, so that the planner may add two of them and negate them.
constexpr double kLargestSum = static_cast<double>(int64_t{1} << 60);

struct Field {
  const char* name;
  int64_t value;
};

std::string NameOf(const Profile& profile, size_t block) {
  const std::string& name = profile.blocks[block].name;
  return name.empty() ? absl::StrCat("block ", block) : absl::StrCat("block ", block, " (", name, ")");
}

absl::Status CheckFields(const std::string& owner, std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    if (field.value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("profile: ", owner, ": ", field.name, " is ", field.value, "; it must not be negative"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOption(const std::string& block, size_t index, const OptionProfile& o) {
  return CheckFields(absl::StrCat(block, ", option ", index), {{"kept_bytes", o.kept_bytes},
                                                               {"recompute_ns", o.recompute_ns},
                                                               {"forward_bytes", o.forward_bytes},
                                                               {"forward_bytes_dropped", o.forward_bytes_dropped},
                                                               {"recompute_bytes", o.recompute_bytes},
                                                               {"backward_bytes", o.backward_bytes}});
}

absl::Status CheckOptions(const std::string& block, const std::vector<OptionProfile>& options) {
  if (options.size() < 2 || options.front().keep != Keep::kEverything || options.back().keep != Keep::kBoundary) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: ", block,
                     ": its options must begin with one that keeps everything and end with one "
                     "that keeps the boundary only"));
  }
  std::set<int32_t> sets;
  for (size_t i = 0; i < options.size(); ++i) {
    RETURN_IF_ERROR(CheckOption(block, i, options[i]));
    const bool between = i > 0 && i + 1 < options.size();
    if (between != (options[i].keep == Keep::kSet)) {
      return absl::InvalidArgumentError(absl::StrCat("profile: ", block, ", option ", i,
                                                     ": keep must be a saved set for all but the first and last"));
    }
    if (between && (options[i].set < 0 || !sets.insert(options[i].set).second)) {
      return absl::InvalidArgumentError(absl::StrCat("profile: ", block, ", option ", i, ": set is ", options[i].set,
                                                     "; each saved set needs a number of its own, from 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBlock(const Profile& profile, size_t index) {
  const BlockProfile& b = profile.blocks[index];
  const std::string name = NameOf(profile, index);
  RETURN_IF_ERROR(CheckFields(name, {{"boundary_bytes", b.boundary_bytes},
                                     {"forward_ns", b.forward_ns},
                                     {"backward_ns", b.backward_ns},
                                     {"gather_ns", b.gather_ns},
                                     {"reduce_ns", b.reduce_ns},
                                     {"offload_ns", b.offload_ns},
                                     {"reload_ns", b.reload_ns},
                                     {"whole_bytes", b.whole_bytes},
                                     {"gradient_held_bytes", b.gradient_held_bytes},
                                     {"gradient_left_bytes", b.gradient_left_bytes},
                                     {"forward_bytes", b.forward_bytes},
                                     {"backward_bytes", b.backward_bytes},
                                     {"recompute_through_ns", b.recompute_through_ns},
                                     {"recompute_through_bytes", b.recompute_through_bytes},
                                     {"remade_bytes", b.remade_bytes}}));
  const bool layer = index > 0 && index + 1 < profile.blocks.size();
  if (!layer) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOptions(name, b.options));
  const OptionProfile& everything = b.options.front();
  if (profile.forward_only(static_cast<int64_t>(index)) && (everything.kept_bytes > 0 || everything.reads_boundary)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profile: ", name, ": it has no backward, so its first option must keep nothing and read no boundary"));
  }
  return absl::OkStatus();
}

// More than any plan can add up. In doubles: they do not overflow, and the limit is far from where they are inexact.
double LargestTime(const Profile& profile) {
  double sum = 0;
  for (const BlockProfile& b : profile.blocks) {
    int64_t recompute = b.recompute_through_ns;
    for (const OptionProfile& option : b.options) recompute = std::max(recompute, option.recompute_ns);
    const double compute =
        static_cast<double>(b.forward_ns) + static_cast<double>(b.backward_ns) + static_cast<double>(recompute);
    // In a long segment a unit is gathered three times.
    const double transfers = 3 * static_cast<double>(b.gather_ns) + static_cast<double>(b.reduce_ns) +
                             static_cast<double>(b.offload_ns) + static_cast<double>(b.reload_ns);
    const int64_t slowest =
        *std::max_element(profile.interference_millionths.begin(), profile.interference_millionths.end());
    sum += compute + transfers * (1 + static_cast<double>(slowest) * 1e-6) + 10;
  }
  return static_cast<double>(profile.accumulation) * sum + static_cast<double>(profile.update_ns);
}

double LargestBytes(const Profile& profile) {
  double sum = static_cast<double>(profile.state_bytes);
  for (const BlockProfile& b : profile.blocks) {
    for (const int64_t bytes :
         {b.boundary_bytes, b.boundary_bytes, b.whole_bytes, b.whole_bytes, b.whole_bytes, b.gradient_held_bytes,
          b.gradient_left_bytes, b.forward_bytes, b.backward_bytes, b.recompute_through_bytes, b.remade_bytes}) {
      sum += static_cast<double>(bytes);
    }
    for (const OptionProfile& o : b.options) {
      for (const int64_t bytes :
           {o.kept_bytes, o.forward_bytes, o.forward_bytes_dropped, o.recompute_bytes, o.backward_bytes}) {
        sum += static_cast<double>(bytes);
      }
    }
  }
  return sum;
}

}  // namespace

absl::Status CheckProfile(const Profile& profile) {
  if (profile.blocks.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: it has ", profile.blocks.size(), " blocks; a first and a last block are the least"));
  }
  RETURN_IF_ERROR(CheckFields("the whole", {{"state_bytes", profile.state_bytes}, {"update_ns", profile.update_ns}}));
  if (profile.accumulation < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: accumulation is ", profile.accumulation, "; it must be at least 1"));
  }
  if (profile.first_backward < 0 || profile.first_backward >= static_cast<int64_t>(profile.blocks.size())) {
    return absl::InvalidArgumentError(absl::StrCat("profile: first_backward is ", profile.first_backward,
                                                   "; it must be one of the ", profile.blocks.size(), " blocks"));
  }
  for (const Stream stream : kAllStreams) {
    const int64_t value = profile.interference_millionths[static_cast<size_t>(stream)];
    RETURN_IF_ERROR(CheckFields(absl::StrCat("stream ", StreamName(stream)), {{"interference_millionths", value}}));
  }
  for (size_t i = 0; i < profile.blocks.size(); ++i) RETURN_IF_ERROR(CheckBlock(profile, i));
  if (LargestTime(profile) > kLargestSum) {
    return absl::InvalidArgumentError("profile: its times are too large: their sum could reach 2^60 ns, 36 years");
  }
  if (LargestBytes(profile) > kLargestSum) {
    return absl::InvalidArgumentError("profile: its sizes are too large: their sum could reach 2^60 bytes");
  }
  return absl::OkStatus();
}

}  // namespace reprise

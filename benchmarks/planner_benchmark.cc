// Time to plan chains whose layers are all different, 8 options each: on one node (nothing but compute), sharded
// (gathers and reductions), and sharded with offload.
//
//   build/bin/planner_benchmark [--json] [layers ...]      (126 and 1000)
//
// Each at three budgets, by how far they lie between the smallest and what keeping everything takes. `labels` are at
// most as many partial plans as the planner may hold; `gap` is how far the plan may be from the fastest, as proven.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/plan/plan_cost.h"
#include "runtime/plan/planner.h"

namespace reprise {
namespace {

constexpr int kOptions = 8;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMicrosecond = 1000;

enum class Streams { kNone, kSharded, kOffload };
constexpr const char* kStreamNames[] = {"one node", "sharded", "offload"};

// Draws that are the same everywhere.
class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed) {}
  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  int64_t Bytes(int64_t least_mib, int64_t most_mib) { return Between(least_mib * 4096, most_mib * 4096) * 256; }
  int64_t Microseconds(int64_t least, int64_t most) { return Between(least * kMicrosecond, most * kMicrosecond); }

 private:
  std::mt19937_64 random_;
};

// Sets that keep less recompute more; beside that each number is drawn for itself.
void AddOptions(Drawer* draw, int64_t boundary, int64_t boundary_behind, BlockProfile* layer) {
  std::vector<int64_t> kept;
  std::vector<int64_t> recompute = {0};
  for (int o = 0; o + 1 < kOptions; ++o) {
    kept.push_back(draw->Bytes(10, 200));
    recompute.push_back(draw->Between(1, layer->forward_ns));
  }
  kept.push_back(0);
  std::sort(kept.rbegin(), kept.rend());
  std::sort(recompute.begin(), recompute.end());
  const int64_t work = draw->Bytes(5, 50);
  for (int o = 0; o < kOptions; ++o) {
    const auto i = static_cast<size_t>(o);
    OptionProfile option;
    option.keep = o == 0 ? Keep::kEverything : o + 1 < kOptions ? Keep::kSet : Keep::kBoundary;
    option.set = option.keep == Keep::kSet ? o - 1 : -1;
    option.reads_boundary = o > 0;
    option.kept_bytes = kept[i];
    option.recompute_ns = recompute[i];
    option.forward_bytes = boundary + kept[i] + boundary_behind + work;
    option.forward_bytes_dropped = option.forward_bytes - boundary;
    option.recompute_bytes = o > 0 ? boundary + kept[0] + work : 0;
    option.backward_bytes = boundary + kept[0] + boundary_behind + work;
    layer->options.push_back(option);
  }
  layer->recompute_through_ns = recompute.back() + layer->forward_ns / 8;
  layer->recompute_through_bytes = boundary + kept[0] + work + boundary_behind;
  layer->remade_bytes = kept[0] + boundary_behind;
}

Profile RandomChain(int64_t layers, Streams streams, uint64_t seed) {
  Drawer draw(seed);
  Profile profile;
  profile.gathers = profile.reduces = streams != Streams::kNone;
  profile.blocks.resize(static_cast<size_t>(layers + 2));
  for (size_t i = 1; i < profile.blocks.size(); ++i) profile.blocks[i].boundary_bytes = draw.Bytes(4, 12);
  for (size_t i = 0; i < profile.blocks.size(); ++i) {
    BlockProfile& block = profile.blocks[i];
    block.forward_ns = draw.Microseconds(1000, 10000);
    block.backward_ns = 2 * block.forward_ns;
    block.gather_ns = draw.Microseconds(500, 8000);
    block.reduce_ns = draw.Microseconds(500, 12000);
    block.offload_ns = draw.Microseconds(500, 12000);
    block.reload_ns = block.offload_ns;
    block.whole_bytes = profile.gathers ? draw.Bytes(20, 60) : 0;
    block.gradient_held_bytes = block.whole_bytes;
    block.gradient_left_bytes = block.whole_bytes / 512 * 256;
    block.forward_bytes = block.backward_bytes = draw.Bytes(20, 100);
    if (i > 0 && i + 1 < profile.blocks.size()) {
      AddOptions(&draw, block.boundary_bytes, profile.blocks[i + 1].boundary_bytes, &block);
    }
  }
  return profile;
}

int64_t PeakResidentMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

bool Run(int64_t layers, Streams streams, int percent, int64_t most_labels, bool json) {
  const Profile profile = RandomChain(layers, streams, static_cast<uint64_t>(layers));
  PlanLimits limits;
  limits.offloads = streams == Streams::kOffload;
  limits.most_labels = most_labels;
  Plan everything;
  everything.layers.resize(static_cast<size_t>(layers));
  const absl::StatusOr<PlanCost> most = CostOf(profile, everything);
  const absl::StatusOr<int64_t> least = SmallestBudget(profile, limits);
  if (!most.ok() || !least.ok()) return false;
  limits.memory_budget_bytes = *least + (most->peak_bytes - *least) / 100 * percent;
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  const absl::StatusOr<Solution> solution = Solve(profile, limits);
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  if (!solution.ok()) {
    std::fprintf(stderr, "reprise: %s\n", std::string(solution.status().message()).c_str());
    return false;
  }
  const double gap = 1 - static_cast<double>(solution->bound_ns) / static_cast<double>(solution->cost.time_ns);
  const double slower = static_cast<double>(solution->cost.time_ns) / static_cast<double>(most->time_ns) - 1;
  std::printf(
      json ? "{\"layers\": %lld, \"streams\": \"%s\", \"budget_percent\": %d, \"seconds\": %.4f, "
             "\"cpu_seconds\": %.4f, \"gap\": %.3g, "
             "\"slower\": %.4f, \"most_labels\": %lld, \"peak_resident_mib\": %lld}\n"
           : "%5lld layers, %-8s  budget %2d %%: %8.4f s (%.4f of CPU), gap %8.2g, step +%.1f %%, at most %lld labels, "
             "%lld MiB resident\n",
      static_cast<long long>(layers), kStreamNames[static_cast<size_t>(streams)], percent, passed.count(), cpu_seconds,
      gap, json ? slower : 100 * slower, static_cast<long long>(most_labels),
      static_cast<long long>(PeakResidentMib()));
  std::fflush(stdout);
  return true;
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  bool json = false;
  std::vector<int64_t> layers;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
      continue;
    }
    layers.push_back(std::strtoll(argv[i], nullptr, 10));
    if (layers.back() < 1 || layers.back() > 10000) {
      std::fprintf(stderr, "reprise: the layers must be 1 to 10000\n");
      return 2;
    }
  }
  if (layers.empty()) layers = {126, 1000};
  for (const int64_t count : layers) {
    for (const reprise::Streams streams :
         {reprise::Streams::kNone, reprise::Streams::kSharded, reprise::Streams::kOffload}) {
      for (const int percent : {10, 30, 60}) {
        if (!reprise::Run(count, streams, percent, 1'000'000, json)) return 1;
      }
    }
  }
  return 0;
}

// How fast the `mpi` communicator moves a unit of parameters, beside a plain copy of memory.
//
//   mpirun -np 2 build/bin/collectives_benchmark [--json] [MiB a rank, 16]
//
// Bandwidth of a collective is the bytes of the whole (all ranks' shards) over seconds, as in "algorithm bandwidth";
// that of the copy is the bytes copied over seconds, on all ranks at once. Medians of 9, of the slowest rank each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "collectives/communicator.h"

namespace reprise {
namespace {

constexpr int kRuns = 9;
constexpr int kWarmUps = 2;

struct Rates {
  double all_gather = 0;
  double reduce_scatter = 0;
  double copy = 0;
  double barrier_microseconds = 0;
};

// Median seconds of one call, by the rank that takes longest.
absl::StatusOr<double> MedianSeconds(Communicator& communicator, const std::function<absl::Status()>& call) {
  std::vector<double> seconds;
  for (int run = 0; run < kWarmUps + kRuns; ++run) {
    RETURN_IF_ERROR(Barrier(communicator));
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(call());
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    std::vector<double> all(static_cast<size_t>(communicator.size()), 0.0);
    all[static_cast<size_t>(communicator.rank())] = passed.count();
    RETURN_IF_ERROR(AllReduce(communicator, "seconds", absl::MakeSpan(all)));
    if (run >= kWarmUps) seconds.push_back(*std::max_element(all.begin(), all.end()));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

absl::StatusOr<Rates> Measure(Communicator& communicator, int64_t shard_bytes) {
  const int64_t whole_bytes = shard_bytes * communicator.size();
  std::vector<float> whole(static_cast<size_t>(whole_bytes) / sizeof(float), 1.0F);
  std::vector<float> shard(static_cast<size_t>(shard_bytes) / sizeof(float), 1.0F);
  const double gigabytes = static_cast<double>(whole_bytes) * 1e-9;
  Rates rates;
  ASSIGN_OR_RETURN(const double gather, MedianSeconds(communicator, [&] {
                     Completion done;
                     communicator.AllGather(Sequence::kGather,
                                            {"whole", reinterpret_cast<std::byte*>(whole.data()), shard_bytes}, &done);
                     return done.Wait();
                   }));
  ASSIGN_OR_RETURN(const double reduce, MedianSeconds(communicator, [&] {
                     Completion done;
                     communicator.ReduceScatter(
                         Sequence::kReduce,
                         {"whole", whole.data(), shard.data(), static_cast<int64_t>(shard.size()), false}, &done);
                     return done.Wait();
                   }));
  ASSIGN_OR_RETURN(const double copy, MedianSeconds(communicator, [&] {
                     std::memcpy(shard.data(), whole.data(), static_cast<size_t>(shard_bytes));
                     return absl::OkStatus();
                   }));
  ASSIGN_OR_RETURN(const double barrier, MedianSeconds(communicator, [&] { return Barrier(communicator); }));
  rates.all_gather = gigabytes / gather;
  rates.reduce_scatter = gigabytes / reduce;
  rates.copy = static_cast<double>(shard_bytes) * 1e-9 / copy;
  rates.barrier_microseconds = barrier * 1e6;
  return rates;
}

absl::Status Run(bool json, int64_t mebibytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, MakeMpiCommunicator({}));
  ASSIGN_OR_RETURN(const Rates rates, Measure(*communicator, mebibytes << 20));
  if (communicator->rank() != 0) return absl::OkStatus();
  const char* format =
      json ? "{\"ranks\": %d, \"mebibytes_a_rank\": %lld, \"all_gather_gb_s\": %.3f, \"reduce_scatter_gb_s\": %.3f, "
             "\"memcpy_gb_s\": %.3f, \"barrier_microseconds\": %.1f}\n"
           : "%d ranks, %lld MiB a rank: all-gather %.2f GB/s, reduce-scatter %.2f GB/s, memcpy %.2f GB/s, "
             "barrier %.1f us\n";
  std::printf(format, communicator->size(), static_cast<long long>(mebibytes), rates.all_gather,  // NOLINT
              rates.reduce_scatter, rates.copy, rates.barrier_microseconds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  bool json = false;
  int64_t mebibytes = 16;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else {
      mebibytes = std::strtoll(argv[i], nullptr, 10);
    }
  }
  if (mebibytes < 1 || mebibytes > 4096) {
    std::fprintf(stderr, "reprise: the size must be 1 to 4096 MiB a rank\n");
    return 2;
  }
  const absl::Status status = reprise::Run(json, mebibytes);
  if (status.ok()) return 0;
  std::fprintf(stderr, "reprise: %s\n", std::string(status.message()).c_str());
  return 5;
}

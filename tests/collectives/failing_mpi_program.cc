// Ranks that fail in a chosen way, started under mpirun by failure_test.cc: failing_mpi_program SCENARIO
// DEADLINE_SECONDS
//
// A rank that gets an error prints it as every program of this project does and exits with 5.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"

namespace reprise {
namespace {

absl::Status Gather(Communicator& communicator, const char* label, int64_t shard_bytes) {
  std::vector<std::byte> whole(static_cast<size_t>(shard_bytes * communicator.size()));
  Completion done;
  communicator.AllGather(Sequence::kGather, {label, whole.data(), shard_bytes}, &done);
  return done.Wait();
}

absl::Status Reduce(Communicator& communicator, const char* label, int64_t elements) {
  std::vector<float> whole(static_cast<size_t>(elements * communicator.size()));
  Completion done;
  communicator.ReduceScatter(Sequence::kGather, {label, whole.data(), whole.data(), elements, false}, &done);
  return done.Wait();
}

void SleepLong() { std::this_thread::sleep_for(std::chrono::seconds(60)); }

absl::Status Play(Communicator& communicator, const std::string& scenario) {
  const bool last = communicator.rank() == communicator.size() - 1;
  if (const absl::Status status = Barrier(communicator); !status.ok()) return status;
  if (scenario == "kind") return last ? Reduce(communicator, "h.4", 32) : Gather(communicator, "h.3", 128);
  if (scenario == "size") return Gather(communicator, "h.3", last ? 256 : 128);
  if (scenario == "label") return Gather(communicator, last ? "h.4" : "h.3", 128);
  if (scenario == "absent") {
    if (last) SleepLong();
    return Gather(communicator, "h.7", 128);
  }
  if (scenario == "killed") {
    if (last) kill(getpid(), SIGKILL);
    return Gather(communicator, "h.7", 128);
  }
  if (scenario == "abort") {
    if (last) communicator.Abort(6);
    return Gather(communicator, "h.7", 128);
  }
  if (scenario == "pending") {
    std::vector<Completion> done(300);
    for (Completion& one : done) communicator.Barrier(last ? Sequence::kGather : Sequence::kReduce, &one);
    // Each is finished with an error; none may be in the owner's hands when they go.
    for (Completion& one : done) one.Wait().IgnoreError();
    return done[0].Wait();
  }
  return absl::InvalidArgumentError("no such scenario");
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string scenario = argv[1];
  reprise::CommunicatorOptions options;
  options.deadline_seconds = std::strtod(argv[2], nullptr);
  // One process that never starts MPI keeps all others in its initialisation.
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (scenario == "start" && rank != nullptr && std::string(rank) == "1") reprise::SleepLong();
  auto communicator = reprise::MakeMpiCommunicator(options);
  absl::Status status = communicator.status();
  if (status.ok() && scenario != "end") status = reprise::Play(**communicator, scenario);
  if (status.ok() && scenario == "end" && (*communicator)->rank() == 1) reprise::SleepLong();
  if (status.ok()) return 0;
  std::fprintf(stderr, "reprise: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 5;
}

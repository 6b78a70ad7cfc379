#include "tests/tools/cuda/nccl.h"

#include <nccl.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "collectives/communicator.h"
#include "collectives/nccl/nccl_api.h"
#include "tests/tools/cuda/runtime.h"

// Its streams hold what they need of it, as it may be given up before they have ended.
struct ncclComm {
  std::unique_ptr<reprise::Communicator> ranks;
  reprise::Completion opened;
  bool is_open = false;
  std::function<void()> put_on_stream = nullptr;  // of a collective that NCCL is not through with
  int asks_left = 0;
  int under_way = 0;
  bool finalized = false;
  bool given_up = false;
  ncclResult_t error = ncclSuccess;
  void* memory = nullptr;
};

namespace reprise::testing {
namespace {

constexpr size_t kMemory = 1 << 20;  // of the device, for each communicator

struct ThreadState {
  NcclOptions options;
  int64_t calls = 0;
  int64_t collectives = 0;
  int group_depth = 0;
  std::map<ncclComm*, std::shared_ptr<ncclComm>> communicators;
};

ThreadState& OfThread() {
  thread_local ThreadState state;
  return state;
}

std::atomic<int64_t> live = 0;

// Ranks that have not come yet find their ends here.
std::unique_ptr<Communicator> Meet(const ncclUniqueId& id, int ranks, int rank) {
  static std::mutex mutex;
  static auto& waiting = *new std::map<std::string, std::vector<std::unique_ptr<Communicator>>>;
  const std::lock_guard lock(mutex);
  auto& ends = waiting[std::string(id.internal, sizeof(id.internal))];
  if (ends.empty()) ends = MakeLocalCommunicators(ranks, {});
  REPRISE_CHECK(ends[static_cast<size_t>(rank)] != nullptr) << "rank " << rank << " comes twice";
  return std::move(ends[static_cast<size_t>(rank)]);
}

bool Fails() { return OfThread().calls++ == OfThread().options.failing_call; }

#define REPRISE_NCCL_CALL() \
  if (Fails()) return ncclSystemError

ncclResult_t GetVersion(int* version) {
  REPRISE_NCCL_CALL();
  *version = OfThread().options.version;
  return ncclSuccess;
}

const char* GetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "unhandled system error" : "remote process exited or there was a network error";
}
const char* GetLastError(ncclComm_t /*communicator*/) { return "of the\ntwin"; }

ncclResult_t GetUniqueId(ncclUniqueId* id) {
  REPRISE_NCCL_CALL();
  static std::atomic<int64_t> next = 0;
  *id = {};
  const int64_t number = ++next;
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t CommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                ncclConfig_t* configuration) {
  REPRISE_NCCL_CALL();
  REPRISE_CHECK(configuration->blocking == 0 && configuration->maxCTAs > 0);
  auto made = std::make_shared<ncclComm>();
  if (cudaMalloc(&made->memory, kMemory) != cudaSuccess) return ncclUnhandledCudaError;
  ++live;
  made->ranks = Meet(id, ranks, rank);
  made->ranks->Barrier(Sequence::kGather, &made->opened);
  *communicator = made.get();
  OfThread().communicators[made.get()] = made;
  return ncclInProgress;
}

ncclResult_t CommGetAsyncError(ncclComm_t c, ncclResult_t* error) {
  if (!c->is_open && c->opened.done() && !OfThread().options.never_opens) {
    c->is_open = true;
    if (!c->opened.Wait().ok()) c->error = ncclRemoteError;
  }
  if (c->put_on_stream && --c->asks_left == 0) std::exchange(c->put_on_stream, nullptr)();
  *error = c->error != ncclSuccess ? c->error : c->is_open && !c->put_on_stream ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

void Release(ncclComm_t c) {
  c->ranks.reset();  // fails what is under way, here and on the other ranks
  cudaFree(c->memory);
  --live;
  OfThread().communicators.erase(c);
}

void CheckReady(ncclComm_t c) {
  REPRISE_CHECK(c->is_open && !c->put_on_stream && !c->finalized) << "a call while NCCL is not through with the last";
}

ncclResult_t CommFinalize(ncclComm_t c) {
  REPRISE_NCCL_CALL();
  CheckReady(c);
  REPRISE_CHECK(c->under_way == 0) << c->under_way << " collectives have not ended";
  c->finalized = true;
  return ncclInProgress;
}

ncclResult_t CommDestroy(ncclComm_t c) {
  REPRISE_CHECK(c->finalized) << "destroyed before its end";
  const bool fails = Fails();
  Release(c);
  return fails ? ncclSystemError : ncclSuccess;
}

ncclResult_t CommAbort(ncclComm_t c) {
  REPRISE_CHECK(OfThread().group_depth > 0) << "a communicator is given up alone";
  c->given_up = true;
  Release(c);
  return ncclInProgress;
}

ncclResult_t GroupStart() {
  ++OfThread().group_depth;
  return ncclSuccess;
}

ncclResult_t GroupEnd() {
  --OfThread().group_depth;
  return ncclInProgress;
}

struct Collective {
  std::shared_ptr<ncclComm> communicator;
  std::function<void(Communicator&, Completion*)> start;
  bool fails = false;
  bool started = false;
  bool ended = false;
  Completion done;

  // In its stream's turn, until true.
  bool Run(bool first) {
    ncclComm& c = *communicator;
    if (first && ended) {  // again, as part of a graph
      ended = false;
      started = false;
      done.Reset();
      ++c.under_way;
    }
    if (ended || c.given_up) return true;
    if (fails) c.error = ncclRemoteError;
    if (c.error != ncclSuccess) return false;
    if (!std::exchange(started, true)) start(*c.ranks, &done);
    if (!done.done()) return false;
    if (!done.Wait().ok()) c.error = ncclRemoteError;
    if (c.error != ncclSuccess) return false;
    --c.under_way;
    ended = true;
    return true;
  }
};

ncclResult_t StartCollective(ncclComm_t c, cudaStream_t stream, std::function<void(Communicator&, Completion*)> start) {
  REPRISE_NCCL_CALL();
  CheckReady(c);
  ThreadState& thread = OfThread();
  auto collective = std::make_shared<Collective>();
  collective->communicator = thread.communicators.at(c);
  collective->start = std::move(start);
  const int64_t number = thread.collectives++;
  collective->fails = number == thread.options.failing_collective;
  ++c->under_way;
  const auto put_on_stream = [stream, collective] {
    EnqueueWhenReady(stream, [collective](bool first) { return collective->Run(first); });
  };
  if (number % 2 == 0) {
    put_on_stream();
    return ncclSuccess;
  }
  c->put_on_stream = put_on_stream;
  c->asks_left = 2;
  return ncclInProgress;
}

ncclResult_t AllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t c,
                       cudaStream_t stream) {
  REPRISE_CHECK(type == ncclInt8);
  return StartCollective(c, stream, [=](Communicator& ranks, Completion* done) {
    auto* whole = static_cast<std::byte*>(to);
    std::byte* own = whole + static_cast<size_t>(ranks.rank()) * count;
    if (own != from) std::memcpy(own, from, count);
    ranks.AllGather(Sequence::kGather, {"", whole, static_cast<int64_t>(count)}, done);
  });
}

ncclResult_t ReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t c, cudaStream_t stream) {
  REPRISE_CHECK(type == ncclFloat32 && operation == ncclSum);
  return StartCollective(c, stream, [=](Communicator& ranks, Completion* done) {
    ranks.ReduceScatter(
        Sequence::kGather,
        {"", static_cast<const float*>(from), static_cast<float*>(to), static_cast<int64_t>(count), false}, done);
  });
}

ncclResult_t AllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                       ncclComm_t c, cudaStream_t stream) {
  REPRISE_CHECK(type == ncclFloat64 && operation == ncclSum && from == to);
  return StartCollective(c, stream, [=](Communicator& ranks, Completion* done) {
    ranks.AllReduce(Sequence::kGather, "", {static_cast<double*>(to), count}, done);
  });
}

ncclResult_t Broadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t c,
                       cudaStream_t stream) {
  REPRISE_CHECK(type == ncclInt8 && from == to);
  return StartCollective(c, stream, [=](Communicator& ranks, Completion* done) {
    ranks.Broadcast(Sequence::kGather, "", {static_cast<std::byte*>(to), count}, root, done);
  });
}

}  // namespace

void ResetNccl(const NcclOptions& options) {
  ThreadState& state = OfThread();
  REPRISE_CHECK(state.communicators.empty()) << state.communicators.size() << " communicators are alive";
  state = {};
  state.options = options;
}

int64_t NcclCalls() { return OfThread().calls; }
int64_t NcclCollectives() { return OfThread().collectives; }
int64_t LiveNcclCommunicators() { return live; }

absl::StatusOr<std::string> IdOfLibrary(const std::string& file) {
  ASSIGN_OR_RETURN(const cuda::NcclApi nccl, cuda::LoadNccl(file));
  RETURN_IF_ERROR(cuda::CheckVersion(nccl));
  ncclUniqueId id = {};
  const ncclResult_t result = nccl.GetUniqueId(&id);
  if (result != ncclSuccess) return absl::UnavailableError(cuda::DescribeResult(nccl, result));
  return std::string(id.internal, sizeof(id.internal));
}

}  // namespace reprise::testing

namespace reprise::cuda {

absl::StatusOr<const NcclApi*> FindNccl() {
  static constexpr NcclApi kTwin = {
      .GetVersion = testing::GetVersion,
      .GetErrorString = testing::GetErrorString,
      .GetLastError = testing::GetLastError,
      .GetUniqueId = testing::GetUniqueId,
      .CommInitRankConfig = testing::CommInitRankConfig,
      .CommGetAsyncError = testing::CommGetAsyncError,
      .CommFinalize = testing::CommFinalize,
      .CommDestroy = testing::CommDestroy,
      .CommAbort = testing::CommAbort,
      .GroupStart = testing::GroupStart,
      .GroupEnd = testing::GroupEnd,
      .AllGather = testing::AllGather,
      .ReduceScatter = testing::ReduceScatter,
      .AllReduce = testing::AllReduce,
      .Broadcast = testing::Broadcast,
  };
  return &kTwin;
}

}  // namespace reprise::cuda

#include "collectives/mpi/world.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "collectives/mpi/message_link.h"
#include "collectives/mpi/shared_link.h"

namespace reprise {
namespace {

constexpr int64_t kUnit = 128;  // chunks are whole units: every part of a sum begins at a vector
constexpr int64_t kMessageStagingBytes = int64_t{32} << 20;  // the most that one sequence holds
constexpr int64_t kMessageChunkBytes = int64_t{1} << 20;

#define RETURN_IF_MPI_ERROR(call) RETURN_IF_ERROR(MpiStatus((call), #call))

// Collectives of the two sequences' communicators must all be cut alike, whatever hosts the ranks are on.
ChunkBytes ChooseChunks(int size, int most_local, bool any_shared, bool any_messages) {
  ChunkBytes chunks;
  chunks.direct = any_shared ? kSlotBytes : kMessageChunkBytes;
  chunks.same = kSlotBytes;
  chunks.scatter = any_shared ? kSlotBytes / std::max(1, most_local - 1) : kSlotBytes;
  if (any_messages) {
    const int64_t staged = kMessageStagingBytes / kDepth / std::max(1, size - 1);
    chunks.same = std::min(chunks.same, staged);
    chunks.scatter = std::min(chunks.scatter, staged);
  }
  chunks.same = std::max(kUnit, chunks.same / kUnit * kUnit);
  chunks.scatter = std::max(kUnit, chunks.scatter / kUnit * kUnit);
  return chunks;
}

}  // namespace

absl::Status World::Initialise(MPI_Comm parent) {
  Transport transport = Transport::kAutomatic;
  RETURN_IF_ERROR(ReadTransport(&transport));
  RETURN_IF_ERROR(parent == MPI_COMM_NULL ? StartMpi() : Adopt(parent));
  RETURN_IF_MPI_ERROR(MPI_Comm_rank(ranks_, &rank_));
  RETURN_IF_MPI_ERROR(MPI_Comm_size(ranks_, &size_));
  SetProcessRank(rank_);
  RETURN_IF_ERROR(AgreeOnTransport(&transport));
  RETURN_IF_ERROR(FindHosts());
  RETURN_IF_ERROR(SplitByHost(transport));
  RETURN_IF_ERROR(ShareMemory(transport));
  return MakeExchanges();
}

absl::Status World::StartMpi() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) {
    return absl::InvalidArgumentError(
        "MPI was initialised in this process before; give MakeMpiCommunicator the communicator of its ranks");
  }
  int provided = 0;
  RETURN_IF_MPI_ERROR(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_FUNNELED) {
    return absl::InvalidArgumentError("this MPI was built without threads; use one that gives MPI_THREAD_FUNNELED");
  }
  return absl::OkStatus();
}

absl::Status World::Adopt(MPI_Comm parent) {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised == 0 || finalised != 0) {
    return absl::InvalidArgumentError("MPI is not initialised; call MPI_Init_thread before MakeMpiCommunicator");
  }
  int provided = 0;
  RETURN_IF_MPI_ERROR(MPI_Query_thread(&provided));
  if (provided < MPI_THREAD_SERIALIZED) {
    return absl::InvalidArgumentError(
        "MPI was initialised for one thread; call MPI_Init_thread with MPI_THREAD_MULTIPLE in place of MPI_Init");
  }
  int between_groups = 0;
  RETURN_IF_MPI_ERROR(MPI_Comm_test_inter(parent, &between_groups));
  if (between_groups != 0) {
    return absl::InvalidArgumentError(
        "ranks cannot train over an intercommunicator; merge it with MPI_Intercomm_merge");
  }
  owns_mpi_ = false;
  RETURN_IF_MPI_ERROR(MPI_Comm_dup(parent, &ranks_));
  RETURN_IF_MPI_ERROR(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN));
  return absl::OkStatus();
}

absl::Status World::ReadTransport(Transport* transport) {
  const char* value = std::getenv("REPRISE_MPI_TRANSPORT");
  const absl::string_view text = value == nullptr ? "" : value;
  if (text.empty()) {
    *transport = Transport::kAutomatic;
  } else if (text == "messages") {
    *transport = Transport::kMessages;
  } else if (text == "shared") {
    *transport = Transport::kShared;
  } else if (text == "mixed") {
    *transport = Transport::kMixed;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("REPRISE_MPI_TRANSPORT is '", text, "'; it may be shared, messages, mixed or not set"));
  }
  return absl::OkStatus();
}

absl::Status World::AgreeOnTransport(Transport* transport) const {
  // mpirun does not carry the environment to other hosts: any rank's choice is everyone's.
  const int mine = static_cast<int>(*transport);
  int least = mine;
  RETURN_IF_MPI_ERROR(MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, ranks_));
  *transport = static_cast<Transport>(least);
  return absl::OkStatus();
}

absl::Status World::FindHosts() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  RETURN_IF_MPI_ERROR(MPI_Get_processor_name(name.data(), &length));
  std::vector<char> names(name.size() * static_cast<size_t>(size_));
  RETURN_IF_MPI_ERROR(MPI_Allgather(name.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(), MPI_MAX_PROCESSOR_NAME,
                                    MPI_CHAR, ranks_));
  for (size_t rank = 0; rank < static_cast<size_t>(size_); ++rank) {
    std::string host = names.data() + rank * name.size();
    if (std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end()) hosts_.push_back(std::move(host));
  }
  return absl::OkStatus();
}

absl::Status World::SplitByHost(Transport transport) {
  RETURN_IF_MPI_ERROR(MPI_Comm_split_type(ranks_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local_));
  if (transport == Transport::kMixed) {
    MPI_Comm pair = MPI_COMM_NULL;
    RETURN_IF_MPI_ERROR(MPI_Comm_split(local_, rank_ / 2, rank_, &pair));
    MPI_Comm_free(&local_);
    local_ = pair;
  }
  int local_size = 0;
  RETURN_IF_MPI_ERROR(MPI_Comm_rank(local_, &local_rank_));
  RETURN_IF_MPI_ERROR(MPI_Comm_size(local_, &local_size));
  local_ranks_.resize(static_cast<size_t>(local_size));
  RETURN_IF_MPI_ERROR(MPI_Allgather(&rank_, 1, MPI_INT, local_ranks_.data(), 1, MPI_INT, local_));
  return absl::OkStatus();
}

absl::Status World::ShareMemory(Transport transport) {
  if (transport == Transport::kMessages || local_size() == 1) return absl::OkStatus();
  const absl::Status status = memory_.Allocate(local_);
  shared_ = status.ok();
  if (status.ok() || transport == Transport::kAutomatic) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("REPRISE_MPI_TRANSPORT asks for shared memory, but ", status.message()));
}

absl::Status World::MakeExchanges() {
  std::vector<int> near;
  std::vector<int> far;
  for (int rank = 0; rank < size_; ++rank) {
    const bool local = std::find(local_ranks_.begin(), local_ranks_.end(), rank) != local_ranks_.end();
    if (rank != rank_) (shared_ && local ? near : far).push_back(rank);
  }
  has_messages_ = !far.empty();
  const std::array<int, 3> mine = {shared_ ? local_size() : 1, shared_ ? 1 : 0, has_messages_ ? 1 : 0};
  std::array<int, 3> most = mine;
  RETURN_IF_MPI_ERROR(MPI_Allreduce(mine.data(), most.data(), 3, MPI_INT, MPI_MAX, ranks_));
  const ChunkBytes chunks = ChooseChunks(size_, most[0], most[1] != 0, most[2] != 0);
  for (size_t i = 0; i < kSequenceCount; ++i) {
    RETURN_IF_MPI_ERROR(MPI_Comm_dup(ranks_, &lanes_[i]));
    std::vector<std::unique_ptr<Link>> links;
    if (!far.empty()) {
      links.push_back(std::make_unique<MessageLink>(lanes_[i], far, std::max(chunks.same, chunks.scatter)));
    }
    if (!near.empty()) {
      links.push_back(std::make_unique<SharedLink>(memory_, static_cast<Sequence>(i), local_ranks_, local_rank_));
    }
    exchanges_[i] = std::make_unique<Exchange>(rank_, size_, chunks, std::move(links));
  }
  return absl::OkStatus();
}

void World::Nudge() const {
  int waiting = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, lanes_[0], &waiting, MPI_STATUS_IGNORE);
}

absl::Status World::Finalise(std::chrono::duration<double> deadline) {
  // MPI_Finalize takes a whole core while it waits for the others: wait here, asleep, before it.
  const auto end = std::chrono::steady_clock::now() + deadline;
  MPI_Request barrier = MPI_REQUEST_NULL;
  RETURN_IF_MPI_ERROR(MPI_Ibarrier(ranks_, &barrier));
  for (int done = 0; done == 0;) {
    RETURN_IF_MPI_ERROR(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE));
    if (done != 0) break;
    if (std::chrono::steady_clock::now() > end) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", rank_, ": not all ranks ended within ", deadline.count(), " s"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  RETURN_IF_ERROR(memory_.Free());
  for (MPI_Comm& lane : lanes_) MPI_Comm_free(&lane);
  MPI_Comm_free(&local_);
  if (owns_mpi_) return MpiStatus(MPI_Finalize(), "MPI_Finalize");
  return MpiStatus(MPI_Comm_free(&ranks_), "MPI_Comm_free");
}

}  // namespace reprise

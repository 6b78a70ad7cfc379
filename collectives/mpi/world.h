// World: the ranks of a communicator, and MPI itself from its initialisation to its end where it is not the caller's.
// Lives in the thread that owns MPI.
//
// REPRISE_MPI_TRANSPORT chooses how the ranks of a host exchange data: `shared` (memory; an error where it cannot be
// had), `messages`, or for tests `mixed` (memory between neighbours, as if every two ranks were a host). Empty or not
// set: memory where it can be had.
#ifndef REPRISE_COLLECTIVES_MPI_WORLD_H_
#define REPRISE_COLLECTIVES_MPI_WORLD_H_

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/mpi/exchange.h"
#include "collectives/mpi/mpi_api.h"
#include "collectives/mpi/shared_memory.h"

namespace reprise {

class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Collective over `parent`, of a program that has initialised MPI; MPI_COMM_NULL: over all processes of the job,
  // initialising MPI. InvalidArgument for a bad environment, Unavailable for MPI's errors.
  absl::Status Initialise(MPI_Comm parent);

  // Collective. Waits for the other ranks in naps; DeadlineExceeded where they do not come.
  absl::Status Finalise(std::chrono::duration<double> deadline);

  MPI_Comm communicator() const { return ranks_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return static_cast<int>(local_ranks_.size()); }
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Some ranks are reached by messages: MPI must be called now and then for them to leave.
  bool has_messages() const { return has_messages_; }

  // The one thing that is in progress for a sequence.
  Exchange& exchange(Sequence sequence) { return *exchanges_[static_cast<size_t>(sequence)]; }

  // Lets MPI move what it still holds.
  void Nudge() const;

 private:
  enum class Transport : int { kMessages, kMixed, kShared, kAutomatic };

  absl::Status StartMpi();
  absl::Status Adopt(MPI_Comm parent);
  static absl::Status ReadTransport(Transport* transport);
  absl::Status AgreeOnTransport(Transport* transport) const;
  absl::Status FindHosts();
  absl::Status SplitByHost(Transport transport);
  absl::Status ShareMemory(Transport transport);
  absl::Status MakeExchanges();

  MPI_Comm ranks_ = MPI_COMM_WORLD;  // all of them
  bool owns_mpi_ = true;             // else the program does, and ranks_ is a duplicate of its communicator
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  std::vector<int> local_ranks_ = {0};
  std::vector<std::string> hosts_;
  MPI_Comm local_ = MPI_COMM_NULL;
  std::array<MPI_Comm, kSequenceCount> lanes_ = {MPI_COMM_NULL, MPI_COMM_NULL};
  SharedMemory memory_;
  bool shared_ = false;
  bool has_messages_ = false;
  std::array<std::unique_ptr<Exchange>, kSequenceCount> exchanges_;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_WORLD_H_

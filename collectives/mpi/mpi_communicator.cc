// The `mpi` backend: ranks as processes. Everything happens in MpiOwner's thread.
#include "collectives/mpi_communicator.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collectives/communicator.h"
#include "collectives/mpi/mpi_owner.h"
#include "collectives/operation.h"

namespace reprise {
namespace {

class MpiCommunicator : public OperationCommunicator {
 public:
  MpiCommunicator(MPI_Comm parent, double deadline_seconds) : owner_(parent, deadline_seconds) {}

  absl::Status WaitUntilUp() const { return owner_.WaitUntilUp(); }

  int rank() const override { return owner_.world().rank(); }
  int size() const override { return owner_.world().size(); }
  int local_rank() const override { return owner_.world().local_rank(); }
  int local_size() const override { return owner_.world().local_size(); }
  std::vector<std::string> hosts() const override { return owner_.world().hosts(); }
  int64_t overhead_bytes() const override { return owner_.overhead_bytes(); }
  [[noreturn]] void Abort(int exit_code) override { owner_.Abort(exit_code); }

 protected:
  void Submit(const Operation& operation) override { owner_.Submit(operation); }

 private:
  MpiOwner owner_;
};

absl::StatusOr<std::unique_ptr<Communicator>> Make(MPI_Comm parent, const CommunicatorOptions& options) {
  if (!(options.deadline_seconds > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a deadline of ", options.deadline_seconds, " s; it must be more than zero"));
  }
  auto communicator = std::make_unique<MpiCommunicator>(parent, options.deadline_seconds);
  RETURN_IF_ERROR(communicator->WaitUntilUp());
  return communicator;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator(const CommunicatorOptions& options) {
  return Make(MPI_COMM_NULL, options);
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator(MPI_Comm parent, const CommunicatorOptions& options) {
  if (parent == MPI_COMM_NULL) {
    return absl::InvalidArgumentError(
        "MakeMpiCommunicator was given MPI_COMM_NULL; only members of a communicator call");
  }
  return Make(parent, options);
}

}  // namespace reprise

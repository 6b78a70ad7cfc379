// Ranks of an MPI program that is there already: its MPI, its communicator. Part of the public API; apart from
// communicator.h because it includes MPI's header.
//
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
//   ...
//   ASSIGN_OR_RETURN(auto communicator, MakeMpiCommunicator(my_communicator, {.deadline_seconds = 60}));
//   ...                                          // train
//   communicator.reset();                        // together, before MPI_Finalize
#ifndef REPRISE_COLLECTIVES_MPI_COMMUNICATOR_H_
#define REPRISE_COLLECTIVES_MPI_COMMUNICATOR_H_

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C++ bindings, which are not used
#endif
#include <mpi.h>

#include <memory>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace reprise {

// Collective over `parent`, which is duplicated and may be used and freed as before; so is the end of what it returns.
// A thread of its own makes the calls of MPI, at any time: with MPI_THREAD_SERIALIZED the program itself must not call
// MPI while the communicator lives; with MPI_THREAD_MULTIPLE it may. InvalidArgument where MPI is not initialised, or
// with fewer threads, or `parent` is no intracommunicator; Unavailable for MPI's errors. Errors of MPI in `parent` are
// handled as before. A wait beyond the deadline inside MPI itself ends the process with 5.
absl::StatusOr<std::unique_ptr<Communicator>> MakeMpiCommunicator(MPI_Comm parent, const CommunicatorOptions& options);

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_COMMUNICATOR_H_

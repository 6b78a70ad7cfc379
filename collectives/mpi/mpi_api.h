// The one place that includes MPI, and how its error codes become statuses.
#ifndef REPRISE_COLLECTIVES_MPI_MPI_API_H_
#define REPRISE_COLLECTIVES_MPI_MPI_API_H_

#define OMPI_SKIP_MPICXX 1  // the C++ bindings, which are not used
#include <mpi.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace reprise {

// OK for MPI_SUCCESS, else Unavailable: "<what>: <MPI's own text>".
absl::Status MpiStatus(int code, absl::string_view what);

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_MPI_MPI_API_H_

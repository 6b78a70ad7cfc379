#include "collectives/mpi/mpi_api.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace reprise {

absl::Status MpiStatus(int code, absl::string_view what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return absl::UnavailableError(absl::StrCat(what, ": ", absl::string_view(text.data(), static_cast<size_t>(length))));
}

}  // namespace reprise

// Ranks that were started with different settings would train different models or wait for each other for ever.
//
//   RETURN_IF_ERROR(CheckSameOnAllRanks(*communicator, ToToml(configuration)));
#ifndef REPRISE_LAUNCH_SAME_SETTINGS_H_
#define REPRISE_LAUNCH_SAME_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"

namespace reprise {

// `texts`, in rank order, are lines of `name = value` in the same order of names. OK where all are equal; else
// InvalidArgument that names the first setting that differs from rank 0's, the rank, and both values.
absl::Status CompareSettings(const std::vector<std::string>& texts);

// The same over the ranks of `communicator`: every rank gives its own text and gets the same answer. Blocks; errors of
// the collective pass through.
absl::Status CheckSameOnAllRanks(Communicator& communicator, const std::string& text);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_SAME_SETTINGS_H_

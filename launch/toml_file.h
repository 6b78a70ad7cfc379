// Reads the TOML file of --config into assignments of flags.
//
//   steps = 300                    # an integer flag
//   learning_rate = 2e-3           # a number: integer or float
//   memory_budget = "1.5GiB"       # a size: string, or bytes as an integer
//   offload = ["activations"]      # a list: array of strings, or one string with commas
#ifndef REPRISE_LAUNCH_TOML_FILE_H_
#define REPRISE_LAUNCH_TOML_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launch/configuration.h"
#include "launch/flags.h"

namespace reprise {

// Top-level keys only, in the names of the flags. InvalidArgument, with file and line, for a file that cannot be read,
// text that is no TOML, an unknown key (with the nearest known one) and a value of another type than the flag's.
absl::StatusOr<std::vector<Assignment>> ReadTomlFile(Subcommand subcommand, const std::string& path);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_TOML_FILE_H_

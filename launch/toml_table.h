// A small TOML file as toml++ holds it.
//
//   ASSIGN_OR_RETURN(const toml::table table, ReadTomlTable("--config", path));
#ifndef REPRISE_LAUNCH_TOML_TABLE_H_
#define REPRISE_LAUNCH_TOML_TABLE_H_

#include <toml++/toml.h>

#include <string>

#include "absl/status/statusor.h"

namespace reprise {

// InvalidArgument, with the flag that named the file or with file and line, for one that cannot be read, is larger than
// 1 MiB, or is no TOML.
absl::StatusOr<toml::table> ReadTomlTable(const std::string& flag, const std::string& path);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_TOML_TABLE_H_

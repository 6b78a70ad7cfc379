// No output of a command may be one of its inputs or another output: the user's file would be gone, with exit code 0.
//
//   const FlagPath outputs[] = {{"--trace", c.trace}, {"--report", c.report}};
//   RETURN_IF_ERROR(CheckOutputPaths(outputs, InputPathsOf(c)));   // before any of them is opened
//
// What counts is the file, not how the path is spelt: `.`, `..`, symbolic and hard links are seen through. Files that
// are not there yet are one where folder and name are. Of an input that is a folder, every entry counts whose name does
// not begin with a dot, read or not: a new file may be written beside them, none of them may be replaced.
#ifndef REPRISE_LAUNCH_OUTPUT_PATHS_H_
#define REPRISE_LAUNCH_OUTPUT_PATHS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "launch/configuration.h"

namespace reprise {

// What a flag names; an empty path is a flag that is not given.
struct FlagPath {
  std::string flag;  // "--trace"
  std::string path;
};

// InvalidArgument, in one sentence that names both flags, for the first output that is an earlier output, an input, or
// a file in a folder that is an input. Looks at this host's files and changes nothing.
absl::Status CheckOutputPaths(absl::Span<const FlagPath> outputs, absl::Span<const FlagPath> inputs);

// InvalidArgument for an output that would stand in `folder` itself, which another output fills.
absl::Status CheckNotInFolder(absl::Span<const FlagPath> outputs, const FlagPath& folder);

// The files and folders that the settings of a run name to be read, --config of the last Resolve included.
std::vector<FlagPath> InputPathsOf(const TrainConfiguration& configuration);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_OUTPUT_PATHS_H_

// Splits a command line into assignments of flags.
//
//   ParseArguments(Subcommand::kTrain, {"--steps", "300", "--decay=linear"})
//     -> {{"steps", "300", "--steps"}, {"decay", "linear", "--decay"}}
#ifndef REPRISE_LAUNCH_COMMAND_LINE_H_
#define REPRISE_LAUNCH_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launch/configuration.h"
#include "launch/flags.h"

namespace reprise {

// Takes --name=value, --name value, and for booleans --name and --noname; one dash does as well. A later assignment of
// a name stands behind an earlier one. InvalidArgument for an unknown name (with the nearest known one), a missing
// value, text that is not UTF-8 and arguments that are no flags. Values are not read yet.
absl::StatusOr<std::vector<Assignment>> ParseArguments(Subcommand subcommand, absl::Span<const std::string> arguments);

// True where `text` is valid UTF-8 without a zero byte: what JSON and TOML can carry.
bool IsUtf8(absl::string_view text);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_COMMAND_LINE_H_

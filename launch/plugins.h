// The plug-ins of --plugin.
//
//   ASSIGN_OR_RETURN(const std::string identity, LoadPlugins(configuration.plugin));   // before --model is looked up
#ifndef REPRISE_LAUNCH_PLUGINS_H_
#define REPRISE_LAUNCH_PLUGINS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace reprise {

// Loads them in order. Equal texts on two ranks: equal files.
absl::StatusOr<std::string> LoadPlugins(const std::vector<std::string>& paths);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_PLUGINS_H_

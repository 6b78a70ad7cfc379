#include "launch/plugins.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/model/plugin.h"

namespace reprise {

absl::StatusOr<std::string> LoadPlugins(const std::vector<std::string>& paths) {
  std::string identity;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::string checksum, LoadPlugin(path));
    absl::StrAppend(&identity, identity.empty() ? "" : "; ", path, ": ", checksum);
  }
  return identity;
}

}  // namespace reprise

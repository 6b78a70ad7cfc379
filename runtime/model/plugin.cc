#include "runtime/model/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/registration.h"
#include "base/status_macros.h"
#include "runtime/model/plugin_file.h"

namespace reprise {
namespace {

// What became of each file: a refused one is still in memory, and would come back as if nothing were wrong.
std::map<std::string, absl::Status>& Loaded() {
  static auto* loaded = new std::map<std::string, absl::Status>();
  return *loaded;
}

// `path` with a slash: without one the loader would look in the system's folders.
absl::Status Load(const std::string& name, const std::string& path) {
  const RegistrationScope scope;
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* why = dlerror();
    return absl::DataLossError(absl::StrCat("plug-in ", name, " cannot be loaded: ", why == nullptr ? "" : why));
  }
  if (scope.refusals().empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("plug-in ", name, " registers ", scope.refusals().front(),
                                          ", which Reprise or another plug-in has already; give it another name"));
}

}  // namespace

absl::StatusOr<std::string> LoadPlugin(const std::string& path) {
  ASSIGN_OR_RETURN(const PluginFile file, PluginFile::Open(path));
  ASSIGN_OR_RETURN(const std::string built_for, file.BuiltFor());
  if (built_for != REPRISE_ABI) {
    return absl::DataLossError(absl::StrCat("plug-in ", path, " was built for ", built_for, ", and this is ",
                                            REPRISE_ABI, "; build it again against this one"));
  }
  ASSIGN_OR_RETURN(std::string checksum, file.Checksum());
  std::error_code error;
  const std::string place = std::filesystem::canonical(path, error).string();
  if (error) return absl::DataLossError(absl::StrCat("plug-in ", path, " cannot be found: ", error.message()));
  const auto known = Loaded().find(place);
  const absl::Status status = known != Loaded().end() ? known->second : Load(path, place);
  Loaded().emplace(place, status);
  RETURN_IF_ERROR(status);
  return checksum;
}

}  // namespace reprise

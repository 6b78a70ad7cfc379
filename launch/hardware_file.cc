#include "launch/hardware_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "launch/toml_table.h"

namespace reprise {
namespace {

constexpr char kSuffix[] = ".toml";

// Beside the installed program, else in the source tree that it was built from.
std::string HardwareFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed = program.parent_path().parent_path() / "share/reprise/hardware";
  return std::filesystem::is_directory(installed, error) ? installed.string() : REPRISE_HARDWARE_FOLDER;
}

std::vector<std::string> KnownNames() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(HardwareFolder(), error)) {
    if (entry.path().extension() == kSuffix) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status SetNumber(const std::string& path, const std::string& key, const toml::node& node, Hardware* hardware) {
  const std::string place = absl::StrCat(path, ":", node.source().begin.line, ": ");
  std::vector<std::string> names;
  for (const auto& [name, number] : NumbersOf(hardware)) {
    names.push_back(name);
    if (name != key) continue;
    const toml::value<int64_t>* integer = node.as_integer();
    const toml::value<double>* real = node.as_floating_point();
    if (integer == nullptr && real == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(place, key, " is not a number; give it as ", key, " = 1e9"));
    }
    *number = integer != nullptr ? static_cast<double>(integer->get()) : real->get();
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(place, "unknown key '", key, "'", DidYouMean(key, names)));
}

}  // namespace

absl::StatusOr<std::string> HardwarePath(const std::string& name) {
  if (absl::StrContains(name, "/") || absl::EndsWith(name, kSuffix)) return name;
  const std::vector<std::string> known = KnownNames();
  if (std::find(known.begin(), known.end(), name) != known.end()) {
    return absl::StrCat(HardwareFolder(), "/", name, kSuffix);
  }
  return absl::InvalidArgumentError(absl::StrCat("--hardware=", name, " is not known; use one of ",
                                                 absl::StrJoin(known, ", "), ", or the path of a .toml file"));
}

absl::StatusOr<Hardware> ReadHardware(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string path, HardwarePath(name));
  ASSIGN_OR_RETURN(const toml::table table, ReadTomlTable("--hardware", path));
  Hardware hardware;
  hardware.name = std::filesystem::path(path).stem().string();
  for (const auto& [key, node] : table) RETURN_IF_ERROR(SetNumber(path, std::string(key.str()), node, &hardware));
  RETURN_IF_ERROR(CheckHardware(hardware));
  return hardware;
}

}  // namespace reprise

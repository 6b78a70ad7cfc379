#include "launch/output_paths.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launch/flags.h"
#include "runtime/snapshot/storage.h"

namespace reprise {
namespace {

// What a path is. A file that is there: its device and inode. One that is not: those of its folder, and its name. If
// the folder is not there either: the whole path, made plain.
using FileIdentity = std::tuple<dev_t, ino_t, std::string>;

// Where a file that is not there would be made: a link to nothing is followed, as open does.
std::filesystem::path WhereItWouldBe(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(path, error);
  for (int link = 0; link < kMostLinks; ++link) {
    place = std::filesystem::weakly_canonical(place.parent_path(), error) / place.filename();
    const std::filesystem::path target = std::filesystem::read_symlink(place, error);
    if (error) break;
    place = place.parent_path() / target;
  }
  return place.lexically_normal();
}

FileIdentity IdentityOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) return {info.st_dev, info.st_ino, ""};
  const std::filesystem::path place = WhereItWouldBe(path);
  if (stat(place.parent_path().c_str(), &info) == 0) return {info.st_dev, info.st_ino, place.filename().string()};
  return {0, 0, place.string()};
}

struct Output {
  const FlagPath* given;
  FileIdentity identity;
};

std::string Text(const FlagPath& given) { return absl::StrCat(given.flag, "=", given.path); }

absl::Status CheckOutsideFolder(absl::Span<const Output> outputs, const FlagPath& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), ".")) continue;
    const FileIdentity identity = IdentityOf(entry->path().string());
    for (const Output& output : outputs) {
      if (output.identity != identity) continue;
      return absl::InvalidArgumentError(absl::StrCat(Text(*output.given), " would replace ", entry->path().string(),
                                                     ", a file of ", Text(folder), "; name another path for ",
                                                     output.given->flag));
    }
  }
  // A folder that cannot be listed is refused by whoever reads it.
  return absl::OkStatus();
}

absl::Status CheckIsNot(absl::Span<const Output> outputs, const FlagPath& input) {
  const FileIdentity identity = IdentityOf(input.path);
  for (const Output& output : outputs) {
    if (output.identity != identity) continue;
    return absl::InvalidArgumentError(absl::StrCat(Text(*output.given), " would replace the file that ", Text(input),
                                                   " reads; name another path for ", output.given->flag));
  }
  return absl::OkStatus();
}

// A file of images is read with that of its labels, which stands beside it.
void AddLabelFiles(const std::string& flag, const std::string& path, std::vector<FlagPath>* inputs) {
  const std::filesystem::path images(path);
  if (!absl::StrContains(images.filename().string(), "images")) return;
  std::error_code error;
  const std::filesystem::path folder = images.has_parent_path() ? images.parent_path() : ".";
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (!absl::StrContains(entry->path().filename().string(), "labels")) continue;
    inputs->push_back({flag, entry->path().string()});
  }
}

}  // namespace

absl::Status CheckOutputPaths(absl::Span<const FlagPath> outputs, absl::Span<const FlagPath> inputs) {
  std::vector<Output> given;
  for (const FlagPath& output : outputs) {
    if (output.path.empty()) continue;
    const FileIdentity identity = IdentityOf(output.path);
    for (const Output& earlier : given) {
      if (earlier.identity != identity) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(Text(*earlier.given), " and ", Text(output), " are one file; give each a path of its own"));
    }
    given.push_back({&output, identity});
  }
  for (const FlagPath& input : inputs) {
    if (input.path.empty() || given.empty()) continue;
    std::error_code error;
    const bool folder = std::filesystem::is_directory(input.path, error);
    RETURN_IF_ERROR(folder ? CheckOutsideFolder(given, input) : CheckIsNot(given, input));
  }
  return absl::OkStatus();
}

absl::Status CheckNotInFolder(absl::Span<const FlagPath> outputs, const FlagPath& folder) {
  if (folder.path.empty()) return absl::OkStatus();
  const std::filesystem::path place = WhereItWouldBe(JoinPath(folder.path, "file")).parent_path();
  for (const FlagPath& output : outputs) {
    if (output.path.empty() || WhereItWouldBe(output.path).parent_path() != place) continue;
    return absl::InvalidArgumentError(absl::StrCat(Text(output), " would stand in the folder of ", Text(folder),
                                                   ", among the files of a checkpoint; name another path for ",
                                                   output.flag));
  }
  return absl::OkStatus();
}

std::vector<FlagPath> InputPathsOf(const TrainConfiguration& c) {
  std::vector<FlagPath> inputs = {{"--config", FlagValue("config")},
                                  {"--model_config", c.model_config},
                                  {"--init", c.init},
                                  {"--adapter", c.adapter},
                                  {"--data", c.data},
                                  {"--labels", c.labels},
                                  {"--validation_data", c.validation_data},
                                  {"--validation_labels", c.validation_labels}};
  AddLabelFiles("--data", c.data, &inputs);
  AddLabelFiles("--validation_data", c.validation_data, &inputs);
  for (const std::string& path : c.plugin) inputs.push_back({"--plugin", path});
  return inputs;
}

}  // namespace reprise

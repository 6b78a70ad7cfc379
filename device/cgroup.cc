#include "device/cgroup.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace reprise {
namespace {

// Version 1 writes "no limit" as the largest multiple of a page.
constexpr int64_t kUnlimitedBytes = int64_t{1} << 62;

std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  if (!(file >> word) || !absl::SimpleAtoi(word, &value)) return std::nullopt;
  return value;
}

// The number behind `key` in a file of "key number" lines.
int64_t ReadKey(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

template <typename T>
void Tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

void ReadMemory(const std::string& folder, bool version_2, CgroupLimits& limits) {
  const std::optional<int64_t> limit = ReadNumber(folder + (version_2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (!limit || *limit >= kUnlimitedBytes) return;
  const int64_t used = ReadNumber(folder + (version_2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
  const int64_t reclaimable = ReadKey(folder + "/memory.stat", version_2 ? "inactive_file" : "total_inactive_file");
  Tighten(limits.memory_left_bytes, std::max<int64_t>(0, *limit - std::max<int64_t>(0, used - reclaimable)));
}

void ReadCpuVersion1(const std::string& folder, CgroupLimits& limits) {
  const int64_t quota = ReadNumber(folder + "/cpu.cfs_quota_us").value_or(-1);
  const int64_t period = ReadNumber(folder + "/cpu.cfs_period_us").value_or(0);
  if (quota > 0 && period > 0) Tighten(limits.cores, static_cast<double>(quota) / static_cast<double>(period));
}

void ReadCpuVersion2(const std::string& folder, CgroupLimits& limits) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota_text;
  int64_t period = 0;
  int64_t quota = 0;
  if (!(file >> quota_text >> period) || !absl::SimpleAtoi(quota_text, &quota)) return;  // "max 100000"
  if (quota > 0 && period > 0) Tighten(limits.cores, static_cast<double>(quota) / static_cast<double>(period));
}

// `mount` + `group` and every folder above it, down to `mount`. Where a container shows the host's path of its group,
// only the last of them exists, and that is the container's own.
std::vector<std::string> GroupAndAncestors(const std::string& mount, std::string group) {
  std::vector<std::string> folders;
  while (!group.empty() && group != "/") {
    folders.push_back(mount + group);
    group.resize(std::min(group.rfind('/'), group.size()));
  }
  folders.push_back(mount);
  return folders;
}

void ReadVersion2(const std::string& root, const std::string& group, CgroupLimits& limits) {
  for (const char* mount : {"", "/unified"}) {
    for (const std::string& folder : GroupAndAncestors(root + mount, group)) {
      ReadMemory(folder, /*version_2=*/true, limits);
      ReadCpuVersion2(folder, limits);
    }
  }
}

void ReadVersion1(const std::string& root, const std::string& controllers, const std::string& group,
                  CgroupLimits& limits) {
  for (const absl::string_view controller : absl::StrSplit(controllers, ',')) {
    const bool memory = controller == "memory";
    if (!memory && controller != "cpu") continue;
    for (const std::string& folder : GroupAndAncestors(root + "/" + std::string(controller), group)) {
      if (memory) {
        ReadMemory(folder, /*version_2=*/false, limits);
      } else {
        ReadCpuVersion1(folder, limits);
      }
    }
  }
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& membership, const std::string& root) {
  CgroupLimits limits;
  std::ifstream file(membership);
  std::string line;
  while (std::getline(file, line)) {  // "4:memory:/group" (version 1), "0::/group" (version 2)
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    if (parts[1].empty()) {
      ReadVersion2(root, parts[2], limits);
    } else {
      ReadVersion1(root, parts[1], parts[2], limits);
    }
  }
  return limits;
}

}  // namespace reprise

// The order of the folders, read from the includes: calls go downwards only, and backends belong to their factories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr int kLongestFile = 450;

// From the bottom to the top. A folder may include itself and what stands on a lower row.
struct Layer {
  const char* folder;
  int height;
};
constexpr Layer kLayers[] = {
    {"base", 0},           {"device", 1},           {"collectives", 2},      {"offload", 2},
    {"runtime/tensor", 3}, {"runtime/graph", 4},    {"runtime/model", 5},    {"runtime/fsdp", 6},
    {"runtime/plan", 7},   {"runtime/schedule", 8}, {"runtime/snapshot", 9}, {"runtime/train", 10},
    {"models", 11},        {"launch", 12},
};

// A backend is included by its own files only, and by the one factory named here where there is one. The CUDA part is
// one library: its sources end in .cu, and its folders know each other.
struct Backend {
  const char* folder;
  const char* factories;  // beginning of the path of files that choose the backend
};
constexpr Backend kBackends[] = {
    {"device/cpu/", "device/factory"},
    {"device/sim/", "device/factory"},
    {"device/cuda/", "device/factory"},
    {"offload/cuda/", "offload/factory"},
    {"collectives/mpi/", "collectives/factory"},
    {"collectives/local/", "collectives/factory"},
    {"collectives/nccl/", "collectives/factory"},
    {"collectives/staged/", "collectives/factory"},
    {"collectives/sim/", "collectives/factory"},
    {"runtime/tensor/cpu/", "runtime/tensor/factory"},
    {"runtime/tensor/cuda/", "runtime/tensor/factory"},
    {"runtime/tensor/reference/", "runtime/tensor/factory"},
};

const Layer* LayerOf(absl::string_view path) {
  for (const Layer& layer : kLayers) {
    if (absl::StartsWith(path, absl::StrCat(layer.folder, "/"))) return &layer;
  }
  return nullptr;
}

struct SourceFile {
  std::string path;  // from the root of the tree
  std::vector<std::string> lines;
};

std::vector<SourceFile> ReadTree(const std::vector<std::string>& folders) {
  std::vector<SourceFile> files;
  const fs::path root = REPRISE_SOURCE_DIR;
  for (const std::string& folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file() || (extension != ".h" && extension != ".cc" && extension != ".cu")) continue;
      SourceFile file{fs::relative(entry.path(), root).string(), {}};
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<SourceFile> Product() {
  std::vector<std::string> folders;
  for (const Layer& layer : kLayers) folders.emplace_back(layer.folder);
  return ReadTree(folders);
}

// The path between the quotes of `#include "path"`, else nothing.
std::string IncludedPath(absl::string_view line) {
  constexpr absl::string_view kStart = "#include \"";
  if (!absl::StartsWith(line, kStart)) return "";
  const absl::string_view rest = line.substr(kStart.size());
  return std::string(rest.substr(0, rest.find('"')));
}

std::string Place(const SourceFile& file, size_t line) { return absl::StrCat(file.path, ":", line + 1); }

// What is wrong with `file` including `included`; empty where nothing is.
std::string WrongOrder(absl::string_view file, absl::string_view included) {
  const Layer* from = LayerOf(file);
  const Layer* to = LayerOf(included);
  if (to == nullptr) return absl::StartsWith(included, "tests/") ? "the product includes a test" : "";
  if (from == to || from->height > to->height) return "";
  return absl::StrCat(from->folder, " calls upwards, into ", to->folder);
}

bool IsOfCuda(absl::string_view path) {
  return absl::EndsWith(path, ".cu") || absl::StrContains(path, "/cuda/") ||
         absl::StartsWith(path, "collectives/nccl/") || absl::StartsWith(path, "collectives/staged/");
}

std::string WrongBackend(absl::string_view file, absl::string_view included) {
  for (const Backend& backend : kBackends) {
    if (!absl::StartsWith(included, backend.folder)) continue;
    if (absl::StartsWith(file, backend.folder) || absl::StartsWith(file, backend.factories)) return "";
    if (IsOfCuda(file) && IsOfCuda(included)) return "";
    return absl::StrCat(backend.folder, " is for its own files only");
  }
  return "";
}

template <typename Rule>
std::vector<std::string> Violations(const std::vector<SourceFile>& files, Rule rule) {
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    for (size_t line = 0; line < file.lines.size(); ++line) {
      const std::string included = IncludedPath(file.lines[line]);
      if (included.empty()) continue;
      const std::string wrong = rule(file.path, included);
      if (!wrong.empty()) violations.push_back(absl::StrCat(Place(file, line), ": ", wrong, " (", included, ")"));
    }
  }
  return violations;
}

TEST(Architecture, CallsGoDownwards) {
  const std::vector<SourceFile> files = Product();
  ASSERT_GT(files.size(), 20u);
  EXPECT_THAT(Violations(files, WrongOrder), ::testing::IsEmpty());
}

TEST(Architecture, BackendsBelongToTheirFactories) {
  EXPECT_THAT(Violations(Product(), WrongBackend), ::testing::IsEmpty());
}

// The rules themselves, on includes that must not pass and some that must.
TEST(Architecture, RulesSeeAViolation) {
  EXPECT_NE(WrongOrder("runtime/tensor/types.cc", "runtime/graph/graph.h"), "");
  EXPECT_NE(WrongOrder("base/bytes.cc", "device/device.h"), "");
  EXPECT_NE(WrongOrder("collectives/communicator.cc", "offload/pool.h"), "");
  EXPECT_NE(WrongOrder("models/gpt2.cc", "launch/flags.h"), "");
  EXPECT_NE(WrongOrder("models/gpt2.cc", "tests/tools/paths.h"), "");
  EXPECT_EQ(WrongOrder("launch/train.cc", "base/bytes.h"), "");
  EXPECT_EQ(WrongOrder("offload/pool.cc", "offload/pool.h"), "");
  EXPECT_NE(WrongBackend("launch/train.cc", "device/cpu/cpu_device.h"), "");
  EXPECT_NE(WrongBackend("collectives/communicator.cc", "collectives/mpi/mpi_communicator.h"), "");
  EXPECT_EQ(WrongBackend("device/cpu/stream.cc", "device/cpu/stream.h"), "");
  EXPECT_EQ(WrongBackend("device/cuda/launch.h", "device/cuda/current_stream.h"), "");
  EXPECT_NE(WrongBackend("runtime/tensor/kernel.cc", "device/cuda/current_stream.h"), "");
  EXPECT_EQ(WrongBackend("launch/train.cc", "device/device.h"), "");
  EXPECT_EQ(IncludedPath("#include \"base/check.h\"  // why"), "base/check.h");
  EXPECT_EQ(IncludedPath("#include <vector>"), "");
}

TEST(Architecture, PublicHeadersOpenWithWhatTheyAreFor) {
  for (const SourceFile& file : Product()) {
    if (!absl::EndsWith(file.path, ".h")) continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(absl::StartsWith(file.lines.front(), "// ")) << Place(file, 0) << ": no opening comment";
  }
}

TEST(Architecture, FilesHoldOneIdea) {
  std::vector<SourceFile> files = Product();
  for (SourceFile& file : ReadTree({"tests", "benchmarks", "examples"})) files.push_back(std::move(file));
  for (const SourceFile& file : files) {
    EXPECT_LE(file.lines.size(), static_cast<size_t>(kLongestFile)) << Place(file, kLongestFile) << ": too long";
  }
}

}  // namespace
}  // namespace reprise

// Programs run as their callers run them: a line of the shell, its exit code, what it printed, how long it took.
//
//   Outcome outcome = Shell(TrainOn(2, "--data=x --steps=1"));
//   EXPECT_EQ(outcome.exit_code, 3);
#ifndef REPRISE_TESTS_LAUNCH_SHELL_H_
#define REPRISE_TESTS_LAUNCH_SHELL_H_

#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/tools/paths.h"

namespace reprise::testing {

struct Outcome {
  int exit_code = -1;
  double seconds = 0;
  std::string output;
  std::string errors;
};

inline std::string Contents(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline Outcome Shell(const std::string& command) {
  const TemporaryFolder folder;
  const std::string line =
      absl::StrCat("{ ", command, "\n} >", folder.File("out"), " 2>", folder.File("err"), " </dev/null");
  const auto begin = std::chrono::steady_clock::now();
  const int status = std::system(line.c_str());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), seconds, Contents(folder.File("out")),
          Contents(folder.File("err"))};
}

// The lines that are errors of Reprise, not banners of mpirun.
inline std::vector<std::string> ErrorLines(const Outcome& outcome) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(outcome.errors, '\n')) {
    if (absl::StartsWith(line, "reprise: ")) lines.emplace_back(line);
  }
  return lines;
}

inline constexpr char kMpirun[] = "mpirun --allow-run-as-root --oversubscribe --bind-to none";

inline std::string Train(const std::string& flags) { return absl::StrCat(ProgramPath("reprise"), " train ", flags); }

inline std::string TrainOn(int ranks, const std::string& flags) {
  return ranks == 1 ? Train(flags) : absl::StrCat(kMpirun, " -np ", ranks, " ", Train(flags));
}

// Every value of a number in the lines of a metrics file.
inline std::vector<double> MetricsOf(const std::string& path, const std::string& key) {
  std::vector<double> values;
  const std::string mark = absl::StrCat("\"", key, "\":");
  const std::string text = Contents(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "{\"step\":")) continue;
    const size_t at = line.find(mark);
    if (at == absl::string_view::npos) continue;
    const absl::string_view rest = line.substr(at + mark.size());
    double value = 0;
    if (absl::SimpleAtod(rest.substr(0, rest.find_first_of(",}")), &value)) values.push_back(value);
  }
  return values;
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_LAUNCH_SHELL_H_

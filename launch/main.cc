// The program `reprise`: finds the subcommand, resolves its configuration and runs it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/nearest_name.h"
#include "launch/configuration.h"
#include "launch/exit_code.h"
#include "launch/plan.h"
#include "launch/report.h"
#include "launch/train.h"

namespace reprise {
namespace {

constexpr char kUsage[] =
    "usage: launch/run -np R train --data=FILE --steps=N [--flag=value ...]\n"
    "       reprise train|plan|doctor|report [--flag=value ...]\n"
    "       reprise train|plan|report --help, reprise --version\n";

// libgomp reads these when it is loaded, before main: its idle threads must sleep, not spin, beside other ranks'
// threads. So the program starts itself once more with them. Where that fails it runs on, only slower.
void RunAgainWithPassiveWaiting(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr && std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("GOMP_SPINCOUNT", "0", 0);
  execv("/proc/self/exe", argv);
}

int Fail(const absl::Status& status) {
  if (IsFirstProcess()) PrintError(status);
  WriteExitFile(ExitCodeFor(status));
  return ExitCodeFor(status);
}

int Print(const std::string& text) {
  if (IsFirstProcess()) std::fputs(text.c_str(), stdout);
  return kExitDone;
}

bool Asks(absl::Span<const std::string> arguments, const char* what) {
  for (const std::string& argument : arguments) {
    if (argument == absl::StrCat("--", what) || argument == absl::StrCat("-", what)) return true;
  }
  return false;
}

int Run(Subcommand subcommand, absl::Span<const std::string> arguments) {
  if (Asks(arguments, "help")) return Print(HelpText(subcommand));
  const absl::StatusOr<TrainConfiguration> configuration = Resolve(subcommand, arguments);
  if (subcommand == Subcommand::kTrain) return TrainMain(configuration);
  if (!configuration.ok()) return Fail(configuration.status());
  const absl::StatusOr<PlanRequest> request = ResolvePlanRequest(*configuration);
  return request.ok() ? PlanMain(*configuration, *request) : Fail(request.status());
}

int Main(absl::Span<const std::string> arguments) {
  if (arguments.empty()) {
    if (IsFirstProcess()) std::fputs(kUsage, stderr);
    return Fail(absl::InvalidArgumentError("a subcommand is needed: train, plan, doctor or report"));
  }
  if (Asks(arguments, "version")) return Print("reprise " REPRISE_VERSION "\n");
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-help" || name == "help") return Print(kUsage);
  if (name == "train") return Run(Subcommand::kTrain, arguments.subspan(1));
  if (name == "plan") return Run(Subcommand::kPlan, arguments.subspan(1));
  if (name == "report") {
    const absl::Span<const std::string> rest = arguments.subspan(1);
    return Asks(rest, "help") ? Print(HelpText(Subcommand::kReport)) : ReportMain(rest);
  }
  if (name == "doctor") {
    return Fail(absl::InvalidArgumentError("'reprise doctor' is not built yet; train, plan and report are"));
  }
  return Fail(absl::InvalidArgumentError(absl::StrCat("unknown subcommand '", name, "': train, plan, doctor or report",
                                                      DidYouMean(name, {"train", "plan", "doctor", "report"}))));
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  reprise::RunAgainWithPassiveWaiting(argv);
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return reprise::Main(arguments);
}

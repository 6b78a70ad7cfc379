#include "launch/report.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launch/command_line.h"
#include "launch/exit_code.h"
#include "launch/flags.h"
#include "launch/output_paths.h"
#include "launch/report_page.h"

namespace reprise {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

absl::Status MakeReport(absl::Span<const std::string> arguments) {
  ASSIGN_OR_RETURN(const std::vector<Assignment> assignments, ParseArguments(Subcommand::kReport, arguments));
  std::string metrics, trace, output;
  for (const Assignment& a : assignments) {
    std::string& value = a.name == "metrics" ? metrics : a.name == "trace" ? trace : output;
    value = a.value;
  }
  if (metrics.empty()) return absl::InvalidArgumentError("--metrics is needed: the file that a run has written");
  if (output.empty()) return absl::InvalidArgumentError("--output is needed: the HTML file to write");
  RETURN_IF_ERROR(CheckOutputPaths({{"--output", output}}, {{"--metrics", metrics}, {"--trace", trace}}));
  Storage& storage = PosixStorage();
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, storage.Create(output));
  ASSIGN_OR_RETURN(const std::string library, ReadChartLibrary(storage));
  ReportData data;
  ASSIGN_OR_RETURN(const std::string metrics_text, ReadWholeFile(storage, metrics, kMostBytes));
  RETURN_IF_ERROR(ReadMetricsText(metrics_text, metrics, &data));
  if (!trace.empty()) {
    ASSIGN_OR_RETURN(const std::string trace_text, ReadWholeFile(storage, trace, kMostBytes));
    RETURN_IF_ERROR(ReadTraceText(trace_text, trace, &data));
  }
  const std::string page = ReportPage(data, library);
  RETURN_IF_ERROR(file->Append({reinterpret_cast<const std::byte*>(page.data()), page.size()}));
  RETURN_IF_ERROR(file->Finish());
  std::printf("report: %s\n", output.c_str());
  return absl::OkStatus();
}

}  // namespace

int ReportMain(absl::Span<const std::string> arguments) {
  if (!IsFirstProcess()) return kExitDone;
  const absl::Status status = MakeReport(arguments);
  if (!status.ok()) PrintError(status);
  return ExitCodeFor(status);
}

}  // namespace reprise

// The report of a run that is going on: gathers what `reprise report` reads from files, and writes the page at the end.
//
//   ASSIGN_OR_RETURN(RunReport report, RunReport::Open(storage, "report.html"));   // refused before the first step
//   RETURN_IF_ERROR(report.SetRun(run));
//   report.Add(metrics); ...
//   RETURN_IF_ERROR(report.SetTrace(trace_json));
//   RETURN_IF_ERROR(report.Write());
#ifndef REPRISE_LAUNCH_RUN_REPORT_H_
#define REPRISE_LAUNCH_RUN_REPORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "launch/report_data.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/json_object.h"

namespace reprise {

class RunReport {
 public:
  // InvalidArgument where the page cannot be written or Chart.js is not there.
  static absl::StatusOr<RunReport> Open(Storage& storage, const std::string& path);

  absl::Status SetRun(const JsonObject& run) { return ReadRunLine(run.text(), "the run", &data_.run); }
  absl::Status SetTrace(const std::string& json) { return ReadTraceText(json, "the trace", &data_); }
  void Add(const StepMetrics& metrics) { data_.steps.Add(metrics); }
  absl::Status Write();  // once

 private:
  RunReport() = default;

  std::unique_ptr<AtomicFile> file_;
  std::string chart_library_;
  ReportData data_;
};

}  // namespace reprise

#endif  // REPRISE_LAUNCH_RUN_REPORT_H_

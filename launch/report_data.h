// What a report shows, read from a metrics file and a trace, or gathered while a run goes on.
//
//   ReportData data;
//   RETURN_IF_ERROR(ReadMetricsText(text, "run.jsonl", &data));
//   RETURN_IF_ERROR(ReadTraceText(text, "trace.json", &data));   // optional
//
// Bounded in memory, however long the run: neighbouring steps become one point (StepSeries).
#ifndef REPRISE_LAUNCH_REPORT_DATA_H_
#define REPRISE_LAUNCH_REPORT_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/train/metrics.h"

namespace reprise {

// Steps in a row.
struct StepPoint {
  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t steps = 0;
  int64_t not_finite = 0;        // steps whose loss is no number
  double loss_sum = 0;           // of the others
  double gradient_norm_sum = 0;  // likewise
  double tokens = 0;
  double seconds = 0;
  double exposed_communication_seconds = 0;
  double exposed_transfer_seconds = 0;

  std::optional<double> loss() const;  // mean; nothing where no step has one
  std::optional<double> gradient_norm() const;
  double tokens_per_second() const { return seconds > 0 ? tokens / seconds : 0; }
  void Merge(const StepPoint& behind);
};

class StepSeries {
 public:
  static constexpr size_t kMostPoints = 1024;

  // A step that is not behind the last one takes its place and that of all behind it: a resumed run repeats steps.
  void Add(const StepMetrics& metrics);

  bool empty() const { return points_.empty(); }
  const std::vector<StepPoint>& points() const { return points_; }
  const std::vector<std::pair<int64_t, double>>& validation_losses() const { return validation_; }  // by step
  const StepMetrics& last() const { return last_; }
  StepPoint Total() const;
  double MedianTokensPerSecond() const;

 private:
  std::vector<StepPoint> points_;
  int64_t steps_each_ = 1;  // of a full point
  std::vector<std::pair<int64_t, double>> validation_;
  StepMetrics last_;
};

// How a block's forward is kept for its backward, in the words of the metrics file.
struct ReportBlock {
  std::string name;
  std::string keep;        // everything, set, boundary, nothing; "" for the first and the last block
  std::string boundary;    // of what stands before it: device, host, dropped; "" for the first block
  std::string parameters;  // between uses: sharded, gathered, whole
};

struct ReportRun {
  std::string version, device, configuration;  // the last as TOML
  std::string policy;
  int64_t ranks = 0, threads = 0, parameters = 0;
  int64_t predicted_peak_bytes = 0;
  std::vector<std::string> hosts;
  std::vector<std::string> warnings;  // said when the run began
  std::vector<ReportBlock> blocks;

  // The value of a setting as the configuration writes it, without quotes; "" where it is not there.
  std::string Setting(absl::string_view name) const;
};

struct ReportMemoryPoint {
  int64_t ns = 0;
  std::vector<int64_t> bytes;  // by ReportTrace::kinds
};

struct ReportTrace {
  std::string source;  // measured, simulated
  int64_t step = 0;
  int64_t step_ns = 0;
  int64_t predicted_peak_bytes = 0;
  std::string peak_instruction;
  std::vector<std::pair<std::string, int64_t>> causes;  // nanoseconds
  std::vector<std::string> kinds;
  std::vector<ReportMemoryPoint> memory;  // at most kMostPoints; the largest is among them
};

struct ReportData {
  ReportRun run;
  StepSeries steps;
  std::optional<ReportTrace> trace;
};

// DataLoss with `name` and the line for what is no metrics file: no JSON, no step. A last line that was cut short is
// left out. Of several run lines (a resumed run) the last counts.
absl::Status ReadMetricsText(absl::string_view text, const std::string& name, ReportData* data);

// One run line's JSON.
absl::Status ReadRunLine(absl::string_view json, const std::string& name, ReportRun* run);

// DataLoss with `name` for what is no trace of this program.
absl::Status ReadTraceText(absl::string_view text, const std::string& name, ReportData* data);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_REPORT_DATA_H_

// What a step measured, as a line of JSON each; written by rank 0.
//
//   ASSIGN_OR_RETURN(MetricsWriter metrics, MetricsWriter::Open(storage, "run.jsonl", LineStreamMode::kReplace));
//   RETURN_IF_ERROR(metrics.WriteRun(JsonObject().Add("ranks", 2)));   // {"run":{"ranks":2}}
//   RETURN_IF_ERROR(metrics.WriteStep(step));                          // {"step":1,"loss":10.82,...}
//
// A line is whole in the file when the call returns. JSON has no NaN: such a number is null, and the line ends with
// "not_finite": {"loss": "nan"} (or "inf", "-inf") that says what it was.
// A file that can't be opened or written is InvalidArgument with path and mend. For one thread.
#ifndef REPRISE_RUNTIME_TRAIN_METRICS_H_
#define REPRISE_RUNTIME_TRAIN_METRICS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/snapshot/storage.h"
#include "runtime/train/json_object.h"

namespace reprise {

// In the order in which they are written, under these names.
struct StepMetrics {
  int64_t step = 0;  // from 1
  double loss = 0;   // mean over the step's counted labels
  double gradient_norm = 0;
  double learning_rate = 0;
  int64_t tokens = 0;  // of the step, all ranks
  double tokens_per_second = 0;
  std::optional<double> mfu = std::nullopt;  // where the peak rate is known
  double step_seconds = 0;
  int64_t peak_device_bytes = 0;
  int64_t predicted_peak_device_bytes = 0;  // largest over ranks
  int64_t host_bytes = 0;
  double recompute_fraction = 0;  // of forward time
  int64_t recomputed_flops = 0;
  int64_t gathers = 0;  // of the step, this rank
  int64_t offloaded_bytes = 0;
  double exposed_communication_seconds = 0;
  double exposed_transfer_seconds = 0;
  std::optional<int64_t> peak_resident_bytes = std::nullopt;  // of this rank's process, so far; where the system says
  std::optional<double> validation_loss = std::nullopt;       // where there was one
};

// The line of a step, without its newline.
std::string FormatStep(const StepMetrics& metrics);

class MetricsWriter {
 public:
  // kReplace: an earlier run's lines stay until the run line is written, so also where this run is refused.
  // kAppend for a resumed run: its own run line follows the steps before it.
  static absl::StatusOr<MetricsWriter> Open(Storage& storage, const std::string& path, LineStreamMode mode);

  absl::Status WriteRun(const JsonObject& run) { return stream_->WriteLine(JsonObject().Add("run", run).text()); }
  absl::Status WriteStep(const StepMetrics& metrics) { return stream_->WriteLine(FormatStep(metrics)); }

 private:
  explicit MetricsWriter(std::unique_ptr<LineStream> stream) : stream_(std::move(stream)) {}
  std::unique_ptr<LineStream> stream_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_METRICS_H_

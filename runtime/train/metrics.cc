#include "runtime/train/metrics.h"

#include "base/status_macros.h"

namespace reprise {

std::string FormatStep(const StepMetrics& metrics) {
  JsonObject line;
  line.Add("step", metrics.step)
      .Add("loss", metrics.loss)
      .Add("gradient_norm", metrics.gradient_norm)
      .Add("learning_rate", metrics.learning_rate)
      .Add("tokens", metrics.tokens)
      .Add("tokens_per_second", metrics.tokens_per_second);
  if (metrics.mfu.has_value()) line.Add("mfu", *metrics.mfu);
  line.Add("step_seconds", metrics.step_seconds)
      .Add("peak_device_bytes", metrics.peak_device_bytes)
      .Add("predicted_peak_device_bytes", metrics.predicted_peak_device_bytes)
      .Add("host_bytes", metrics.host_bytes)
      .Add("recompute_fraction", metrics.recompute_fraction)
      .Add("recomputed_flops", metrics.recomputed_flops)
      .Add("gathers", metrics.gathers)
      .Add("offloaded_bytes", metrics.offloaded_bytes)
      .Add("exposed_communication_seconds", metrics.exposed_communication_seconds)
      .Add("exposed_transfer_seconds", metrics.exposed_transfer_seconds);
  if (metrics.peak_resident_bytes.has_value()) line.Add("peak_resident_bytes", *metrics.peak_resident_bytes);
  if (metrics.validation_loss.has_value()) line.Add("validation_loss", *metrics.validation_loss);
  if (!line.not_finite().empty()) {
    JsonObject what;
    for (const auto& [key, value] : line.not_finite()) what.Add(key, value);
    line.Add("not_finite", what);
  }
  return line.text();
}

absl::StatusOr<MetricsWriter> MetricsWriter::Open(Storage& storage, const std::string& path, LineStreamMode mode) {
  ASSIGN_OR_RETURN(std::unique_ptr<LineStream> stream, storage.OpenLines(path, mode));
  return MetricsWriter(std::move(stream));
}

}  // namespace reprise

#include "launch/run_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/bytes.h"
#include "launch/progress.h"

namespace reprise {
namespace {

std::string Row(const std::string& name, const std::string& value) {
  return absl::StrFormat("  %-38s %s\n", name, value);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

const char* KeptWord(const LayerPlan& layer) {
  if (layer.keep == Keep::kEverything) return "everything";
  if (layer.keep == Keep::kSet) return "set";
  return layer.starts_segment ? "boundary" : "nothing";
}

// In the words that a report reads (report_data.h).
JsonObject BlockObject(const JobPlan& job, size_t block) {
  JsonObject object;
  object.Add("name", job.program.blocks[block].name);
  const bool is_layer = block > 0 && block <= job.plan.layers.size();
  const LayerPlan layer = is_layer ? job.plan.layers[block - 1] : LayerPlan();
  if (is_layer) object.Add("keep", KeptWord(layer));
  if (is_layer) object.Add("boundary", layer.offload_boundary ? "host" : layer.starts_segment ? "device" : "dropped");
  const char* between = layer.stays_gathered ? "gathered" : "sharded";
  return object.Add("parameters", job.options.sharding == Sharding::kFull ? between : "whole");
}

std::vector<JsonObject> BlockObjects(const JobPlan& job) {
  std::vector<JsonObject> blocks;
  for (size_t b = 0; b < job.program.blocks.size(); ++b) blocks.push_back(BlockObject(job, b));
  return blocks;
}

JsonObject PlanObject(const JobPlan& job) {
  JsonObject object;
  if (job.estimate.has_value()) {
    object.Add("predicted_step_seconds", static_cast<double>(job.estimate->step_ns) * 1e-9);
  }
  return object.Add("policy", job.plan.policy)
      .Add("layers", static_cast<int64_t>(job.plan.layers.size()))
      .Add("segments", job.plan.segment_count())
      .Add("offloaded_boundaries", job.plan.offloaded_boundaries())
      .Add("prefetch", job.plan.prefetch)
      .Add("predicted_peak_device_bytes", job.schedule.device_bytes)
      .Add("host_bytes", job.host_bytes())
      .Add("blocks", BlockObjects(job))
      .Add("schedule_hash", absl::StrCat(absl::Hex(job.schedule.Hash(), absl::kZeroPad16)));
}

}  // namespace

JsonObject RunObject(const TrainConfiguration& configuration, const JobPlan& job, const Communicator& communicator,
                     const MachineOptions& machine, const std::vector<std::string>& warnings) {
  return JsonObject()
      .Add("version", REPRISE_VERSION)
      .Add("configuration", ToToml(configuration))
      .Add("ranks", communicator.size())
      .Add("hosts", communicator.hosts())
      .Add("threads", machine.threads)
      .Add("device", machine.device)
      .Add("parameters", job.units.parameter_count())
      .Add("warnings", warnings)
      .Add("plan", PlanObject(job));
}

int64_t UncheckpointedPeak(const Model& model, JobOptions options, int ranks, const MachineOptions& machine) {
  options.checkpoint = "none";
  options.offload_activations = false;
  options.memory_budget_bytes = 0;
  const absl::StatusOr<KernelOptions> kernel_options = KernelsOf(machine);
  if (!kernel_options.ok()) return 0;
  KernelSet kernels(*kernel_options);
  const auto plan = MakeJobPlan(model, options, ranks, kernels);
  return plan.ok() ? (*plan)->device_bytes() : 0;
}

void RunTable::Add(const StepMetrics& metrics) {
  if (first_.step == 0) first_ = metrics;
  last_ = metrics;
  step_seconds_.push_back(metrics.step_seconds);
  seconds_ += metrics.step_seconds;
  exposed_communication_ += metrics.exposed_communication_seconds;
  exposed_transfer_ += metrics.exposed_transfer_seconds;
  if (metrics.validation_loss.has_value()) validation_loss_ = metrics.validation_loss;
}

std::string RunTable::Text(const JobPlan& job, int64_t uncheckpointed_peak_bytes, int64_t bytes_beside_arena) const {
  if (last_.step == 0) return "no step was run";
  const double median = Median(step_seconds_);
  std::string text = "\nrun\n";
  text += Row("steps", absl::StrFormat("%d in %s", last_.step, FormatDuration(seconds_)));
  text += Row("loss, first and last step", absl::StrFormat("%.4f -> %.4f", first_.loss, last_.loss));
  if (validation_loss_.has_value()) text += Row("validation loss", absl::StrFormat("%.4f", *validation_loss_));
  text += Row("speed, median of steps",
              absl::StrFormat("%.0f tokens/s, %.3f s a step",
                              static_cast<double>(last_.tokens) / std::max(median, 1e-9), median));
  text += Row("exposed communication, transfer",
              absl::StrFormat("%.1f %%, %.1f %% of the time", 100 * exposed_communication_ / seconds_,
                              100 * exposed_transfer_ / seconds_));
  text += Row("recompute, of forward time", absl::StrFormat("%.0f %%", 100 * last_.recompute_fraction));
  text += Row("peak device memory per rank, predicted", FormatBytes(last_.predicted_peak_device_bytes));
  text += Row("peak device memory per rank, measured", FormatBytes(last_.peak_device_bytes));
  if (bytes_beside_arena > 0) text += Row("device memory in use beside that", FormatBytes(bytes_beside_arena));
  text += Row("host memory per rank, offloaded", FormatBytes(last_.host_bytes));
  if (uncheckpointed_peak_bytes > 0) {
    text += Row("the same with checkpoint=none",
                absl::StrFormat(
                    "%s (%.2f times as much)", FormatBytes(uncheckpointed_peak_bytes),
                    static_cast<double>(uncheckpointed_peak_bytes) / static_cast<double>(job.schedule.device_bytes)));
  }
  return text;
}

}  // namespace reprise

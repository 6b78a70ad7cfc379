#include "launch/report_warnings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes.h"

namespace reprise {
namespace {

constexpr double kNearBudget = 0.95;
constexpr double kMuchCommunication = 0.2;  // of the steps' time
constexpr double kMuchTransfer = 0.1;
constexpr double kRising = 0.02;      // of the lowest
constexpr double kSlower = 0.7;       // of the median speed
constexpr size_t kTenths = 10;        // parts of a run that are compared
constexpr size_t kFewestPoints = 20;  // for that

std::string StepsOf(const StepPoint& point) {
  if (point.first_step == point.last_step) return absl::StrCat("in step ", point.first_step);
  return absl::StrCat("in steps ", point.first_step, " to ", point.last_step);
}

void AddNotFinite(const ReportData& data, std::vector<std::string>* warnings) {
  const StepPoint total = data.steps.Total();
  if (total.not_finite == 0) return;
  const std::vector<StepPoint>& points = data.steps.points();
  const auto first = std::find_if(points.begin(), points.end(), [](const StepPoint& p) { return p.not_finite > 0; });
  warnings->push_back(
      absl::StrFormat("%d of %d steps have a loss or a gradient norm that is not a finite number, the first %s. "
                      "Lower the learning rate, lengthen the warm-up, or look at the data of that step.",
                      total.not_finite, total.steps, StepsOf(*first)));
}

void AddLossRises(const ReportData& data, std::vector<std::string>* warnings) {
  const std::vector<StepPoint>& points = data.steps.points();
  if (points.size() < kFewestPoints) return;
  std::vector<StepPoint> tenths(kTenths);
  for (size_t i = 0; i < points.size(); ++i) tenths[i * kTenths / points.size()].Merge(points[i]);
  const std::optional<double> last = tenths.back().loss();
  const StepPoint* lowest = nullptr;
  for (const StepPoint& tenth : tenths) {
    const bool lower = tenth.loss().has_value() && (lowest == nullptr || *tenth.loss() < *lowest->loss());
    if (lower) lowest = &tenth;
  }
  if (lowest == nullptr || !last.has_value() || *last <= *lowest->loss() + kRising * std::abs(*lowest->loss())) return;
  warnings->push_back(
      absl::StrFormat("The training loss rises: it is %.4f nats/label over the last steps, and was %.4f nats/label %s. "
                      "The learning rate "
                      "may be too high.",
                      *last, *lowest->loss(), StepsOf(*lowest)));
}

void AddValidationRises(const ReportData& data, std::vector<std::string>* warnings) {
  const auto& losses = data.steps.validation_losses();
  if (losses.size() < 3) return;
  const auto lowest =
      std::min_element(losses.begin(), losses.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const double last = losses.back().second;
  if (std::isfinite(last) && last <= lowest->second + kRising * std::abs(lowest->second)) return;
  warnings->push_back(
      absl::StrFormat("The validation loss rises: it is %.4f nats/label at the end and was %.4f nats/label at step %d. "
                      "The model learns the training data by "
                      "heart: stop earlier, or use more data or dropout.",
                      last, lowest->second, lowest->first));
}

void AddMemory(const ReportData& data, std::vector<std::string>* warnings) {
  const StepMetrics& last = data.steps.last();
  int64_t budget = 0;
  const bool capped = absl::SimpleAtoi(data.run.Setting("memory_budget"), &budget) && budget > 0;
  const int64_t peak = std::max(last.peak_device_bytes, last.predicted_peak_device_bytes);
  if (capped && peak > budget) {
    warnings->push_back(
        absl::StrFormat("Peak device memory, %s, is beyond the budget of %s.", FormatBytes(peak), FormatBytes(budget)));
  } else if (capped && static_cast<double>(peak) > kNearBudget * static_cast<double>(budget)) {
    warnings->push_back(absl::StrFormat(
        "Peak device memory, %s, is within %d %% of the budget of %s. The plan is exact and holds, but a larger batch "
        "or model will need another one.",
        FormatBytes(peak), std::lround(100 - 100 * kNearBudget), FormatBytes(budget)));
  }
  if (last.peak_device_bytes > last.predicted_peak_device_bytes && last.predicted_peak_device_bytes > 0) {
    warnings->push_back(
        absl::StrFormat("Measured peak device memory, %s, is above the predicted %s. Please report this.",
                        FormatBytes(last.peak_device_bytes), FormatBytes(last.predicted_peak_device_bytes)));
  }
}

void AddExposed(const ReportData& data, std::vector<std::string>* warnings) {
  const StepPoint total = data.steps.Total();
  if (total.seconds <= 0) return;
  const double communication = total.exposed_communication_seconds / total.seconds;
  const double transfer = total.exposed_transfer_seconds / total.seconds;
  if (communication > kMuchCommunication) {
    warnings->push_back(
        absl::StrFormat("Compute waits for communication for %.0f %% of the time. More tokens in a micro-batch, a "
                        "larger --prefetch, or "
                        "fewer ranks would hide more of it.",
                        100 * communication));
  }
  if (transfer > kMuchTransfer) {
    warnings->push_back(absl::StrFormat(
        "Compute waits for offloaded activations for %.0f %% of the time. Offload fewer of them, or none.",
        100 * transfer));
  }
}

void AddSlower(const ReportData& data, std::vector<std::string>* warnings) {
  const std::vector<StepPoint>& points = data.steps.points();
  if (points.size() < kFewestPoints) return;
  StepPoint end;
  for (size_t i = points.size() - points.size() / kTenths; i < points.size(); ++i) end.Merge(points[i]);
  const double median = data.steps.MedianTokensPerSecond();
  if (end.tokens_per_second() >= kSlower * median) return;
  warnings->push_back(absl::StrFormat(
      "The last steps run at %.0f tokens/s, and the median is %.0f tokens/s: something else may use the machine.",
      end.tokens_per_second(), median));
}

void AddShort(const ReportData& data, std::vector<std::string>* warnings) {
  int64_t steps = 0;
  if (!absl::SimpleAtoi(data.run.Setting("steps"), &steps) || data.steps.last().step >= steps) return;
  warnings->push_back(absl::StrFormat("The metrics end at step %d of %d: the run was stopped, or is still going on.",
                                      data.steps.last().step, steps));
}

}  // namespace

std::vector<std::string> WarningsOf(const ReportData& data) {
  std::vector<std::string> warnings;
  if (!data.steps.empty()) {
    AddNotFinite(data, &warnings);
    AddLossRises(data, &warnings);
    AddValidationRises(data, &warnings);
    AddMemory(data, &warnings);
    AddExposed(data, &warnings);
    AddSlower(data, &warnings);
    AddShort(data, &warnings);
  }
  warnings.insert(warnings.end(), data.run.warnings.begin(), data.run.warnings.end());
  return warnings;
}

}  // namespace reprise

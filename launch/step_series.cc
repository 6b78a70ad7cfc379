#include <algorithm>
#include <cmath>

#include "launch/report_data.h"

namespace reprise {
namespace {

StepPoint PointOf(const StepMetrics& m) {
  StepPoint point;
  point.first_step = point.last_step = m.step;
  point.steps = 1;
  if (std::isfinite(m.loss) && std::isfinite(m.gradient_norm)) {
    point.loss_sum = m.loss;
    point.gradient_norm_sum = m.gradient_norm;
  } else {
    point.not_finite = 1;
  }
  point.tokens = static_cast<double>(m.tokens);
  point.seconds = m.step_seconds;
  point.exposed_communication_seconds = m.exposed_communication_seconds;
  point.exposed_transfer_seconds = m.exposed_transfer_seconds;
  return point;
}

// Pairs of neighbours become one; an odd last one stays.
template <typename T, typename Join>
void Halve(std::vector<T>* points, Join join) {
  size_t kept = 0;
  for (size_t i = 0; i < points->size(); i += 2) {
    T point = (*points)[i];
    if (i + 1 < points->size()) join(&point, (*points)[i + 1]);
    (*points)[kept++] = point;
  }
  points->resize(kept);
}

}  // namespace

std::optional<double> StepPoint::loss() const {
  if (steps == not_finite) return std::nullopt;
  return loss_sum / static_cast<double>(steps - not_finite);
}

std::optional<double> StepPoint::gradient_norm() const {
  if (steps == not_finite) return std::nullopt;
  return gradient_norm_sum / static_cast<double>(steps - not_finite);
}

void StepPoint::Merge(const StepPoint& behind) {
  if (steps == 0) first_step = behind.first_step;
  last_step = behind.last_step;
  steps += behind.steps;
  not_finite += behind.not_finite;
  loss_sum += behind.loss_sum;
  gradient_norm_sum += behind.gradient_norm_sum;
  tokens += behind.tokens;
  seconds += behind.seconds;
  exposed_communication_seconds += behind.exposed_communication_seconds;
  exposed_transfer_seconds += behind.exposed_transfer_seconds;
}

void StepSeries::Add(const StepMetrics& metrics) {
  while (!points_.empty() && points_.back().last_step >= metrics.step) points_.pop_back();
  while (!validation_.empty() && validation_.back().first >= metrics.step) validation_.pop_back();
  if (!points_.empty() && points_.back().steps < steps_each_) {
    points_.back().Merge(PointOf(metrics));
  } else {
    points_.push_back(PointOf(metrics));
  }
  if (points_.size() > kMostPoints) {
    Halve(&points_, [](StepPoint* point, const StepPoint& behind) { point->Merge(behind); });
    steps_each_ *= 2;
  }
  if (metrics.validation_loss.has_value()) validation_.emplace_back(metrics.step, *metrics.validation_loss);
  if (validation_.size() > kMostPoints) {
    Halve(&validation_, [](auto* point, const auto& behind) { *point = behind; });
  }
  last_ = metrics;
}

StepPoint StepSeries::Total() const {
  StepPoint total;
  for (const StepPoint& point : points_) total.Merge(point);
  return total;
}

double StepSeries::MedianTokensPerSecond() const {
  std::vector<double> rates;
  for (const StepPoint& point : points_) rates.push_back(point.tokens_per_second());
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

}  // namespace reprise

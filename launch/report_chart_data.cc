#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "launch/report_page.h"

namespace reprise {
namespace {

using Json = nlohmann::json;

constexpr double kNanosecondsPerMillisecond = 1e6;

Json OrNull(const std::optional<double>& value) {
  return value.has_value() && std::isfinite(*value) ? Json(*value) : Json();
}

// The unit in which `largest` bytes read best.
std::pair<const char*, double> UnitOf(int64_t largest) {
  if (largest >= int64_t{2} << 30) return {"GiB", 0x1p30};
  if (largest >= int64_t{2} << 20) return {"MiB", 0x1p20};
  return {"KiB", 0x1p10};
}

Json MemoryOf(const ReportTrace& trace, int64_t budget) {
  int64_t largest = trace.predicted_peak_bytes;
  // A budget far above would leave the curve at the bottom: the figures say it in words.
  const bool shows_budget = budget > 0 && budget / 4 <= largest;
  if (shows_budget) largest = std::max(largest, budget);
  const auto [unit, bytes] = UnitOf(largest);
  Json json = {{"unit", unit},
               {"peak", static_cast<double>(trace.predicted_peak_bytes) / bytes},
               {"budget", shows_budget ? Json(static_cast<double>(budget) / bytes) : Json()},
               {"ms", Json::array()},
               {"kinds", Json::array()}};
  for (const ReportMemoryPoint& point : trace.memory) {
    json["ms"].push_back(static_cast<double>(point.ns) / kNanosecondsPerMillisecond);
  }
  for (size_t kind = 0; kind < trace.kinds.size(); ++kind) {
    Json values = Json::array();
    bool any = false;
    for (const ReportMemoryPoint& point : trace.memory) {
      values.push_back(static_cast<double>(point.bytes[kind]) / bytes);
      any = any || point.bytes[kind] != 0;
    }
    if (any) {
      json["kinds"].push_back(
          {{"name", trace.kinds[kind]}, {"color", absl::StrCat("c", kind % 8)}, {"values", values}});
    }
  }
  return json;
}

}  // namespace

std::string ReportChartData(const ReportData& data) {
  Json json = {{"first_step", 0},       {"step", Json::array()},  {"loss", Json::array()},
               {"norm", Json::array()}, {"speed", Json::array()}, {"validation", Json::array()}};
  const std::vector<StepPoint>& points = data.steps.points();
  if (!points.empty()) json["first_step"] = points.front().last_step;
  for (const StepPoint& point : points) {
    json["step"].push_back(point.last_step);
    json["loss"].push_back(OrNull(point.loss()));
    json["norm"].push_back(OrNull(point.gradient_norm()));
    json["speed"].push_back(OrNull(point.tokens_per_second()));
  }
  for (const auto& [step, loss] : data.steps.validation_losses()) {
    json["validation"].push_back(Json::array({step, OrNull(loss)}));
  }
  if (data.trace.has_value() && !data.trace->memory.empty()) {
    int64_t budget = 0;
    if (!absl::SimpleAtoi(data.run.Setting("memory_budget"), &budget)) budget = 0;
    json["memory"] = MemoryOf(*data.trace, budget);
  }
  // Nothing in the text may end the script element that it stands in.
  return absl::StrReplaceAll(json.dump(-1, ' ', false, Json::error_handler_t::replace), {{"<", "\\u003c"}});
}

}  // namespace reprise

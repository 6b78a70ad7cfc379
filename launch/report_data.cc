#include "launch/report_data.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/schedule/memory_curve.h"

namespace reprise {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBlocks = 100'000;
constexpr size_t kLongestLine = size_t{64} << 20;  // of a metrics file: JSON in memory takes many times its text

// What is missing, or of another type, is empty: files of older versions are still shown.
std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t Integer(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

double Real(const Json& object, const char* key, double missing) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : missing;
}

std::vector<std::string> Texts(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& text : *found) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

Json Parse(absl::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

StepMetrics StepOf(const Json& line) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  StepMetrics m;
  m.step = Integer(line, "step");
  m.loss = Real(line, "loss", kNaN);
  m.gradient_norm = Real(line, "gradient_norm", kNaN);
  m.learning_rate = Real(line, "learning_rate", 0);
  m.tokens = Integer(line, "tokens");
  m.step_seconds = Real(line, "step_seconds", 0);
  m.tokens_per_second = Real(line, "tokens_per_second", 0);
  m.peak_device_bytes = Integer(line, "peak_device_bytes");
  m.predicted_peak_device_bytes = Integer(line, "predicted_peak_device_bytes");
  m.host_bytes = Integer(line, "host_bytes");
  m.recompute_fraction = Real(line, "recompute_fraction", 0);
  m.gathers = Integer(line, "gathers");
  m.offloaded_bytes = Integer(line, "offloaded_bytes");
  m.exposed_communication_seconds = Real(line, "exposed_communication_seconds", 0);
  m.exposed_transfer_seconds = Real(line, "exposed_transfer_seconds", 0);
  if (line.contains("peak_resident_bytes")) m.peak_resident_bytes = Integer(line, "peak_resident_bytes");
  if (line.contains("validation_loss")) m.validation_loss = Real(line, "validation_loss", kNaN);
  return m;
}

void RunOf(const Json& json, ReportRun* run) {
  *run = {};
  run->version = Text(json, "version");
  run->device = Text(json, "device");
  run->configuration = Text(json, "configuration");
  run->ranks = Integer(json, "ranks");
  run->threads = Integer(json, "threads");
  run->parameters = Integer(json, "parameters");
  run->hosts = Texts(json, "hosts");
  run->warnings = Texts(json, "warnings");
  const auto plan = json.find("plan");
  if (plan == json.end() || !plan->is_object()) return;
  run->policy = Text(*plan, "policy");
  run->predicted_peak_bytes = Integer(*plan, "predicted_peak_device_bytes");
  const auto blocks = plan->find("blocks");
  if (blocks == plan->end() || !blocks->is_array()) return;
  for (const Json& block : *blocks) {
    if (!block.is_object() || run->blocks.size() >= kMostBlocks) continue;
    run->blocks.push_back(
        {Text(block, "name"), Text(block, "keep"), Text(block, "boundary"), Text(block, "parameters")});
  }
}

absl::Status NoMetrics(const std::string& name, int64_t line, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(name, ":", line, ": ", what, "; give the file that --metrics of a run has written"));
}

// The fullest of neighbours stands for them.
void Thin(std::vector<ReportMemoryPoint>* points) {
  constexpr size_t kMost = StepSeries::kMostPoints;
  if (points->size() <= kMost) return;
  const auto sum = [](const ReportMemoryPoint& point) {
    double bytes = 0;
    for (const int64_t b : point.bytes) bytes += static_cast<double>(b);
    return bytes;
  };
  const size_t each = (points->size() + kMost - 1) / kMost;
  std::vector<ReportMemoryPoint> kept;
  for (size_t i = 0; i < points->size(); i += each) {
    const auto begin = points->begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = points->begin() + static_cast<std::ptrdiff_t>(std::min(i + each, points->size()));
    kept.push_back(*std::max_element(begin, end, [&](const auto& a, const auto& b) { return sum(a) < sum(b); }));
  }
  *points = std::move(kept);
}

void AddMemory(const Json& event, ReportTrace* trace) {
  const auto arguments = event.find("args");
  const double microseconds = Real(event, "ts", -1);
  if (arguments == event.end() || !arguments->is_object() || !(microseconds >= 0 && microseconds < 1e15)) return;
  ReportMemoryPoint point;
  point.ns = static_cast<int64_t>(microseconds * 1000);
  for (const std::string& kind : trace->kinds) point.bytes.push_back(Integer(*arguments, kind.c_str()));
  trace->memory.push_back(std::move(point));
}

}  // namespace

std::string ReportRun::Setting(absl::string_view name) const {
  for (absl::string_view line : absl::StrSplit(configuration, '\n')) {
    if (!absl::ConsumePrefix(&line, absl::StrCat(name, " = "))) continue;
    if (absl::ConsumePrefix(&line, "\"")) absl::ConsumeSuffix(&line, "\"");
    return std::string(line);
  }
  return "";
}

absl::Status ReadRunLine(absl::string_view json, const std::string& name, ReportRun* run) {
  const Json parsed = Parse(json);
  if (!parsed.is_object()) return NoMetrics(name, 1, "the run's line is no JSON object");
  RunOf(parsed, run);
  return absl::OkStatus();
}

absl::Status ReadMetricsText(absl::string_view text, const std::string& name, ReportData* data) {
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    const bool whole = end != absl::string_view::npos;
    const absl::string_view line = text.substr(0, end);
    text.remove_prefix(whole ? end + 1 : text.size());
    if (line.empty()) continue;
    if (line.size() > kLongestLine) return NoMetrics(name, number, "longer than any line of one");
    const Json json = Parse(line);
    if (!json.is_object()) {
      if (!whole && number > 1) break;
      return NoMetrics(name, number, "no JSON object");
    }
    if (const auto run = json.find("run"); run != json.end() && run->is_object()) {
      RunOf(*run, &data->run);
    } else if (Integer(json, "step") > 0) {
      data->steps.Add(StepOf(json));
    } else {
      return NoMetrics(name, number, "neither a run nor a step");
    }
  }
  if (data->steps.empty()) return NoMetrics(name, number, "no step in this file");
  return absl::OkStatus();
}

absl::Status ReadTraceText(absl::string_view text, const std::string& name, ReportData* data) {
  const auto wrong = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(name, ": ", what, "; give the file that --trace of a run has written"));
  };
  const Json json = Parse(text);
  if (!json.is_object()) return wrong("no JSON object");
  const auto other = json.find("otherData");
  const auto events = json.find("traceEvents");
  if (other == json.end() || !other->is_object() || events == json.end() || !events->is_array()) {
    return wrong("no trace of this program");
  }
  const auto causes = other->find("time_by_cause_ns");
  if (causes == other->end() || !causes->is_object()) return wrong("a trace without its time by cause");
  ReportTrace trace;
  trace.source = Text(*other, "source");
  trace.step = Integer(*other, "step");
  trace.step_ns = Integer(*other, "step_ns");
  trace.predicted_peak_bytes = Integer(*other, "predicted_peak_device_bytes");
  trace.peak_instruction = Text(*other, "peak_instruction");
  for (int cause = 0; cause < kTimeCauseCount; ++cause) {
    const char* const word = TimeCauseName(static_cast<TimeCause>(cause));
    trace.causes.emplace_back(word, std::max<int64_t>(Integer(*causes, word), 0));
  }
  for (int kind = 0; kind < kItemKindCount; ++kind) trace.kinds.emplace_back(ItemKindName(static_cast<ItemKind>(kind)));
  for (const Json& event : *events) {
    if (event.is_object() && Text(event, "ph") == "C" && Text(event, "name") == "device memory by kind") {
      AddMemory(event, &trace);
    }
  }
  Thin(&trace.memory);
  data->trace = std::move(trace);
  return absl::OkStatus();
}

}  // namespace reprise

#include "launch/report_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/bytes.h"
#include "launch/progress.h"
#include "launch/report_warnings.h"

namespace reprise {
namespace {

constexpr const char* kChartLibraries[] = {"/usr/share/javascript/chart.js/chart.min.js",
                                           "/usr/share/nodejs/chart.js/dist/chart.min.js"};
constexpr char kNoBreak[] = "\u00a0";
constexpr int64_t kMostLibraryBytes = int64_t{8} << 20;

std::string WithCommas(int64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool between = i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0;
    if (between) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string Rounded(double value) {
  return std::isfinite(value) && std::abs(value) < 1e15 ? WithCommas(std::llround(value)) : "?";
}

std::string Seconds(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.1f%sµs", 1e6 * seconds, kNoBreak);
  if (seconds < 1) return absl::StrFormat("%.1f%sms", 1e3 * seconds, kNoBreak);
  return seconds < 100 ? absl::StrFormat("%.2f%ss", seconds, kNoBreak) : FormatDuration(seconds);
}

// A number does not stand on another line than its unit.
std::string Bytes(int64_t bytes) { return absl::StrReplaceAll(FormatBytes(bytes), {{" ", kNoBreak}}); }

std::string Percent(double part, double whole) {
  return whole > 0 ? absl::StrFormat("%.1f%s%%", 100 * part / whole, kNoBreak) : "-";
}

std::string Counted(int64_t count, const char* what) {
  return absl::StrCat(WithCommas(count), " ", what, count == 1 ? "" : "s");
}

// --- Figures --------------------------------------------------------------------------------------------------------

// `value` and `note` are HTML.
std::string Tile(const char* title, const std::string& value, const std::string& note) {
  return absl::StrCat("<div class=\"tile\"><dt>", title, "</dt><dd><div class=\"value\">", value,
                      "</div><div class=\"soft\">", note, "</div></dd></div>\n");
}

std::string WithUnit(const std::string& number, const char* unit) {
  return absl::StrCat(EscapeHtml(number), " <small>", unit, "</small>");
}

std::string Loss(double loss) {
  return std::isfinite(loss) ? WithUnit(absl::StrFormat("%.4f", loss), "nats/label") : "not finite";
}

int64_t BudgetOf(const ReportRun& run) {
  int64_t budget = 0;
  return absl::SimpleAtoi(run.Setting("memory_budget"), &budget) ? budget : 0;
}

std::string MemoryTile(const ReportData& data) {
  const StepMetrics& last = data.steps.last();
  const int64_t budget = BudgetOf(data.run);
  std::string note = absl::StrCat("predicted ", Bytes(last.predicted_peak_device_bytes));
  if (budget > 0) {
    absl::StrAppend(&note, "; ", Percent(static_cast<double>(last.peak_device_bytes), static_cast<double>(budget)),
                    " of the budget of ", Bytes(budget));
  }
  return Tile("Peak device memory per rank", EscapeHtml(Bytes(last.peak_device_bytes)), note);
}

std::string Tiles(const ReportData& data) {
  const StepSeries& steps = data.steps;
  const StepPoint total = steps.Total();
  const StepMetrics& last = steps.last();
  const std::optional<double> first = steps.points().front().loss();
  std::string text = "<dl class=\"tiles\">\n";
  text += Tile("Loss, last step", Loss(last.loss),
               first.has_value() ? absl::StrFormat("%.4f nats/label at first", *first) : "");
  if (!steps.validation_losses().empty()) {
    const auto& [step, loss] = steps.validation_losses().back();
    text += Tile("Validation loss", Loss(loss), absl::StrCat("at step ", WithCommas(step)));
  }
  const double median = steps.MedianTokensPerSecond();
  text += Tile("Speed", WithUnit(Rounded(median), "tokens/s"),
               absl::StrCat("median; ", Seconds(total.seconds / static_cast<double>(std::max<int64_t>(total.steps, 1))),
                            " a step in the mean"));
  text += Tile("Length", EscapeHtml(Counted(total.steps, "step")),
               absl::StrCat(FormatDuration(total.seconds), ", ", Rounded(total.tokens), " tokens"));
  text += MemoryTile(data);
  text += Tile("Offloaded to the host per rank", EscapeHtml(Bytes(last.host_bytes)),
               absl::StrCat(Bytes(last.offloaded_bytes), " moved each way a step"));
  text += Tile("Recomputed", absl::StrFormat("%.0f%s%%", 100 * last.recompute_fraction, kNoBreak),
               "of forward's time, last step");
  text +=
      Tile("Waited for", Percent(total.exposed_communication_seconds + total.exposed_transfer_seconds, total.seconds),
           absl::StrCat("of the time: communication ", Percent(total.exposed_communication_seconds, total.seconds),
                        ", transfers ", Percent(total.exposed_transfer_seconds, total.seconds)));
  absl::StrAppend(&text, "</dl>\n");
  return text;
}

// --- Sections -------------------------------------------------------------------------------------------------------

std::string Section(const char* title, const std::string& note, const std::string& body, const char* classes = "") {
  return absl::StrCat("<section class=\"", classes, "\"><h2>", title, "</h2><p class=\"soft\">", note, "</p>\n", body,
                      "</section>\n");
}

std::string Chart(const char* id, const char* what, const char* classes = "chart") {
  return absl::StrCat("<div class=\"", classes, "\"><canvas id=\"", id, "\" role=\"img\" aria-label=\"", what,
                      "\"></canvas></div>\n");
}

std::string Header(const ReportData& data) {
  const ReportRun& run = data.run;
  std::vector<std::string> parts;
  if (run.parameters > 0) {
    parts.push_back(absl::StrCat(EscapeHtml(run.Setting("model")), ", ", WithCommas(run.parameters), " parameters"));
  }
  if (run.ranks > 0) {
    std::string hosts = run.hosts.size() > 3 ? Counted(static_cast<int64_t>(run.hosts.size()), "host")
                                             : EscapeHtml(absl::StrJoin(run.hosts, ", "));
    parts.push_back(absl::StrCat(Counted(run.ranks, "rank"), hosts.empty() ? "" : " on ", hosts));
    parts.push_back(absl::StrCat(EscapeHtml(run.device), ", ", Counted(run.threads, "thread"), " a rank"));
  }
  if (!run.policy.empty()) parts.push_back(absl::StrCat("checkpoint=", EscapeHtml(run.policy)));
  if (!run.version.empty()) parts.push_back(absl::StrCat("Reprise ", EscapeHtml(run.version)));
  return absl::StrCat("<header><h1>Training report</h1><p class=\"soft\">", absl::StrJoin(parts, " · "),
                      "</p></header>\n");
}

std::string Warnings(const ReportData& data) {
  const std::vector<std::string> warnings = WarningsOf(data);
  if (warnings.empty()) return "<p class=\"well\">Nothing to warn of.</p>\n";
  std::string text = "<ul class=\"warnings\" aria-label=\"Warnings\">\n";
  for (const std::string& warning : warnings) {
    const std::string words = absl::StrReplaceAll(EscapeHtml(warning), {{" %", absl::StrCat(kNoBreak, "%")}});
    absl::StrAppend(&text, "<li>", words, "</li>\n");
  }
  absl::StrAppend(&text, "</ul>\n");
  return text;
}

struct Share {
  std::string name;
  double seconds = 0;
  int color = 0;
};

std::string Shares(const std::vector<Share>& shares) {
  double total = 0;
  for (const Share& share : shares) total += share.seconds;
  std::string bar = "<div class=\"bar\" aria-hidden=\"true\">";
  std::string rows = "<table><tr><th>cause</th><th class=\"number\">time</th><th class=\"number\">share</th></tr>\n";
  for (const Share& share : shares) {
    absl::StrAppend(&rows, "<tr><td><span class=\"key k", share.color, "\"></span>", EscapeHtml(share.name),
                    "</td><td class=\"number\">", share.seconds > 0 ? Seconds(share.seconds) : "0 s",
                    "</td><td class=\"number\">", Percent(share.seconds, total), "</td></tr>\n");
    if (total <= 0 || share.seconds <= 0) continue;
    absl::StrAppend(&bar, absl::StrFormat("<span class=\"k%d\" style=\"width:%.3f%%\" title=\"%s\"></span>",
                                          share.color, 100 * share.seconds / total, EscapeHtml(share.name)));
  }
  return absl::StrCat(bar, "</div>\n", rows, "</table>\n");
}

// From the trace in full; from the metrics what they tell.
std::string TimeByCause(const ReportData& data) {
  std::vector<Share> shares;
  if (data.trace.has_value()) {
    for (const auto& [name, ns] : data.trace->causes) {
      shares.push_back({name, 1e-9 * static_cast<double>(ns), static_cast<int>(shares.size() % 8)});
    }
    return Section(
        "Where the time goes",
        absl::StrCat(data.trace->step > 0 ? absl::StrCat("Step ", WithCommas(data.trace->step)) : "A step",
                     " on one rank, ", EscapeHtml(data.trace->source), ": ",
                     Seconds(1e-9 * static_cast<double>(data.trace->step_ns)), ". Exposed: compute waits for it."),
        Shares(shares));
  }
  const StepPoint total = data.steps.Total();
  const auto steps = static_cast<double>(std::max<int64_t>(total.steps, 1));
  const double waited = total.exposed_communication_seconds + total.exposed_transfer_seconds;
  shares = {{"compute and the rest", std::max(0.0, total.seconds - waited) / steps, 0},
            {"exposed communication", total.exposed_communication_seconds / steps, 2},
            {"exposed transfer", total.exposed_transfer_seconds / steps, 4}};
  return Section("Where the time goes", "Mean of all steps, on rank 0. A trace of the run tells more.", Shares(shares));
}

std::string MemoryOverStep(const ReportData& data) {
  const ReportRun& run = data.run;
  if (data.trace.has_value() && !data.trace->memory.empty()) {
    std::string note = absl::StrCat("One rank. The predicted peak is ", Bytes(data.trace->predicted_peak_bytes),
                                    ", in ", EscapeHtml(data.trace->peak_instruction), "; the budget is ",
                                    BudgetOf(run) > 0 ? Bytes(BudgetOf(run)) : "not set", ".");
    return Section("Device memory over a step", note, Chart("memory", "Device memory by kind", "chart memory"), "wide");
  }
  const int64_t budget = BudgetOf(run);
  const int64_t peak = data.steps.last().peak_device_bytes;
  std::string note = absl::StrCat("The peak is ", Bytes(peak), " per rank; the budget is ",
                                  budget > 0 ? Bytes(budget) : "not set", ". A trace of the run shows its course.");
  std::string meter;
  if (budget > 0) {
    const double share = std::min(100.0, 100 * static_cast<double>(peak) / static_cast<double>(budget));
    meter = absl::StrFormat("<div class=\"meter\"><span style=\"width:%.1f%%\"></span></div>\n", share);
  }
  return Section("Device memory", note, meter, "wide");
}

// --- Blocks ---------------------------------------------------------------------------------------------------------

struct Word {
  const char* word;   // of the metrics file
  const char* color;  // class
  const char* text;
};
constexpr Word kKeeps[] = {{"everything", "k0", "everything that backward reads is kept"},
                           {"set", "k1", "a set of tensors is kept, the rest is recomputed"},
                           {"boundary", "k2", "only the block's input is kept, the block is recomputed"},
                           {"nothing", "", "nothing is kept, recomputed from an earlier boundary"}};
constexpr Word kBoundaries[] = {
    {"device", "k5", "in device memory"}, {"host", "k3", "offloaded to the host"}, {"dropped", "", "not kept"}};
constexpr Word kParameters[] = {{"gathered", "k6", "stay gathered until backward"},
                                {"whole", "k6", "always whole on each rank"},
                                {"sharded", "", "gathered for each use"}};

template <size_t N>
const Word* Find(const Word (&words)[N], const std::string& word) {
  const Word* found = std::find_if(words, words + N, [&](const Word& w) { return word == w.word; });
  return found == words + N ? nullptr : found;
}

template <size_t N>
std::string LegendPart(const char* title, const Word (&words)[N], const std::vector<ReportBlock>& blocks,
                       std::string ReportBlock::*member) {
  std::string text;
  for (const Word& word : words) {
    const bool used = std::any_of(blocks.begin(), blocks.end(), [&](const auto& b) { return b.*member == word.word; });
    if (!used) continue;
    absl::StrAppend(&text, "<p><span class=\"key ", word.color, "\"></span>", title, ": ", word.text, "</p>\n");
  }
  return text;
}

std::string Cells(const std::vector<ReportBlock>& blocks) {
  // As wide as the page allows, within what reads well.
  const size_t cell_pixels = std::clamp<size_t>(960 / blocks.size(), 13, 32);
  std::string text = absl::StrCat("<div class=\"strip\" style=\"--cell:", cell_pixels, "px\" aria-hidden=\"true\">");
  const auto color = [](const Word* word) { return word == nullptr ? "" : word->color; };
  for (const ReportBlock& block : blocks) {
    absl::StrAppend(&text, "<i title=\"", EscapeHtml(block.name), "\"><b class=\"", color(Find(kKeeps, block.keep)),
                    "\"></b><b class=\"", color(Find(kBoundaries, block.boundary)), "\"></b><b class=\"",
                    color(Find(kParameters, block.parameters)), "\"></b></i>");
  }
  absl::StrAppend(&text, "</div>\n");
  return text;
}

// One row for blocks in a row that read the same.
std::string BlockRows(const std::vector<ReportBlock>& blocks) {
  std::string text =
      "<table><tr><th>block</th><th>kept of its forward</th><th>its input</th><th>its parameters</th></tr>\n";
  const auto cell = [](const std::string& word) { return word.empty() ? std::string("-") : EscapeHtml(word); };
  for (size_t i = 0; i < blocks.size();) {
    size_t end = i + 1;
    const auto same = [&](const ReportBlock& b) {
      return b.keep == blocks[i].keep && b.boundary == blocks[i].boundary && b.parameters == blocks[i].parameters;
    };
    while (end < blocks.size() && same(blocks[end])) ++end;
    std::string name = EscapeHtml(blocks[i].name);
    if (end - i > 1) absl::StrAppend(&name, " … ", EscapeHtml(blocks[end - 1].name), " (", end - i, " blocks)");
    absl::StrAppend(&text, "<tr><td>", name, "</td><td>", cell(blocks[i].keep), "</td><td>", cell(blocks[i].boundary),
                    "</td><td>", cell(blocks[i].parameters), "</td></tr>\n");
    i = end;
  }
  absl::StrAppend(&text, "</table>\n");
  return text;
}

std::string Blocks(const ReportData& data) {
  const std::vector<ReportBlock>& blocks = data.run.blocks;
  if (blocks.empty()) return "";
  std::string body = Cells(blocks);
  absl::StrAppend(&body, "<div class=\"legend\">", LegendPart("forward", kKeeps, blocks, &ReportBlock::keep),
                  LegendPart("input", kBoundaries, blocks, &ReportBlock::boundary),
                  LegendPart("parameters", kParameters, blocks, &ReportBlock::parameters), "</div>\n");
  absl::StrAppend(&body, "<details><summary>Block by block</summary><div class=\"scroll\">", BlockRows(blocks),
                  "</div></details>\n");
  return Section("What is kept where",
                 "A column is a block, from the first to the last. From top to bottom: what is kept of its forward for "
                 "backward, where the input before it waits, and how its parameters stand between uses.",
                 body, "wide");
}

std::string Configuration(const ReportRun& run) {
  if (run.configuration.empty()) return "";
  std::string rows;
  for (const absl::string_view line : absl::StrSplit(run.configuration, '\n', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> setting = absl::StrSplit(line, absl::MaxSplits(" = ", 1));
    absl::StrAppend(&rows, "<tr><td><code>", EscapeHtml(setting.first), "</code></td><td><code>",
                    EscapeHtml(setting.second), "</code></td></tr>\n");
  }
  return absl::StrCat("<section class=\"wide\"><details><summary>Run configuration</summary><table class=\"settings\">",
                      rows, "</table></details></section>\n");
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ReportPage(const ReportData& data, absl::string_view chart_library) {
  std::string page = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<title>Training report</title>\n<style>",
      kReportStyle, "</style></head>\n<body><main>\n", Header(data), Warnings(data), Tiles(data),
      "<div class=\"grid\">\n");
  absl::StrAppend(
      &page, Section("Loss", "Mean over the labels of a step.", Chart("loss", "Loss by step")),
      Section("Speed", "All ranks together.", Chart("speed", "Tokens a second by step")), TimeByCause(data),
      Section("Gradient norm", "Of the mean loss, before clipping.", Chart("norm", "Gradient norm by step")),
      MemoryOverStep(data), Blocks(data), Configuration(data.run));
  absl::StrAppend(&page, "</div>\n</main>\n<script type=\"application/json\" id=\"data\">", ReportChartData(data),
                  "</script>\n<script>", absl::StrReplaceAll(chart_library, {{"</script", "<\\/script"}}),
                  "</script>\n<script>", kReportScript, "</script>\n</body></html>\n");
  return page;
}

absl::StatusOr<std::string> ReadChartLibrary(Storage& storage) {
  for (const char* path : kChartLibraries) {
    absl::StatusOr<std::string> text = ReadWholeFile(storage, path, kMostLibraryBytes);
    if (text.ok()) return text;
  }
  return absl::InvalidArgumentError(absl::StrCat("a report needs Chart.js, and ", kChartLibraries[0],
                                                 " can't be read; install libjs-chart.js, or run launch/setup"));
}

}  // namespace reprise

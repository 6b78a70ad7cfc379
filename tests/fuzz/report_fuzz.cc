// What `reprise report` reads: metrics, and behind a line of "TRACE" a trace; to the page.
#include "launch/report_data.h"
#include "launch/report_page.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  constexpr absl::string_view kDivider = "\nTRACE\n";
  const absl::string_view text = TextOf(data, size);
  const size_t divider = text.find(kDivider);
  ReportData report;
  const absl::Status metrics = ReadMetricsText(text.substr(0, divider), "m.jsonl", &report);
  if (!metrics.ok()) CheckRefusal(metrics, absl::StatusCode::kDataLoss);
  if (divider != absl::string_view::npos) {
    const absl::Status trace = ReadTraceText(text.substr(divider + kDivider.size()), "trace.json", &report);
    if (!trace.ok()) CheckRefusal(trace, absl::StatusCode::kDataLoss);
  }
  if (metrics.ok()) REPRISE_CHECK(!ReportPage(report, "library").empty());
  return 0;
}

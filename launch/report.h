// `reprise report`: one HTML page from the metrics file of a run and, where there is one, its trace.
//
//   reprise report --metrics=run.jsonl --trace=run.json --output=report.html
#ifndef REPRISE_LAUNCH_REPORT_H_
#define REPRISE_LAUNCH_REPORT_H_

#include <string>

#include "absl/types/span.h"

namespace reprise {

// `arguments`: what stands behind the subcommand. Returns the exit code.
int ReportMain(absl::Span<const std::string> arguments);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_REPORT_H_

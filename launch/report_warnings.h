// What a reader of a report should know first, in words: memory near the budget, communication that compute waits for,
// threads beyond the cores, a loss that rises or is no number.
//
//   for (const std::string& warning : WarningsOf(data)) ...
#ifndef REPRISE_LAUNCH_REPORT_WARNINGS_H_
#define REPRISE_LAUNCH_REPORT_WARNINGS_H_

#include <string>
#include <vector>

#include "launch/report_data.h"

namespace reprise {

// One or two sentences each, plain text, the gravest first. Empty where all is well.
std::vector<std::string> WarningsOf(const ReportData& data);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_REPORT_WARNINGS_H_

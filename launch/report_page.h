// The report as one HTML page that needs nothing else: style, script, Chart.js and data stand in it.
//
//   ASSIGN_OR_RETURN(std::string library, ReadChartLibrary(storage));
//   RETURN_IF_ERROR(WriteWholeFile(storage, "report.html", ReportPage(data, library)));
//
// For phone and desktop, light and dark. Text that comes from files is escaped. Numbers, tables and warnings are there
// without JavaScript, too; the curves are not.
#ifndef REPRISE_LAUNCH_REPORT_PAGE_H_
#define REPRISE_LAUNCH_REPORT_PAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launch/report_data.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

std::string ReportPage(const ReportData& data, absl::string_view chart_library);

// Chart.js from Debian's package. InvalidArgument, with the package to install, where it is not there.
absl::StatusOr<std::string> ReadChartLibrary(Storage& storage);

// `text` as it may stand in HTML, inside and outside of quotes.
std::string EscapeHtml(absl::string_view text);

// The page's curves, as JSON that may stand in a script element.
std::string ReportChartData(const ReportData& data);

// Fixed parts of the page.
extern const char kReportStyle[];
extern const char kReportScript[];

}  // namespace reprise

#endif  // REPRISE_LAUNCH_REPORT_PAGE_H_

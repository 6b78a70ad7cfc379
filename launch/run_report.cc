#include "launch/run_report.h"

#include <cstddef>

#include "base/status_macros.h"
#include "launch/report_page.h"

namespace reprise {

absl::StatusOr<RunReport> RunReport::Open(Storage& storage, const std::string& path) {
  RunReport report;
  ASSIGN_OR_RETURN(report.file_, storage.Create(path));
  ASSIGN_OR_RETURN(report.chart_library_, ReadChartLibrary(storage));
  return report;
}

absl::Status RunReport::Write() {
  const std::string page = ReportPage(data_, chart_library_);
  RETURN_IF_ERROR(file_->Append({reinterpret_cast<const std::byte*>(page.data()), page.size()}));
  return file_->Finish();
}

}  // namespace reprise

// The checker's part on memory: items that share bytes.
#ifndef REPRISE_RUNTIME_SCHEDULE_MEMORY_CHECK_H_
#define REPRISE_RUNTIME_SCHEDULE_MEMORY_CHECK_H_

#include "absl/status/status.h"
#include "runtime/schedule/happens_before.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

// That items lie within their memory; that of two items which share bytes the lifetimes are apart and every use of the
// earlier is over before any use of the later starts; that persistent items share with nobody.
absl::Status CheckMemory(const Schedule& schedule, const HappensBefore& order);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_MEMORY_CHECK_H_

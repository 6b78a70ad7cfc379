// How the checker's errors name instructions and items.
#ifndef REPRISE_RUNTIME_SCHEDULE_CHECK_TEXT_H_
#define REPRISE_RUNTIME_SCHEDULE_CHECK_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/schedule/schedule.h"

namespace reprise {

// "instruction 7 (forward block 3 micro-batch 0 [compute] waits 4)"
inline std::string NameInstruction(const Schedule& schedule, int32_t i) {
  return absl::StrCat("instruction ", i, " (", schedule.InstructionText(i), ")");
}

// "item 12 (h.3 gathered)"
inline std::string NameItem(const Schedule& schedule, int32_t i) {
  return absl::StrCat("item ", i, " (", schedule.items[static_cast<size_t>(i)].name, ")");
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_CHECK_TEXT_H_

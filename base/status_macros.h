// Early returns for absl::Status and absl::StatusOr.
//
//   RETURN_IF_ERROR(file.Write(bytes));
//   ASSIGN_OR_RETURN(Plan plan, Solve(profile, budget));
#ifndef REPRISE_BASE_STATUS_MACROS_H_
#define REPRISE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define REPRISE_CONCAT_INNER(a, b) a##b
#define REPRISE_CONCAT(a, b) REPRISE_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status reprise_status = (expression); !reprise_status.ok()) { \
      return reprise_status;                                                \
    }                                                                       \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_IMPL(REPRISE_CONCAT(status_or_, __LINE__), declaration, expression)

#define ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                  \
  if (!result.ok()) return std::move(result).status();         \
  declaration = *std::move(result)

#endif  // REPRISE_BASE_STATUS_MACROS_H_

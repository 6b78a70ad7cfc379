// The known name that a mistyped one most likely meant.
//
//   NearestName("stpes", {"steps", "seed"})  -> "steps"
//   NearestName("zzzzzz", {"steps", "seed"}) -> ""
#ifndef REPRISE_BASE_NEAREST_NAME_H_
#define REPRISE_BASE_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace reprise {

// Smallest edit distance (insert, delete, replace or swap of neighbours count 1 each); the first of equals. Empty where
// even the nearest would have to change in more than half of its letters.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

// `; did you mean 'steps'?`, or nothing where no known name is near: the end of an error's sentence.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known);

}  // namespace reprise

#endif  // REPRISE_BASE_NEAREST_NAME_H_

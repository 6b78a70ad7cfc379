// A JSON object laid flat: one entry for each number, text, truth value or null, under its path with dots.
//
//   {"n_layer": 12, "rope": {"type": "llama3"}, "architectures": ["A"]}
//   -> n_layer: 12, rope.type: "llama3", architectures.0: "A"
//
// An empty list or object stands there as EmptyJson. It is all that configurations and indices need, in memory
// proportional to the text, however deep it nests.
#ifndef REPRISE_BASE_FLAT_JSON_H_
#define REPRISE_BASE_FLAT_JSON_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace reprise {

struct EmptyJson {
  bool operator==(const EmptyJson&) const = default;
};

// monostate: null. Whole numbers beyond 63 bits become double.
using JsonScalar = std::variant<std::monostate, bool, int64_t, double, std::string, EmptyJson>;
using FlatJson = std::map<std::string, JsonScalar>;

// DataLoss, naming `source`, if `text` is not one JSON object, holds a name twice, or nests more than 32 deep.
absl::StatusOr<FlatJson> ParseFlatJson(absl::string_view text, const std::string& source);

// As a person would write it: null, true, 12, 0.5, "text", empty.
std::string FormatScalar(const JsonScalar& value);

}  // namespace reprise

#endif  // REPRISE_BASE_FLAT_JSON_H_

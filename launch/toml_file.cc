#include "launch/toml_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "launch/command_line.h"
#include "launch/toml_table.h"

namespace reprise {
namespace {

std::string TypeWords(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a float";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

// The words of an array of strings, joined as the flag takes them; false where an element is something else, or holds
// a comma and would become two.
bool JoinWords(const toml::array& array, std::string* value) {
  std::vector<std::string> words;
  for (const toml::node& element : array) {
    const toml::value<std::string>* word = element.as_string();
    if (word == nullptr || absl::StrContains(word->get(), ",")) return false;
    words.push_back(word->get());
  }
  *value = absl::StrJoin(words, ",");
  return true;
}

// True, and the text that the flag takes, where the node's type is one of the flag's.
bool ValueText(FlagKind kind, const toml::node& node, std::string* value) {
  const toml::value<int64_t>* integer = node.as_integer();
  const toml::value<double>* number = node.as_floating_point();
  const toml::value<std::string>* text = node.as_string();
  if (integer != nullptr && (kind == FlagKind::kInteger || kind == FlagKind::kNumber || kind == FlagKind::kBytes ||
                             kind == FlagKind::kCount)) {
    *value = absl::StrCat(integer->get());
    return true;
  }
  if (number != nullptr && kind == FlagKind::kNumber) {
    *value = absl::StrFormat("%.17g", number->get());
    return true;
  }
  if (text != nullptr &&
      (kind == FlagKind::kText || kind == FlagKind::kBytes || kind == FlagKind::kList || kind == FlagKind::kCount)) {
    *value = text->get();
    return true;
  }
  if (node.is_boolean() && kind == FlagKind::kBoolean) {
    *value = node.as_boolean()->get() ? "true" : "false";
    return true;
  }
  return kind == FlagKind::kList && node.is_array() && JoinWords(*node.as_array(), value);
}

absl::StatusOr<Assignment> ReadKey(const std::vector<std::string>& names, const std::string& path,
                                   absl::string_view key, const toml::node& node) {
  const std::string place = absl::StrCat(path, ":", node.source().begin.line, ": ");
  if (key == "config") {
    return absl::InvalidArgumentError(absl::StrCat(place, "config cannot stand in a configuration file itself"));
  }
  if (std::find(names.begin(), names.end(), key) == names.end()) {
    return absl::InvalidArgumentError(absl::StrCat(place, "unknown key '", key, "'", DidYouMean(key, names)));
  }
  Assignment assignment{std::string(key), "", absl::StrCat(place, key)};
  const FlagKind kind = KindOf(key);
  if (!ValueText(kind, node, &assignment.value)) {
    return absl::InvalidArgumentError(absl::StrCat(place, key, " wants ", KindWords(kind), ", not ", TypeWords(node)));
  }
  if (!IsUtf8(assignment.value)) return absl::InvalidArgumentError(absl::StrCat(place, key, " holds a zero byte"));
  return assignment;
}

}  // namespace

absl::StatusOr<std::vector<Assignment>> ReadTomlFile(Subcommand subcommand, const std::string& path) {
  ASSIGN_OR_RETURN(const toml::table table, ReadTomlTable("--config", path));
  const std::vector<std::string> names = FlagNames(subcommand);
  // A table is sorted by key; errors are wanted in the order of the lines.
  std::vector<std::pair<int64_t, std::string>> keys;
  for (const auto& [key, node] : table) keys.emplace_back(node.source().begin.line, std::string(key.str()));
  std::sort(keys.begin(), keys.end());
  std::vector<Assignment> assignments;
  for (const auto& [line, key] : keys) {
    ASSIGN_OR_RETURN(Assignment assignment, ReadKey(names, path, key, *table.get(key)));
    assignments.push_back(std::move(assignment));
  }
  return assignments;
}

}  // namespace reprise

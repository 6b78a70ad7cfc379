#include "launch/toml_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "launch/command_line.h"

namespace reprise {
namespace {

constexpr size_t kLargestFileBytes = size_t{1} << 20;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat("--config=", path, " is no file that can be read"));
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("--config=", path, " is no file that can be read"));
  }
  std::string text(kLargestFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (text.size() > kLargestFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--config=", path, " is larger than 1 MiB: no configuration"));
  }
  return text;
}

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
  if (integer != nullptr && (kind == FlagKind::kInteger || kind == FlagKind::kNumber || kind == FlagKind::kBytes)) {
    *value = absl::StrCat(integer->get());
    return true;
  }
  if (number != nullptr && kind == FlagKind::kNumber) {
    *value = absl::StrFormat("%.17g", number->get());
    return true;
  }
  if (text != nullptr && (kind == FlagKind::kText || kind == FlagKind::kBytes || kind == FlagKind::kList)) {
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

// toml++ reports bad text by an exception; it ends here.
absl::StatusOr<toml::table> ParseToml(const std::string& path, const std::string& text) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.source().begin.line,
                     ": not TOML: ", absl::string_view(error.description().data(), error.description().size())));
  }
}

}  // namespace

absl::StatusOr<std::vector<Assignment>> ReadTomlFile(Subcommand subcommand, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  ASSIGN_OR_RETURN(const toml::table table, ParseToml(path, text));
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

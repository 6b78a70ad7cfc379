#include "launch/command_line.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

bool Contains(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What an argument says before the next one is looked at.
struct Split {
  std::string name;
  std::string value;
  bool has_value = false;
};

absl::StatusOr<Split> SplitArgument(const std::vector<std::string>& names, absl::string_view argument) {
  absl::string_view rest = argument;
  if (!absl::ConsumePrefix(&rest, "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", argument, "' is no flag: flags begin with --, and each takes one value"));
  }
  absl::ConsumePrefix(&rest, "-");
  const size_t equals = rest.find('=');
  Split split{std::string(rest.substr(0, equals)), "", equals != absl::string_view::npos};
  if (split.has_value) split.value = std::string(rest.substr(equals + 1));
  if (Contains(names, split.name)) return split;

  absl::string_view positive = split.name;
  if (!split.has_value && absl::ConsumePrefix(&positive, "no") && Contains(names, positive) &&
      KindOf(positive) == FlagKind::kBoolean) {
    return Split{std::string(positive), "false", true};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag '--", split.name, "'", DidYouMean(split.name, names), "; --help lists them"));
}

}  // namespace

absl::StatusOr<std::vector<Assignment>> ParseArguments(Subcommand subcommand, absl::Span<const std::string> arguments) {
  const std::vector<std::string> names = FlagNames(subcommand);
  std::vector<Assignment> assignments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!IsUtf8(arguments[i]))
      return absl::InvalidArgumentError(absl::StrCat("argument ", i + 1, " is not UTF-8 text"));
    ASSIGN_OR_RETURN(Split split, SplitArgument(names, arguments[i]));
    if (!split.has_value && KindOf(split.name) == FlagKind::kBoolean) {
      split.value = "true";
    } else if (!split.has_value) {
      const bool follows = i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--");
      if (!follows) return absl::InvalidArgumentError(absl::StrCat("--", split.name, " needs a value"));
      split.value = arguments[++i];
      if (!IsUtf8(split.value)) return absl::InvalidArgumentError(absl::StrCat("--", split.name, " is not UTF-8 text"));
    }
    std::string origin = absl::StrCat("--", split.name);
    assignments.push_back({std::move(split.name), std::move(split.value), std::move(origin)});
  }
  return assignments;
}

bool IsUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i++]);
    if (lead == 0) return false;
    if (lead < 0x80) continue;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || text.size() - i < static_cast<size_t>(more)) return false;
    uint32_t point = lead & (0x3F >> more);
    for (int k = 0; k < more; ++k) {
      const auto next = static_cast<uint8_t>(text[i++]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    const bool overlong = (more == 2 && point < 0x800) || (more == 3 && point < 0x10000);
    if (overlong || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
  }
  return true;
}

}  // namespace reprise

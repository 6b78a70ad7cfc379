#include "base/bytes.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace reprise {
namespace {

constexpr std::array<std::pair<const char*, int>, 5> kUnits = {
    {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}};
constexpr int64_t kLargest = int64_t{1} << 62;

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a number of bytes; write for example 512MiB or 1.5GiB"));
  absl::string_view digits = absl::StripAsciiWhitespace(text);
  int shift = 0;
  bool has_unit = false;
  for (const auto& [unit, unit_shift] : kUnits) {
    const absl::string_view name(unit);
    if (digits.size() > name.size() && digits.substr(digits.size() - name.size()) == name) {
      digits.remove_suffix(name.size());
      shift = unit_shift;
      has_unit = true;
      break;
    }
  }
  digits = absl::StripTrailingAsciiWhitespace(digits);
  if (digits.empty() || !absl::ascii_isdigit(digits.front())) return bad;
  int64_t whole = 0;
  if (absl::SimpleAtoi(digits, &whole)) {
    if (whole > (kLargest >> shift)) return bad;
    return whole << shift;
  }
  double value = 0;
  if (!has_unit || digits.find_first_not_of("0123456789.") != absl::string_view::npos ||
      !absl::SimpleAtod(digits, &value) || !std::isfinite(value)) {
    return bad;
  }
  const double bytes = std::floor(std::ldexp(value, shift));
  if (bytes > static_cast<double>(kLargest)) return bad;
  return static_cast<int64_t>(bytes);
}

std::string FormatBytes(int64_t bytes) {
  const int64_t magnitude = bytes < 0 ? -bytes : bytes;
  for (const auto& [unit, shift] : kUnits) {
    if (shift > 0 && magnitude >= (int64_t{1} << shift)) {
      return absl::StrFormat("%.1f %s", std::ldexp(static_cast<double>(bytes), -shift), unit);
    }
  }
  return absl::StrCat(bytes, " B");
}

}  // namespace reprise

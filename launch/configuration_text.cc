// A configuration as text: TOML and JSON agree on how each kind of value is written.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "launch/configuration.h"
#include "launch/flags.h"

namespace reprise {
namespace {

std::string Encode(int64_t value) { return absl::StrCat(value); }
std::string Encode(ByteCount value) { return absl::StrCat(value.bytes); }
std::string Encode(MicroBatch value) { return value.automatic ? "\"auto\"" : absl::StrCat(value.sequences); }

// The shortest text that reads back as the same number.
std::string Encode(double value) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double again = 0;
    if (absl::SimpleAtod(text, &again) && again == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

std::string Encode(const std::string& value) {
  std::string text = "\"";
  for (const char letter : value) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      text += '\\';
      text += letter;
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppend(&text, absl::StrFormat("\\u%04x", byte));
    } else {
      text += letter;
    }
  }
  text += '"';
  return text;
}

std::string Encode(const std::vector<std::string>& values) {
  const auto append = [](std::string* out, const std::string& value) { absl::StrAppend(out, Encode(value)); };
  return absl::StrCat("[", absl::StrJoin(values, ", ", append), "]");
}

std::string EncodeMember(const TrainConfiguration& configuration, const Setting& setting) {
  return std::visit([&](auto member) { return Encode(configuration.*member); }, setting.member);
}

}  // namespace

std::string ToToml(const TrainConfiguration& configuration) {
  std::string text;
  for (const Setting& setting : Settings()) {
    absl::StrAppend(&text, setting.name, " = ", EncodeMember(configuration, setting), "\n");
  }
  return text;
}

std::string ToJson(const TrainConfiguration& configuration) {
  std::vector<std::string> members;
  for (const Setting& setting : Settings()) {
    members.push_back(absl::StrCat("\"", setting.name, "\": ", EncodeMember(configuration, setting)));
  }
  return absl::StrCat("{", absl::StrJoin(members, ", "), "}");
}

}  // namespace reprise

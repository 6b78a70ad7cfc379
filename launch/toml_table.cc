#include "launch/toml_table.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr size_t kLargestFileBytes = size_t{1} << 20;

absl::StatusOr<std::string> ReadText(const std::string& flag, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, "=", path, " is no file that can be read"));
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(flag, "=", path, " is no file that can be read"));
  }
  std::string text;
  std::array<char, 4096> piece;
  for (size_t bytes = 1; bytes > 0 && text.size() <= kLargestFileBytes;) {
    bytes = std::fread(piece.data(), 1, piece.size(), file.get());
    text.append(piece.data(), bytes);
  }
  if (text.size() > kLargestFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, "=", path, " is larger than 1 MiB: not what is meant to stand there"));
  }
  return text;
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

absl::StatusOr<toml::table> ReadTomlTable(const std::string& flag, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(flag, path));
  return ParseToml(path, text);
}

}  // namespace reprise

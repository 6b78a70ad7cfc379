#include "base/flat_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace reprise {
namespace {

constexpr size_t kMaxDepth = 32;

// Every value stands under its whole path, so a long name with many values inside would take far more than its text.
constexpr size_t kMaxPathBytesPerByte = 64;
constexpr size_t kFreePathBytes = 65536;

// Receives the parser's events; every handler returns false to stop.
class Flattener {
 public:
  using Json = nlohmann::json;

  explicit Flattener(size_t text_bytes) : path_bytes_left_(kFreePathBytes + kMaxPathBytesPerByte * text_bytes) {}

  bool null() { return Put(JsonScalar()); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(Json::number_integer_t value) { return Put(int64_t{value}); }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Put(static_cast<int64_t>(value));
    return Put(static_cast<double>(value));
  }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) { return Put(double{value}); }
  bool string(std::string& value) { return Put(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return Fail("holds binary data"); }
  bool start_object(size_t /*count*/) { return Open(/*is_list=*/false); }
  bool key(std::string& name) {
    Level& level = levels_.back();
    level.name = std::move(name);
    if (level.names.insert(level.name).second) return true;
    return Fail(absl::StrCat("holds '", path_, level.name, "' twice"));
  }
  bool end_object() { return Close(); }
  bool start_array(size_t /*count*/) { return levels_.empty() ? Fail("is not an object") : Open(/*is_list=*/true); }
  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& /*error*/) {
    return Fail(absl::StrCat("is not JSON at its byte ", position));
  }

  const std::string& problem() const { return problem_; }
  FlatJson Take() { return std::move(values_); }

 private:
  struct Level {
    size_t prefix_bytes;  // of path_, up to and with the dot
    bool is_list;
    int64_t index;     // of the next element of a list
    std::string name;  // of the current member of an object
    std::set<std::string> names = {};
    bool empty = true;  // nothing stood in it so far
  };

  bool Fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  // Path of the value that comes now.
  std::string Path() {
    Level& level = levels_.back();
    level.empty = false;
    return level.is_list ? absl::StrCat(path_, level.index++) : path_ + level.name;
  }

  bool Put(JsonScalar value) {
    if (levels_.empty()) return Fail("is not an object");
    return Keep(Path(), std::move(value));
  }

  bool Open(bool is_list) {
    if (levels_.size() == kMaxDepth) return Fail(absl::StrCat("nests more than ", kMaxDepth, " deep"));
    if (!levels_.empty()) path_ = Path() + ".";
    levels_.push_back({.prefix_bytes = path_.size(), .is_list = is_list, .index = 0, .name = ""});
    return true;
  }

  bool Close() {
    const bool empty = levels_.back().empty;
    levels_.pop_back();
    if (levels_.empty()) return true;
    const std::string path = path_.substr(0, path_.size() - 1);
    path_.resize(levels_.back().prefix_bytes);
    return empty ? Keep(path, EmptyJson()) : true;
  }

  bool Keep(const std::string& path, JsonScalar value) {
    if (path.size() > path_bytes_left_) return Fail("puts too many values under long names");
    path_bytes_left_ -= path.size();
    if (values_.emplace(path, std::move(value)).second) return true;
    return Fail(absl::StrCat("holds '", path, "' twice"));
  }

  size_t path_bytes_left_;
  std::vector<Level> levels_;
  std::string path_;
  std::string problem_;
  FlatJson values_;
};

}  // namespace

absl::StatusOr<FlatJson> ParseFlatJson(absl::string_view text, const std::string& source) {
  Flattener flattener(text.size());
  std::string problem;
  try {
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &flattener)) return flattener.Take();
    problem = flattener.problem();
  } catch (const std::exception& error) {
    problem = absl::StrCat("can't be read: ", error.what());
  }
  return absl::DataLossError(absl::StrCat(source, " ", problem, "; it should be one JSON object"));
}

std::string FormatScalar(const JsonScalar& value) {
  if (std::holds_alternative<std::monostate>(value)) return "null";
  if (std::holds_alternative<EmptyJson>(value)) return "empty";
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return absl::StrCat(*integer);
  if (const double* number = std::get_if<double>(&value)) return absl::StrCat(*number);
  return absl::StrCat("\"", std::get<std::string>(value), "\"");
}

}  // namespace reprise

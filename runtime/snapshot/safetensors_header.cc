#include "runtime/snapshot/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr size_t kMaxDimensions = 64;

struct TypeRow {
  const char* name;
  int64_t bytes;
};

// Indexed by StoredType.
constexpr std::array<TypeRow, 15> kTypes = {{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"F8_E5M2", 1},
                                             {"F8_E4M3", 1},
                                             {"I16", 2},
                                             {"U16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"U32", 4},
                                             {"F32", 4},
                                             {"F64", 8},
                                             {"I64", 8},
                                             {"U64", 8}}};
static_assert(static_cast<size_t>(StoredType::kU64) + 1 == kTypes.size());

bool ParseType(absl::string_view name, StoredType* type) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (name == kTypes[i].name) {
      *type = static_cast<StoredType>(i);
      return true;
    }
  }
  return false;
}

// One tensor as it stands in the header, before it is held against the file.
struct Entry {
  StoredTensor tensor;
  std::vector<int64_t> offsets;
  std::set<std::string> fields;
};

// Takes the header's events one by one, so that memory grows only with what a valid header holds. Every handler returns
// false to stop at the first thing that does not belong; `problem()` then says what it was.
class HeaderReader {
 public:
  using Json = nlohmann::json;

  bool null() { return Unexpected("null"); }
  bool boolean(bool /*value*/) { return Unexpected("a truth value"); }
  bool number_integer(Json::number_integer_t value) { return Number(value); }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(absl::StrCat("number ", value, " is beyond 63 bits"));
    }
    return Number(static_cast<int64_t>(value));
  }
  bool number_float(Json::number_float_t /*value*/, const std::string& text) {
    return Fail(absl::StrCat("number ", text.substr(0, 40), " is not a 63-bit whole number"));
  }
  bool string(std::string& value);
  bool binary(Json::binary_t& /*value*/) { return Unexpected("binary data"); }
  bool start_object(size_t /*count*/);
  bool key(std::string& name);
  bool end_object();
  bool start_array(size_t /*count*/);
  bool end_array() {
    where_ = Where::kTensor;
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& /*error*/) {
    return Fail(absl::StrCat("not JSON at its byte ", position));
  }

  const std::string& problem() const { return problem_; }
  std::vector<Entry> TakeEntries() { return std::move(entries_); }
  std::map<std::string, std::string> TakeMetadata() { return std::move(metadata_); }

 private:
  enum class Where : uint8_t { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Fail(std::string problem) {
    problem_ = entries_.empty() || where_ == Where::kMetadata || where_ == Where::kRoot
                   ? std::move(problem)
                   : absl::StrCat("tensor '", entries_.back().tensor.name, "': ", problem);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    return Fail(absl::StrCat(what, " where none belongs", key_.empty() ? "" : ", at '", key_, key_.empty() ? "" : "'"));
  }
  bool Number(int64_t value);

  Where where_ = Where::kStart;
  std::string key_;
  std::string problem_;
  std::vector<Entry> entries_;
  std::set<std::string> names_;
  std::map<std::string, std::string> metadata_;
};

bool HeaderReader::start_object(size_t /*count*/) {
  if (where_ == Where::kStart) {
    where_ = Where::kRoot;
    return true;
  }
  if (where_ != Where::kRoot) return Unexpected("an object");
  if (key_ == "__metadata__") {
    where_ = Where::kMetadata;
    return true;
  }
  entries_.emplace_back();
  entries_.back().tensor.name = key_;
  where_ = Where::kTensor;
  return true;
}

bool HeaderReader::end_object() {
  if (where_ == Where::kRoot) {
    where_ = Where::kEnd;
    return true;
  }
  if (where_ == Where::kTensor) {
    const Entry& entry = entries_.back();
    if (entry.fields.size() != 3) return Fail("needs dtype, shape and data_offsets");
    if (entry.offsets.size() != 2)
      return Fail(absl::StrCat("has ", entry.offsets.size(), " data_offsets in place of 2"));
  }
  where_ = Where::kRoot;
  return true;
}

bool HeaderReader::key(std::string& name) {
  key_ = name;
  if (where_ == Where::kRoot) {
    return names_.insert(name).second ? true : Fail(absl::StrCat("'", name, "' stands there twice"));
  }
  if (where_ == Where::kMetadata) {
    return metadata_.emplace(name, "").second ? true : Fail(absl::StrCat("metadata '", name, "' stands there twice"));
  }
  if (name != "dtype" && name != "shape" && name != "data_offsets") {
    return Fail(absl::StrCat("unknown field '", name, "'"));
  }
  return entries_.back().fields.insert(name).second ? true
                                                    : Fail(absl::StrCat("field '", name, "' stands there twice"));
}

bool HeaderReader::string(std::string& value) {
  if (where_ == Where::kMetadata) {
    metadata_[key_] = value;
    return true;
  }
  if (where_ != Where::kTensor || key_ != "dtype") return Unexpected("text");
  return ParseType(value, &entries_.back().tensor.type) ? true : Fail(absl::StrCat("unknown dtype '", value, "'"));
}

bool HeaderReader::start_array(size_t /*count*/) {
  if (where_ != Where::kTensor || key_ == "dtype") return Unexpected("a list");
  where_ = key_ == "shape" ? Where::kShape : Where::kOffsets;
  return true;
}

bool HeaderReader::Number(int64_t value) {
  if (where_ != Where::kShape && where_ != Where::kOffsets) return Unexpected("a number");
  if (value < 0) return Fail(absl::StrCat(key_, " holds ", value, ", which is negative"));
  std::vector<int64_t>& list = where_ == Where::kShape ? entries_.back().tensor.shape : entries_.back().offsets;
  if (list.size() == kMaxDimensions) return Fail(absl::StrCat(key_, " holds more than ", kMaxDimensions, " numbers"));
  list.push_back(value);
  return true;
}

// Each tensor's bytes against its shape and type, and all of them against the file: from its first byte on, one after
// the other, none left out.
absl::Status CheckEntries(std::vector<Entry>& entries, const std::string& path, int64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  int64_t end = 0;
  const char* before = "the header";
  for (Entry& entry : entries) {
    StoredTensor& tensor = entry.tensor;
    const auto refuse = [&](const std::string& what) {
      return absl::DataLossError(absl::StrCat(path, ": tensor '", tensor.name, "' ", what, "; get the file again"));
    };
    if (!SizeTensor(&tensor)) return refuse(absl::StrCat("of shape ", FormatShape(tensor.shape), " is beyond 63 bits"));
    if (entry.offsets[1] < entry.offsets[0] || entry.offsets[1] - entry.offsets[0] != tensor.bytes) {
      return refuse(absl::StrCat("of shape ", FormatShape(tensor.shape), " and dtype ", StoredTypeName(tensor.type),
                                 " needs ", tensor.bytes, " bytes, but its data_offsets are [", entry.offsets[0], ", ",
                                 entry.offsets[1], "]"));
    }
    if (entry.offsets[0] != end) {
      return refuse(absl::StrCat(entry.offsets[0] < end ? "overlaps '" : "leaves a hole after '", before,
                                 "': it begins at ", entry.offsets[0], " in place of ", end));
    }
    tensor.file_offset = entry.offsets[0];
    end = entry.offsets[1];
    before = tensor.name.c_str();
  }
  if (end > data_bytes) {
    return absl::DataLossError(absl::StrCat(path, " is cut short: ", end - data_bytes, " bytes are missing of ", end,
                                            " bytes of tensors; get the file again"));
  }
  if (end < data_bytes) {
    return absl::DataLossError(absl::StrCat(path, " holds ", data_bytes - end,
                                            " extra bytes after its last tensor; "
                                            "get the file again"));
  }
  return absl::OkStatus();
}

// A JSON string, quotes included; what is not UTF-8 is replaced.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

const char* StoredTypeName(StoredType type) { return kTypes[static_cast<size_t>(type)].name; }
int64_t StoredTypeBytes(StoredType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::string FormatShape(absl::Span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

bool SizeTensor(StoredTensor* tensor) {
  tensor->elements = 1;
  for (const int64_t dimension : tensor->shape) {
    if (dimension < 0 || __builtin_mul_overflow(tensor->elements, dimension, &tensor->elements)) return false;
  }
  return !__builtin_mul_overflow(tensor->elements, StoredTypeBytes(tensor->type), &tensor->bytes);
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, const std::string& path,
                                                         int64_t data_bytes) {
  const auto refuse = [&](absl::string_view problem) {
    return absl::DataLossError(absl::StrCat(path, " is not a safetensors file: its header ", problem,
                                            "; get the file again or save the model as safetensors"));
  };
  if (!absl::StartsWith(text, "{")) return refuse("does not begin with '{'");
  HeaderReader reader;
  try {
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return refuse("is bad: " + reader.problem());
  } catch (const std::exception& error) {
    return refuse(absl::StrCat("is bad: ", error.what()));
  }
  std::vector<Entry> entries = reader.TakeEntries();
  RETURN_IF_ERROR(CheckEntries(entries, path, data_bytes));
  SafetensorsHeader header;
  header.metadata = reader.TakeMetadata();
  header.tensors.reserve(entries.size());
  for (Entry& entry : entries) header.tensors.push_back(std::move(entry.tensor));
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  return header;
}

std::string FormatSafetensorsHeader(const std::vector<StoredTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> parts;
  if (!metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : metadata) pairs.push_back(absl::StrCat(Quoted(key), ":", Quoted(value)));
    parts.push_back(absl::StrCat("\"__metadata__\":{", absl::StrJoin(pairs, ","), "}"));
  }
  for (const StoredTensor& tensor : tensors) {
    parts.push_back(absl::StrCat(Quoted(tensor.name), ":{\"dtype\":\"", StoredTypeName(tensor.type), "\",\"shape\":[",
                                 absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", tensor.file_offset, ",",
                                 tensor.file_offset + tensor.bytes, "]}"));
  }
  std::string text = absl::StrCat("{", absl::StrJoin(parts, ","), "}");
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace reprise

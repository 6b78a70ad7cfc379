#include "runtime/plan/profile_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

using OrderedJson = nlohmann::ordered_json;  // in the order of the fields; its reading would be quadratic in them
using Json = nlohmann::json;

constexpr const char* kKeepNames[] = {"everything", "set", "boundary"};  // by Keep

// The fields of a struct, each visited with its name: one list for both directions.
template <typename O, typename Visit>
void VisitOption(O& o, Visit visit) {
  visit("name", o.name);
  visit("keep", o.keep);
  visit("set", o.set);
  visit("reads_boundary", o.reads_boundary);
  visit("kept_bytes", o.kept_bytes);
  visit("recompute_ns", o.recompute_ns);
  visit("forward_bytes", o.forward_bytes);
  visit("forward_bytes_dropped", o.forward_bytes_dropped);
  visit("recompute_bytes", o.recompute_bytes);
  visit("backward_bytes", o.backward_bytes);
}

template <typename B, typename Visit>
void VisitBlock(B& b, Visit visit) {
  visit("name", b.name);
  visit("boundary_bytes", b.boundary_bytes);
  visit("forward_ns", b.forward_ns);
  visit("backward_ns", b.backward_ns);
  visit("gather_ns", b.gather_ns);
  visit("reduce_ns", b.reduce_ns);
  visit("offload_ns", b.offload_ns);
  visit("reload_ns", b.reload_ns);
  visit("whole_bytes", b.whole_bytes);
  visit("gradient_held_bytes", b.gradient_held_bytes);
  visit("gradient_left_bytes", b.gradient_left_bytes);
  visit("forward_bytes", b.forward_bytes);
  visit("backward_bytes", b.backward_bytes);
  visit("recompute_through_ns", b.recompute_through_ns);
  visit("recompute_through_bytes", b.recompute_through_bytes);
  visit("remade_bytes", b.remade_bytes);
  visit("options", b.options);
}

template <typename P, typename Visit>
void VisitProfile(P& p, Visit visit) {
  visit("description", p.description);
  visit("state_bytes", p.state_bytes);
  visit("update_ns", p.update_ns);
  visit("accumulation", p.accumulation);
  visit("gathers", p.gathers);
  visit("reduces", p.reduces);
  visit("first_backward", p.first_backward);
  visit("interference_millionths", p.interference_millionths);
  visit("blocks", p.blocks);
}

// --- To JSON ---------------------------------------------------------------------------------------------------------

OrderedJson ToJson(const OptionProfile& option);
OrderedJson ToJson(const BlockProfile& block);
OrderedJson ToJson(Keep keep) { return kKeepNames[static_cast<size_t>(keep)]; }
OrderedJson ToJson(const std::string& text) { return text; }
OrderedJson ToJson(int64_t number) { return number; }
OrderedJson ToJson(int32_t number) { return number; }
OrderedJson ToJson(bool value) { return value; }

OrderedJson ToJson(const std::array<int64_t, kStreamCount>& by_stream) {
  OrderedJson json = OrderedJson::object();
  for (const Stream stream : kAllStreams) {
    if (stream != Stream::kCompute) json[StreamName(stream)] = by_stream[static_cast<size_t>(stream)];
  }
  return json;
}

template <typename T>
OrderedJson ToJson(const std::vector<T>& list) {
  OrderedJson json = OrderedJson::array();
  for (const T& element : list) json.push_back(ToJson(element));
  return json;
}

OrderedJson ToJson(const OptionProfile& option) {
  OrderedJson json;
  VisitOption(option, [&](const char* name, const auto& value) { json[name] = ToJson(value); });
  return json;
}

OrderedJson ToJson(const BlockProfile& block) {
  OrderedJson json;
  VisitBlock(block, [&](const char* name, const auto& value) { json[name] = ToJson(value); });
  return json;
}

// --- From JSON -------------------------------------------------------------------------------------------------------

absl::Status Read(const Json& json, const std::string& place, std::array<int64_t, kStreamCount>* by_stream);
absl::Status Read(const Json& json, const std::string& place, OptionProfile* option);
absl::Status Read(const Json& json, const std::string& place, BlockProfile* block);
template <typename T>
absl::Status Read(const Json& json, const std::string& place, std::vector<T>* list);

absl::Status Wrong(const std::string& place, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat("profile: ", place, " is not ", wanted));
}

absl::Status Read(const Json& json, const std::string& place, int64_t* number) {
  if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) {
    return Wrong(place, "a whole number below 2^63");
  }
  *number = json.get<int64_t>();
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const std::string& place, int32_t* number) {
  int64_t wide = 0;
  RETURN_IF_ERROR(Read(json, place, &wide));
  if (wide < INT32_MIN || wide > INT32_MAX) return Wrong(place, "a whole number below 2^31");
  *number = static_cast<int32_t>(wide);
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const std::string& place, bool* value) {
  if (!json.is_boolean()) return Wrong(place, "true or false");
  *value = json.get<bool>();
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const std::string& place, std::string* text) {
  if (!json.is_string()) return Wrong(place, "a text");
  *text = json.get<std::string>();
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const std::string& place, Keep* keep) {
  for (size_t k = 0; k < std::size(kKeepNames); ++k) {
    if (json.is_string() && json.get<std::string>() == kKeepNames[k]) {
      *keep = static_cast<Keep>(k);
      return absl::OkStatus();
    }
  }
  return Wrong(place, "\"everything\", \"set\" or \"boundary\"");
}

// Every field of an object once, and nothing else. `visit_fields(read)` calls read(name, field) for each.
template <typename VisitFields>
absl::Status ReadObject(const Json& json, const std::string& place, VisitFields visit_fields) {
  if (!json.is_object()) return Wrong(place, "an object");
  absl::Status status;
  std::vector<std::string> names;
  visit_fields([&](const char* name, auto& field) {
    names.emplace_back(name);
    if (!status.ok()) return;
    const auto found = json.find(name);
    if (found == json.end()) {
      status = absl::InvalidArgumentError(absl::StrCat("profile: ", place, " lacks \"", name, "\""));
    } else {
      status = Read(*found, absl::StrCat(place, ".", name), &field);
    }
  });
  RETURN_IF_ERROR(status);
  for (const auto& [name, value] : json.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("profile: ", place, " has an unknown field \"", name, "\"", DidYouMean(name, names)));
  }
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const std::string& place, std::array<int64_t, kStreamCount>* by_stream) {
  return ReadObject(json, place, [&](const auto& read) {
    for (const Stream stream : kAllStreams) {
      if (stream != Stream::kCompute) read(StreamName(stream), (*by_stream)[static_cast<size_t>(stream)]);
    }
  });
}

absl::Status Read(const Json& json, const std::string& place, OptionProfile* option) {
  return ReadObject(json, place, [&](const auto& read) { VisitOption(*option, read); });
}

template <typename T>
absl::Status Read(const Json& json, const std::string& place, std::vector<T>* list) {
  if (!json.is_array()) return Wrong(place, "an array");
  list->clear();
  for (const Json& element : json) {  // room only for what has been read: an element takes far more than a wrong one
    list->emplace_back();
    RETURN_IF_ERROR(Read(element, absl::StrCat(place, "[", list->size() - 1, "]"), &list->back()));
  }
  return absl::OkStatus();
}

absl::Status Read(const Json& json, const std::string& place, BlockProfile* block) {
  return ReadObject(json, place, [&](const auto& read) { VisitBlock(*block, read); });
}

}  // namespace

std::string ProfileToJson(const Profile& profile) {
  OrderedJson json;
  json["version"] = kProfileVersion;
  VisitProfile(profile, [&](const char* name, const auto& value) { json[name] = ToJson(value); });
  return absl::StrCat(json.dump(1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace), "\n");
}

absl::StatusOr<Profile> ProfileFromJson(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("profile: not JSON, or cut off");
  int64_t version = 0;
  const bool has_version = json.is_object() && json.contains("version");
  if (has_version) RETURN_IF_ERROR(Read(json["version"], "version", &version));
  if (version != kProfileVersion) {
    return absl::InvalidArgumentError(absl::StrCat("profile: ", has_version ? "of another version" : "no version",
                                                   "; this program reads version ", kProfileVersion));
  }
  Profile profile;
  RETURN_IF_ERROR(ReadObject(json, "profile", [&](const auto& read) {
    read("version", version);
    VisitProfile(profile, read);
  }));
  RETURN_IF_ERROR(CheckProfile(profile));
  return profile;
}

}  // namespace reprise

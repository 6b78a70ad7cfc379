#include "runtime/snapshot/huggingface.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/flat_json.h"
#include "base/status_macros.h"
#include "runtime/snapshot/adapter_config.h"

namespace reprise {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kAdapterFile[] = "adapter_model.safetensors";
constexpr char kWeightMap[] = "weight_map.";
constexpr int64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMostNamed = 3;             // in one message
constexpr int64_t kComparedElements = 4096;  // at once, on the stack

// What follows from the configuration and stands in files all the same: the causal mask of old GPT-2 files, and the
// frequencies of old Llama files, of each layer or of the model.
bool IsBuffer(absl::string_view name, absl::string_view prefix) {
  if (absl::StartsWith(name, prefix)) name.remove_prefix(prefix.size());
  if (name == "rotary_emb.inv_freq" || absl::EndsWith(name, ".rotary_emb.inv_freq")) return true;
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  return parts.size() == 4 && parts[0] == "h" && !parts[1].empty() &&
         std::all_of(parts[1].begin(), parts[1].end(), absl::ascii_isdigit) && parts[2] == "attn" &&
         (parts[3] == "bias" || parts[3] == "masked_bias");
}

// Of a file in the same folder.
bool IsFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

bool IsFloat(StoredType type) {
  return type == StoredType::kF32 || type == StoredType::kF16 || type == StoredType::kBF16 || type == StoredType::kF64;
}

absl::Status NoCheckpoint(Storage& storage, const std::string& folder) {
  if (!storage.IsFolder(folder)) {
    return absl::DataLossError(absl::StrCat(folder, " is not a folder; give one with config.json and ", kSingleFile));
  }
  const bool pickled = storage.Exists(JoinPath(folder, "pytorch_model.bin")) ||
                       storage.Exists(JoinPath(folder, "pytorch_model.bin.index.json"));
  return absl::DataLossError(
      absl::StrCat(folder, " holds neither ", kSingleFile, " nor ", kIndexFile,
                   pickled ? "; its pytorch_model.bin is not read: save the model again with safe_serialization=True"
                           : "; check the folder"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HuggingFaceCheckpoint>> HuggingFaceCheckpoint::Open(Storage& storage,
                                                                                   const std::string& folder,
                                                                                   CheckpointOptions options) {
  std::unique_ptr<HuggingFaceCheckpoint> checkpoint(new HuggingFaceCheckpoint(folder, std::move(options)));
  const std::string index = JoinPath(folder, kIndexFile);
  if (storage.Exists(JoinPath(folder, kSingleFile))) {
    RETURN_IF_ERROR(checkpoint->OpenSingle(storage, kSingleFile));
  } else if (storage.Exists(index)) {
    RETURN_IF_ERROR(checkpoint->OpenIndex(storage, index));
  } else {
    return NoCheckpoint(storage, folder);
  }
  return checkpoint;
}

absl::StatusOr<std::unique_ptr<HuggingFaceCheckpoint>> HuggingFaceCheckpoint::OpenAdapter(Storage& storage,
                                                                                          const std::string& folder) {
  std::unique_ptr<HuggingFaceCheckpoint> checkpoint(new HuggingFaceCheckpoint(folder, {.prefix = kAdapterPrefix}));
  if (!storage.Exists(JoinPath(folder, kAdapterFile))) {
    return absl::DataLossError(absl::StrCat(folder, " holds no ", kAdapterFile, "; give a folder that PEFT saved"));
  }
  RETURN_IF_ERROR(checkpoint->OpenSingle(storage, kAdapterFile));
  return checkpoint;
}

absl::Status HuggingFaceCheckpoint::OpenSingle(Storage& storage, const std::string& name) {
  RETURN_IF_ERROR(OpenPart(storage, name));
  const SafetensorsFile& file = *parts_.begin()->second;
  for (const StoredTensor& tensor : file.tensors()) places_[tensor.name] = {&file, &tensor};
  return absl::OkStatus();
}

absl::Status HuggingFaceCheckpoint::OpenPart(Storage& storage, const std::string& name) {
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(storage, JoinPath(folder_, name)));
  parts_[name] = std::make_unique<SafetensorsFile>(std::move(file));
  return absl::OkStatus();
}

// The index alone says which parts belong and what is read from which.
absl::Status HuggingFaceCheckpoint::OpenIndex(Storage& storage, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(storage, path, kMaxIndexBytes));
  ASSIGN_OR_RETURN(const FlatJson index, ParseFlatJson(text, path));
  for (const auto& [key, value] : index) {
    if (!absl::StartsWith(key, kWeightMap)) continue;
    const std::string name = key.substr(sizeof(kWeightMap) - 1);
    const auto* part = std::get_if<std::string>(&value);
    if (part == nullptr || !IsFileName(*part)) {
      return absl::DataLossError(absl::StrCat(path, " says that tensor '", name, "' is in ", FormatScalar(value),
                                              ", which is not the name of a file beside it; get the index again"));
    }
    if (parts_.count(*part) == 0) {
      if (!storage.Exists(JoinPath(folder_, *part))) {
        return absl::DataLossError(absl::StrCat(JoinPath(folder_, *part), " is not there, but ", path,
                                                " names it as a part of the model; get the missing file"));
      }
      RETURN_IF_ERROR(OpenPart(storage, *part));
    }
    const SafetensorsFile& file = *parts_[*part];
    const StoredTensor* tensor = file.Find(name);
    if (tensor == nullptr) {
      return absl::DataLossError(
          absl::StrCat(file.path(), " holds no tensor '", name, "', but ", path, " says so; get both files again"));
    }
    places_[name] = {&file, tensor};
  }
  if (places_.empty()) return absl::DataLossError(absl::StrCat(path, " has no weight_map; get the index again"));
  return absl::OkStatus();
}

const HuggingFaceCheckpoint::Place* HuggingFaceCheckpoint::LocateUntied(const std::string& name) const {
  const std::string& prefix = options_.prefix;
  for (const std::string& candidate :
       {name, prefix + name, absl::StartsWith(name, prefix) ? name.substr(prefix.size()) : name}) {
    if (const auto found = places_.find(candidate); found != places_.end()) return &found->second;
  }
  return nullptr;
}

const HuggingFaceCheckpoint::Place* HuggingFaceCheckpoint::Locate(const std::string& name) const {
  if (const Place* place = LocateUntied(name)) return place;
  for (const auto& [other, kept] : options_.tied) {
    if (kept == name) {
      if (const Place* place = LocateUntied(other)) return place;
    }
  }
  return nullptr;
}

const StoredTensor* HuggingFaceCheckpoint::Find(const std::string& name) const {
  const Place* place = Locate(name);
  return place == nullptr ? nullptr : place->tensor;
}

absl::Status HuggingFaceCheckpoint::Check(absl::Span<const ExpectedTensor> expected) const {
  std::vector<std::string> problems;
  for (const ExpectedTensor& want : expected) {
    const Place* place = Locate(want.name);
    if (place == nullptr) {
      problems.push_back(absl::StrCat("'", want.name, "' of shape ", FormatShape(want.shape), " is missing"));
    } else if (place->tensor->shape != want.shape) {
      problems.push_back(absl::StrCat("'", want.name, "' has shape ", FormatShape(place->tensor->shape), " in ",
                                      place->file->path(), " and ", FormatShape(want.shape), " in the model"));
    } else if (!IsFloat(place->tensor->type)) {
      problems.push_back(absl::StrCat("'", want.name, "' is ", StoredTypeName(place->tensor->type), " in ",
                                      place->file->path(), ", which is none of F32, F16, BF16 and F64"));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  const size_t named = std::min(problems.size(), kMostNamed);
  std::string list = absl::StrJoin(problems.begin(), problems.begin() + static_cast<int64_t>(named), ", ");
  if (named < problems.size()) absl::StrAppend(&list, ", and ", problems.size() - named, " more");
  return absl::DataLossError(absl::StrCat(folder_, " does not fit the model: ", list,
                                          "; check --model and --model_config against its config.json"));
}

absl::Status HuggingFaceCheckpoint::CheckTied(int64_t part, int64_t parts) const {
  for (const auto& [name, kept_name] : options_.tied) {
    const Place* other = LocateUntied(name);
    const Place* kept = LocateUntied(kept_name);
    if (other != nullptr && kept != nullptr) RETURN_IF_ERROR(CheckSame(*other, *kept, part, parts));
  }
  return absl::OkStatus();
}

absl::Status HuggingFaceCheckpoint::CheckSame(const Place& other, const Place& kept, int64_t part,
                                              int64_t parts) const {
  const auto differ = [&](const std::string& where) {
    return absl::DataLossError(absl::StrCat(other.file->path(), ": '", other.tensor->name, "' differs from '",
                                            kept.tensor->name, "' ", where,
                                            ", but the configuration ties them; set tie_word_embeddings to false, or "
                                            "save the model again"));
  };
  if (other.tensor->shape != kept.tensor->shape) return differ("in its shape");
  std::array<float, kComparedElements> a;
  std::array<float, kComparedElements> b;
  const int64_t blocks = (kept.tensor->elements + kComparedElements - 1) / kComparedElements;
  for (int64_t block = part; block < blocks; block += parts) {
    const int64_t first = block * kComparedElements;
    const auto count = static_cast<size_t>(std::min(kComparedElements, kept.tensor->elements - first));
    RETURN_IF_ERROR(kept.file->Read(kept.tensor->name, first, absl::MakeSpan(a.data(), count)));
    RETURN_IF_ERROR(other.file->Read(other.tensor->name, first, absl::MakeSpan(b.data(), count)));
    if (std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0) continue;
    size_t at = 0;
    while (std::memcmp(&a[at], &b[at], sizeof(float)) == 0) ++at;
    return differ(absl::StrCat("at its element ", first + static_cast<int64_t>(at)));
  }
  return absl::OkStatus();
}

std::vector<std::string> HuggingFaceCheckpoint::Rounded(absl::Span<const ExpectedTensor> expected) const {
  std::vector<std::string> names;
  for (const ExpectedTensor& want : expected) {
    if (const StoredTensor* tensor = Find(want.name); tensor != nullptr && tensor->type == StoredType::kF64) {
      names.push_back(want.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> HuggingFaceCheckpoint::Leftover(absl::Span<const ExpectedTensor> expected) const {
  std::set<const Place*> wanted;
  for (const ExpectedTensor& want : expected) wanted.insert(Locate(want.name));
  for (const auto& [other, kept] : options_.tied) wanted.insert(LocateUntied(other));
  std::vector<std::string> leftover;
  for (const auto& [name, place] : places_) {
    if (wanted.count(&place) > 0 || options_.unused.count(name) > 0) continue;
    if (!IsBuffer(name, options_.prefix)) leftover.push_back(name);
  }
  return leftover;
}

absl::StatusOr<std::string> HuggingFaceCheckpoint::Identity(absl::Span<const ExpectedTensor> expected) const {
  constexpr int64_t kSampledElements = 64;
  std::vector<float> sample;
  uint64_t check = 0;
  for (const ExpectedTensor& tensor : expected) {
    const int64_t elements = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
    sample.resize(static_cast<size_t>(std::min(elements, kSampledElements)));
    RETURN_IF_ERROR(ReadRange(tensor.name, tensor.shape, 0, absl::MakeSpan(sample)));
    check = XXH3_64bits_withSeed(sample.data(), sample.size() * sizeof(float), check);
  }
  return absl::StrCat("check ", absl::Hex(check, absl::kZeroPad16));
}

absl::Status HuggingFaceCheckpoint::ReadRange(const std::string& name, absl::Span<const int64_t> expected_shape,
                                              int64_t first_element, absl::Span<float> out) const {
  const Place* place = Locate(name);
  if (place == nullptr || absl::MakeConstSpan(place->tensor->shape) != expected_shape) {
    return Check({{name, std::vector<int64_t>(expected_shape.begin(), expected_shape.end())}});
  }
  return place->file->Read(place->tensor->name, first_element, out);
}

}  // namespace reprise

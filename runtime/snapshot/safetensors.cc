#include "runtime/snapshot/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/snapshot/git_lfs.h"
#include "runtime/snapshot/half.h"
#include "runtime/snapshot/safetensors_header.h"
#include "runtime/tensor/bfloat16.h"

namespace reprise {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read as they stand");

constexpr int64_t kPrefixBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own cap
constexpr int64_t kChunkBytes = 16384;            // conversions go through this much of stack

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename Stored, typename T>
void Convert(const std::byte* from, absl::Span<T> out) {
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): the sign is meant.
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(Load<Stored>(from + i * sizeof(Stored)));
}

// Raw elements of `type` to T; false if that type does not convert to T.
template <typename T>
bool ConvertFrom(StoredType type, const std::byte* from, absl::Span<T> out) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (type) {
      case StoredType::kF32:
        return Convert<float>(from, out), true;
      case StoredType::kF64:
        return Convert<double>(from, out), true;
      case StoredType::kF16:
        for (size_t i = 0; i < out.size(); ++i) out[i] = FloatFromHalf(Load<uint16_t>(from + 2 * i));
        return true;
      case StoredType::kBF16:
        for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(Load<BFloat16>(from + 2 * i));
        return true;
      default:
        return false;
    }
  } else {
    switch (type) {
      case StoredType::kBool:
      case StoredType::kU8:
        return Convert<uint8_t>(from, out), true;
      case StoredType::kI8:
        return Convert<int8_t>(from, out), true;
      case StoredType::kI16:
        return Convert<int16_t>(from, out), true;
      case StoredType::kU16:
        return Convert<uint16_t>(from, out), true;
      case StoredType::kI32:
        return Convert<int32_t>(from, out), true;
      case StoredType::kU32:
        return Convert<uint32_t>(from, out), true;
      case StoredType::kI64:
        return Convert<int64_t>(from, out), true;
      default:
        return false;
    }
  }
}

// Floats to raw elements of `type`; false if it is not a float type that is written.
bool ConvertTo(StoredType type, absl::Span<const float> values, std::byte* to) {
  const auto store = [&](auto convert) {
    for (const float value : values) {
      const auto stored = convert(value);
      std::memcpy(to, &stored, sizeof(stored));
      to += sizeof(stored);
    }
    return true;
  };
  switch (type) {
    case StoredType::kF16:
      return store(HalfFromFloat);
    case StoredType::kBF16:
      return store([](float value) { return BFloat16(value); });
    case StoredType::kF64:
      return store([](float value) { return double{value}; });
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(Storage& storage, const std::string& path) {
  SafetensorsFile result;
  ASSIGN_OR_RETURN(result.file_, storage.Open(path));
  RETURN_IF_ERROR(RefuseGitLfsPointer(*result.file_));
  const int64_t size = result.file_->size();
  if (size < kPrefixBytes) {
    return absl::DataLossError(absl::StrCat(path, " is cut short: it holds ", size,
                                            " bytes, the header's length alone ", "takes 8; get the file again"));
  }
  uint64_t header_bytes = 0;
  RETURN_IF_ERROR(result.file_->ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(&header_bytes), kPrefixBytes)));
  if (header_bytes > uint64_t{kMaxHeaderBytes}) {
    return absl::DataLossError(absl::StrCat(path, " is not a safetensors file: it begins with a header length of ",
                                            header_bytes, " bytes where at most ", kMaxHeaderBytes,
                                            " are allowed; save the model as safetensors"));
  }
  const int64_t data_bytes = size - kPrefixBytes - static_cast<int64_t>(header_bytes);
  if (data_bytes < 0) {
    return absl::DataLossError(absl::StrCat(path, " is cut short: ", -data_bytes, " bytes are missing of a header of ",
                                            header_bytes, "; get the file again"));
  }
  std::string text(header_bytes, '\0');
  RETURN_IF_ERROR(
      result.file_->ReadAt(kPrefixBytes, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(text, path, data_bytes));
  result.tensors_ = std::move(header.tensors);
  result.metadata_ = std::move(header.metadata);
  for (StoredTensor& tensor : result.tensors_) tensor.file_offset += size - data_bytes;
  return result;
}

const StoredTensor* SafetensorsFile::Find(absl::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const StoredTensor& tensor, absl::string_view key) { return tensor.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

template <typename T>
absl::Status SafetensorsFile::ReadAs(absl::string_view name, int64_t first, absl::Span<T> out) const {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr) return absl::DataLossError(absl::StrCat(path(), " holds no tensor '", name, "'"));
  const auto count = static_cast<int64_t>(out.size());
  if (first < 0 || first > tensor->elements || count > tensor->elements - first) {
    return absl::DataLossError(absl::StrCat(path(), ": tensor '", name, "' of shape ", FormatShape(tensor->shape),
                                            " does not hold elements ", first, " to ", first, " + ", count));
  }
  if (!ConvertFrom<T>(tensor->type, nullptr, {})) {
    return absl::DataLossError(absl::StrCat(path(), ": tensor '", name, "' is ", StoredTypeName(tensor->type), ", not ",
                                            std::is_floating_point_v<T> ? "F32, F16, BF16 or F64" : "whole numbers"));
  }
  const int64_t width = StoredTypeBytes(tensor->type);
  int64_t offset = tensor->file_offset + first * width;
  if (std::is_same_v<T, float> && tensor->type == StoredType::kF32) {
    return file_->ReadAt(offset, absl::MakeSpan(reinterpret_cast<std::byte*>(out.data()), out.size() * sizeof(float)));
  }
  std::array<std::byte, kChunkBytes> chunk;
  while (!out.empty()) {
    const auto piece = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(out.size()), kChunkBytes / width));
    const size_t bytes = piece * static_cast<size_t>(width);
    RETURN_IF_ERROR(file_->ReadAt(offset, absl::MakeSpan(chunk.data(), bytes)));
    ConvertFrom<T>(tensor->type, chunk.data(), out.subspan(0, piece));
    out.remove_prefix(piece);
    offset += static_cast<int64_t>(bytes);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::Read(absl::string_view name, int64_t first, absl::Span<float> out) const {
  return ReadAs(name, first, out);
}
absl::Status SafetensorsFile::Read(absl::string_view name, int64_t first, absl::Span<double> out) const {
  return ReadAs(name, first, out);
}
absl::Status SafetensorsFile::Read(absl::string_view name, int64_t first, absl::Span<int64_t> out) const {
  return ReadAs(name, first, out);
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    Storage& storage, const std::string& path, std::vector<TensorDeclaration> tensors,
    const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorDeclaration& a, const TensorDeclaration& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter);
  writer->path_ = path;
  std::set<std::string> names = {"__metadata__"};
  int64_t offset = 0;
  for (TensorDeclaration& declared : tensors) {
    StoredTensor tensor{std::move(declared.name), declared.type, std::move(declared.shape)};
    const auto refuse = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": tensor '", tensor.name, "' ", what));
    };
    if (!names.insert(tensor.name).second) return refuse("has a name that is taken");
    tensor.file_offset = offset;
    if (!SizeTensor(&tensor) || __builtin_add_overflow(offset, tensor.bytes, &offset)) {
      return refuse(absl::StrCat("of shape ", FormatShape(tensor.shape), " has no size in 63 bits"));
    }
    writer->tensors_.push_back(std::move(tensor));
  }
  const std::string header = FormatSafetensorsHeader(writer->tensors_, metadata);
  const uint64_t header_bytes = header.size();
  for (StoredTensor& tensor : writer->tensors_) tensor.file_offset += kPrefixBytes + static_cast<int64_t>(header_bytes);
  ASSIGN_OR_RETURN(writer->file_, storage.Create(path));
  RETURN_IF_ERROR(
      writer->file_->Append(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&header_bytes), kPrefixBytes)));
  RETURN_IF_ERROR(
      writer->file_->Append(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(header.data()), header.size())));
  return writer;
}

// Books `bytes` of tensor `name`, whose turn it must be.
const StoredTensor& SafetensorsWriter::Take(absl::string_view name, int64_t bytes) {
  while (current_ < tensors_.size() && tensors_[current_].name != name && current_bytes_ == tensors_[current_].bytes) {
    ++current_;
    current_bytes_ = 0;
  }
  REPRISE_CHECK(current_ < tensors_.size() && tensors_[current_].name == name)
      << path_ << ": tensor '" << std::string(name) << "' is written out of turn";
  REPRISE_CHECK(bytes <= tensors_[current_].bytes - current_bytes_)
      << path_ << ": tensor '" << std::string(name) << "' holds only " << tensors_[current_].bytes << " bytes";
  current_bytes_ += bytes;
  return tensors_[current_];
}

absl::Status SafetensorsWriter::WriteBytes(absl::string_view name, absl::Span<const std::byte> bytes) {
  Take(name, static_cast<int64_t>(bytes.size()));
  return file_->Append(bytes);
}

absl::Status SafetensorsWriter::Write(absl::string_view name, absl::Span<const float> values) {
  REPRISE_CHECK(current_ < tensors_.size()) << path_ << ": every tensor is written";
  const auto found = std::find_if(tensors_.begin() + static_cast<int64_t>(current_), tensors_.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  REPRISE_CHECK(found != tensors_.end()) << path_ << ": no tensor '" << std::string(name) << "' is due";
  const StoredTensor& tensor = Take(name, static_cast<int64_t>(values.size()) * StoredTypeBytes(found->type));
  if (tensor.type == StoredType::kF32) {
    return file_->Append(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)));
  }
  REPRISE_CHECK(ConvertTo(tensor.type, {}, nullptr)) << "floats can't be stored as " << StoredTypeName(tensor.type);
  const auto width = static_cast<size_t>(StoredTypeBytes(tensor.type));
  std::array<std::byte, kChunkBytes> chunk;
  while (!values.empty()) {
    const size_t piece = std::min(values.size(), chunk.size() / width);
    ConvertTo(tensor.type, values.subspan(0, piece), chunk.data());
    RETURN_IF_ERROR(file_->Append(absl::MakeConstSpan(chunk.data(), piece * width)));
    values.remove_prefix(piece);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  while (current_ < tensors_.size() && current_bytes_ == tensors_[current_].bytes) {
    ++current_;
    current_bytes_ = 0;
  }
  REPRISE_CHECK(current_ == tensors_.size()) << path_ << ": tensor '" << tensors_[current_].name << "' is not whole";
  return file_->Finish();
}

}  // namespace reprise

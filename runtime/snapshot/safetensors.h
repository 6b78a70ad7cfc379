// Safetensors files: 8 bytes of header length N, N bytes of JSON, then the tensors' bytes, little-endian and row-major.
// Format: https://github.com/huggingface/safetensors
//
//   ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(storage, "model.safetensors"));
//   RETURN_IF_ERROR(file.Read("wte.weight", first_element, absl::MakeSpan(shard)));   // any range, in float32
//
//   ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(storage, path, {{"wte.weight", StoredType::kF32, {97,
//   36}}},
//                                                           {{"format", "pt"}}));
//   for (const StoredTensor& tensor : writer->tensors()) {
//     RETURN_IF_ERROR(writer->Write(tensor.name, piece));   // as many pieces as it takes
//   }
//   RETURN_IF_ERROR(writer->Finish());
//
// Nothing in a file is believed: every length, offset, shape and type is checked before memory is taken or data read.
// A bad file is a DataLoss error that names the file, the tensor and the mend.
#ifndef REPRISE_RUNTIME_SNAPSHOT_SAFETENSORS_H_
#define REPRISE_RUNTIME_SNAPSHOT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

// Element types in the order the format ranks them (a writer puts the higher ones first).
enum class StoredType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
};
const char* StoredTypeName(StoredType type);  // "F32"
int64_t StoredTypeBytes(StoredType type);     // of one element

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  int64_t file_offset = 0;     // of its first byte, from the start of the file
  int64_t elements = 0;
  int64_t bytes = 0;
};

// "[36, 108]"
std::string FormatShape(absl::Span<const int64_t> shape);

// An open file. Reading is safe from several threads and allocates nothing.
class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(Storage& storage, const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const StoredTensor* Find(absl::string_view name) const;  // nullptr: not in the file

  // Elements [first, first + out.size()) of a tensor, counted row-major. The float forms take F32, F16, BF16 and F64
  // (a double rounds to the nearest float); the integer form takes BOOL and every integer type but U64.
  absl::Status Read(absl::string_view name, int64_t first, absl::Span<float> out) const;
  absl::Status Read(absl::string_view name, int64_t first, absl::Span<double> out) const;
  absl::Status Read(absl::string_view name, int64_t first, absl::Span<int64_t> out) const;

 private:
  SafetensorsFile() = default;
  template <typename T>
  absl::Status ReadAs(absl::string_view name, int64_t first, absl::Span<T> out) const;

  std::unique_ptr<RandomAccessFile> file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

struct TensorDeclaration {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
};

// Writes a file that appears complete or not at all, byte-equal to what the safetensors library writes for the same
// tensors: larger types first, then by name. For one thread.
class SafetensorsWriter {
 public:
  // InvalidArgument for a duplicate name, a negative or overflowing shape, or a path that can't be written.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      Storage& storage, const std::string& path, std::vector<TensorDeclaration> tensors,
      const std::map<std::string, std::string>& metadata = {});

  // In the order in which they are to be written.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  // The next elements of tensor `name`, whose turn it must be. Converted to the declared type, which is a float type.
  absl::Status Write(absl::string_view name, absl::Span<const float> values);
  // The same for any type, as it stands in the file.
  absl::Status WriteBytes(absl::string_view name, absl::Span<const std::byte> bytes);

  // Every tensor must have been written whole.
  absl::Status Finish();

 private:
  SafetensorsWriter() = default;
  const StoredTensor& Take(absl::string_view name, int64_t bytes);

  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  std::vector<StoredTensor> tensors_;
  size_t current_ = 0;         // tensor that is being written
  int64_t current_bytes_ = 0;  // of it, so far
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_SAFETENSORS_H_

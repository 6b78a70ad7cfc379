// model.safetensors.index.json, beside two parts.
#include <set>

#include "absl/strings/match.h"
#include "runtime/snapshot/huggingface.h"
#include "runtime/snapshot/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/fault_storage.h"

namespace reprise::testing {
namespace {

// Notes what is opened.
class WatchedStorage : public MemoryStorage {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) override {
    opened_.insert(path);
    return MemoryStorage::Open(path);
  }
  const std::set<std::string>& opened() const { return opened_; }

 private:
  std::set<std::string> opened_;
};

void PutPart(Storage& storage, const std::string& path, const std::vector<TensorDeclaration>& tensors) {
  auto writer = SafetensorsWriter::Create(storage, path, tensors);
  REPRISE_CHECK(writer.ok());
  const std::vector<float> values(2, 1.0F);
  for (const StoredTensor& tensor : (*writer)->tensors()) {
    REPRISE_CHECK((*writer)->Write(tensor.name, absl::MakeSpan(values).subspan(0, tensor.elements)).ok());
  }
  REPRISE_CHECK((*writer)->Finish().ok());
}

}  // namespace
}  // namespace reprise::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  WatchedStorage storage;
  PutPart(storage, "m/1.safetensors", {{"a", StoredType::kF32, {2}}, {"transformer.b", StoredType::kF64, {1}}});
  PutPart(storage, "m/2.safetensors", {{"lm_head.weight", StoredType::kF32, {2}}, {"b", StoredType::kBF16, {1}}});
  storage.Put("secret", "outside");
  storage.Put("m/model.safetensors.index.json", std::string(TextOf(data, size)));
  const auto checkpoint = HuggingFaceCheckpoint::Open(storage, "m", {.tied = {{"lm_head.weight", "a"}}});
  for (const std::string& path : storage.opened()) REPRISE_CHECK(absl::StartsWith(path, "m/")) << path;
  if (!checkpoint.ok()) return CheckRefusal(checkpoint.status(), absl::StatusCode::kDataLoss), 0;
  const std::vector<ExpectedTensor> expected = {{"a", {2}}, {"b", {1}}};
  if ((*checkpoint)->Check(expected).ok()) {
    std::vector<float> values(2);
    REPRISE_CHECK((*checkpoint)->ReadRange("a", {2}, 0, absl::MakeSpan(values)).ok());
    REPRISE_CHECK((*checkpoint)->Identity(expected).ok());
  }
  (void)(*checkpoint)->CheckTied(0, 1);
  (void)(*checkpoint)->Leftover(expected);
  return 0;
}

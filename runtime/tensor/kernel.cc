#include "runtime/tensor/kernel.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/registration.h"

namespace reprise {
namespace {

using Key = std::pair<std::string, KernelKind>;

std::map<Key, KernelFactory>& Registry() {
  static auto* registry = new std::map<Key, KernelFactory>();
  return *registry;
}

const char* KindName(KernelKind kind) {
  switch (kind) {
    case KernelKind::kReference:
      return "reference";
    case KernelKind::kCpu:
      return "cpu";
    case KernelKind::kCuda:
      return "cuda";
  }
  return "unknown";
}

class FunctionKernel : public Kernel {
 public:
  FunctionKernel(std::function<void(const KernelArguments&)> run, int64_t scratch_bytes)
      : run_(std::move(run)), scratch_bytes_(scratch_bytes) {}
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  void Run(const KernelArguments& arguments) const override { run_(arguments); }

 private:
  std::function<void(const KernelArguments&)> run_;
  int64_t scratch_bytes_;
};

}  // namespace

std::string KernelSpec::ToString() const {
  std::string text = operation + "(";
  for (const TensorType& type : inputs) absl::StrAppend(&text, type.ToString(), " ");
  text += ") -> (";
  for (const TensorType& type : outputs) absl::StrAppend(&text, type.ToString(), " ");
  return absl::StrCat(text, ") {", attributes.ToString(), "}");
}

bool RegisterKernel(const std::string& operation, KernelKind kind, KernelFactory factory) {
  const bool is_new = Registry().emplace(Key(operation, kind), std::move(factory)).second;
  return AcceptRegistration(is_new, absl::StrCat("the ", KindName(kind), " kernel of ", operation));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const KernelSpec& spec, const KernelOptions& options) {
  const auto it = Registry().find(Key(spec.operation, options.kind));
  if (it == Registry().end()) {
    return absl::UnimplementedError(absl::StrCat("operation ", spec.operation, " has no ", KindName(options.kind),
                                                 " kernel; register one with RegisterKernel",
                                                 options.kind == KernelKind::kCuda ? ", or use --device=cpu" : ""));
  }
  return it->second(spec, options);
}

std::unique_ptr<Kernel> MakeFunctionKernel(std::function<void(const KernelArguments&)> run, int64_t scratch_bytes) {
  return std::make_unique<FunctionKernel>(std::move(run), scratch_bytes);
}

}  // namespace reprise

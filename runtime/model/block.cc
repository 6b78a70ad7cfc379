#include "runtime/model/block.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"

namespace reprise {
namespace {

std::string Join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

int64_t NextSerial() {
  static std::atomic<int64_t> next{0};
  return next++;
}

}  // namespace

Parameter::Parameter(Module& owner, const std::string& name, Shape shape, Initializer initializer)
    : name_(Join(owner.name(), name)), shape_(std::move(shape)), initializer_(initializer), serial_(NextSerial()) {}

Module::Module(const Module& parent, const std::string& name) : name_(Join(parent.name(), name)) {}

Tensor BlockTrace::Data(DataKind kind, const TensorType& type) {
  const auto index = static_cast<int32_t>(kind);
  ValueId value = trace_->graph.Find(ValueRole::kData, index);
  if (value == kNoValue) value = trace_->graph.AddValue(type, ValueRole::kData, index);
  REPRISE_CHECK(trace_->graph.type(value) == type)
      << DataKindName(kind) << " are " << trace_->graph.type(value).ToString() << ", not " << type.ToString();
  return {trace_, value};
}

Tensor BlockTrace::Tokens() { return RowData(DataKind::kTokens); }
Tensor BlockTrace::Labels() { return RowData(DataKind::kLabels); }
Tensor BlockTrace::SequenceLabels() { return Data(DataKind::kLabels, {DType::kInt32, {sequences_}}); }
Tensor BlockTrace::Pixels(int64_t elements) {
  return Data(DataKind::kPixels, {DType::kFloat32, {sequences_, elements}});
}
Tensor BlockTrace::Positions() { return RowData(DataKind::kPositions); }
Tensor BlockTrace::DocumentStarts() { return RowData(DataKind::kDocumentStarts); }

Tensor BlockTrace::Boundary(int32_t index, const TensorType& type) {
  return {trace_, trace_->graph.AddValue(type, ValueRole::kBoundary, index)};
}

Tensor BlockTrace::Get(const Parameter& parameter) { return Get(parameter, parameter.shape()); }

Tensor BlockTrace::Get(const Parameter& parameter, const Shape& shape) {
  const TensorType type{dtype_, shape};
  REPRISE_CHECK(type.elements() == parameter.elements()) << parameter.name() << " does not fit " << type.ToString();
  const auto found = std::find(parameters_.begin(), parameters_.end(), &parameter);
  const auto index = static_cast<int32_t>(found - parameters_.begin());
  if (found == parameters_.end()) {
    parameters_.push_back(&parameter);
    return {trace_, trace_->graph.AddValue(type, ValueRole::kParameter, index)};
  }
  const ValueId value = trace_->graph.Find(ValueRole::kParameter, index);
  REPRISE_CHECK(trace_->graph.type(value) == type) << parameter.name() << " is asked for in two shapes";
  return {trace_, value};
}

}  // namespace reprise

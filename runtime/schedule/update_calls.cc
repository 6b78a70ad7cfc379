#include "runtime/schedule/update_calls.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

KernelSpec SpecFor(int64_t elements, bool decays, const OptimizerSettings& optimizer) {
  const TensorType type{DType::kFloat32, {elements}};
  const double decay = decays ? optimizer.weight_decay : 0.0;
  if (optimizer.kind == OptimizerKind::kSgd) return {"sgd", {type}, {type}, Attributes().Set("weight_decay", decay)};
  return {"adamw",
          {type},
          {type, type, type},
          Attributes()
              .Set("beta1", optimizer.beta1)
              .Set("beta2", optimizer.beta2)
              .Set("epsilon", optimizer.epsilon)
              .Set("weight_decay", decay)};
}

struct Part {
  int64_t begin = 0;
  int64_t end = 0;
  bool decays = false;
};

}  // namespace

std::vector<UpdateCall> UpdateCalls(const Unit& unit, int64_t begin, int64_t count,
                                    const OptimizerSettings& optimizer) {
  std::vector<Part> parts;
  const int64_t end = begin + count;
  for (const UnitParameter& p : unit.parameters) {
    const bool decays = p.parameter->shape().size() > 1;
    if (!parts.empty()) parts.back().end = p.offset;
    if (parts.empty() || parts.back().decays != decays) parts.push_back({p.offset, p.end(), decays});
  }
  if (!parts.empty()) parts.back().end = unit.whole_elements;
  std::vector<UpdateCall> calls;
  for (const Part& part : parts) {
    const int64_t from = std::max(part.begin, begin);
    const int64_t to = std::min(part.end, end);
    if (from < to) calls.push_back({SpecFor(to - from, part.decays, optimizer), from - begin});
  }
  return calls;
}

}  // namespace reprise

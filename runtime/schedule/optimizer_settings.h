// What the update of a step does with summed gradients.
#ifndef REPRISE_RUNTIME_SCHEDULE_OPTIMIZER_SETTINGS_H_
#define REPRISE_RUNTIME_SCHEDULE_OPTIMIZER_SETTINGS_H_

#include <cstdint>

namespace reprise {

enum class OptimizerKind : uint8_t { kAdamW, kSgd };

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of parameters with two or more dimensions
  double clip_norm = 1;       // of the global gradient norm; 0: off

  // float32 tensors of state per parameter.
  int states() const { return kind == OptimizerKind::kAdamW ? 2 : 0; }
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SCHEDULE_OPTIMIZER_SETTINGS_H_

// Modules that several models have, under PyTorch's names of their parameters.
//
//   TorchLinear(*this, "q_proj", in, out, /*has_bias=*/false, c.initializer_range)   // q_proj.weight [out, in]
//   TorchLayerNorm(*this, "ln_1", width, c.layer_norm_epsilon)                       // ln_1.weight, ln_1.bias
#ifndef REPRISE_MODELS_MODULES_H_
#define REPRISE_MODELS_MODULES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/model/block.h"

namespace reprise {

class TorchLayerNorm : public Module {
 public:
  TorchLayerNorm(const Module& parent, const std::string& name, int64_t width, double epsilon)
      : Module(parent, name),
        epsilon_(epsilon),
        weight_(*this, "weight", {width}, Initializer::Constant(1)),
        bias_(*this, "bias", {width}, Initializer::Constant(0)) {}
  Tensor Forward(BlockTrace& t, Tensor x) const { return LayerNorm(x, t.Get(weight_), t.Get(bias_), epsilon_); }

 private:
  double epsilon_;
  Parameter weight_, bias_;
};

class TorchLinear : public Module {
 public:
  TorchLinear(const Module& parent, const std::string& name, int64_t in, int64_t out, bool has_bias,
              double initializer_range)
      : Module(parent, name), weight_(*this, "weight", {out, in}, Initializer::Normal(initializer_range)) {
    if (has_bias) bias_.emplace(*this, "bias", Shape{out}, Initializer::Constant(0));
  }
  Tensor Forward(BlockTrace& t, Tensor x) const {
    if (!bias_) return Linear(x, t.Get(weight_), WeightLayout::kOutIn);
    return Linear(x, t.Get(weight_), t.Get(*bias_), WeightLayout::kOutIn);
  }

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace reprise

#endif  // REPRISE_MODELS_MODULES_H_

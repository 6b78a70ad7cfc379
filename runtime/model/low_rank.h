// Low-rank adapters (LoRA, Hu et al. 2021): y = W x + (alpha / rank) B A x for chosen products, in a model whose own
// parameters are frozen. Part of the public API.
//
//   Model model = Llama(config);
//   RETURN_IF_ERROR(AddLowRankAdapters({.rank = 8, .alpha = 16, .targets = {"q_proj", "v_proj"}}, &model));
//
// The blocks are as they were: an adapter stands behind every Linear that reads the weight it belongs to. Its
// parameters are called as in PEFT: those of "model.layers.0.self_attn.q_proj.weight" [out, in] are
// "model.layers.0.self_attn.q_proj.lora_A.weight" [rank, in], drawn from the uniform distribution on
// +-1/sqrt(in), and "...lora_B.weight" [out, rank], zero at first.
#ifndef REPRISE_RUNTIME_MODEL_LOW_RANK_H_
#define REPRISE_RUNTIME_MODEL_LOW_RANK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/model/block.h"

namespace reprise {

struct LowRankOptions {
  int64_t rank = 8;
  double alpha = 8;
  // Names of products: whole, or their last parts ("q_proj", "attn.c_attn"). {"all-linear"}: all but the head's.
  std::vector<std::string> targets;
};

class LowRankAdapter : public Module {
 public:
  // `product`: the name of the product, which is that of its weight without ".weight"; `layout`: of that weight.
  LowRankAdapter(const std::string& product, int64_t in, int64_t out, WeightLayout layout,
                 const LowRankOptions& options);

  // y + (alpha / rank) * B A x
  Tensor Forward(BlockTrace& trace, Tensor x, Tensor y) const;
  WeightLayout layout() const { return layout_; }
  const Parameter& a() const { return a_; }
  const Parameter& b() const { return b_; }

 private:
  WeightLayout layout_;
  double scale_;
  Parameter a_;
  Parameter b_;
};

using LowRankAdapters = std::map<const Parameter*, std::shared_ptr<const LowRankAdapter>>;

// What stands for the output `y` of a product of `x` and `weight`.
Tensor Adapt(const LowRankAdapters& adapters, BlockTrace& trace, Tensor x, Tensor weight, Tensor y);

bool IsOfAdapter(const Model& model, const Parameter& parameter);

// Adds adapters and freezes everything else. InvalidArgument for a rank or alpha that is not positive, and for a target
// that names no product (the sentence lists those that are there).
absl::Status AddLowRankAdapters(const LowRankOptions& options, Model* model);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_MODEL_LOW_RANK_H_

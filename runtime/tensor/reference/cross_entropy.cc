// Plain loops for linear_cross_entropy: one row of logits at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/tensor/access.h"

namespace reprise {
namespace {

constexpr int32_t kNotCounted = -100;

// Turns the logits of a row into its gradient, rounded to T as the products take it; returns the row's loss.
template <typename T>
Wide<T> SoftmaxRow(std::vector<Wide<T>>& logits, int32_t label) {
  const Wide<T> highest = *std::max_element(logits.begin(), logits.end());
  Wide<T> sum = 0;
  for (const Wide<T> logit : logits) sum += std::exp(logit - highest);
  const Wide<T> loss = highest + std::log(sum) - logits[static_cast<size_t>(label)];
  for (size_t v = 0; v < logits.size(); ++v) {
    const Wide<T> gradient = std::exp(logits[v] - highest) / sum - (v == static_cast<size_t>(label) ? 1 : 0);
    logits[v] = Widened(Rounded<T>(gradient));
  }
  return loss;
}

struct LinearCrossEntropy {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* y = Input<T>(arguments, 0);
    const T* w = Input<T>(arguments, 1);
    const auto* labels = Input<int32_t>(arguments, 2);
    const T* bias = spec.inputs.size() == 4 ? Input<T>(arguments, 3) : nullptr;
    const bool gradients = spec.attributes.Int("gradients") != 0;
    auto* loss = Output<double>(arguments, 0);
    T* dy = gradients ? Output<T>(arguments, 1) : nullptr;
    auto* dw = gradients ? Output<Wide<T>>(arguments, 2) : nullptr;
    auto* dbias = gradients && bias != nullptr ? Output<Wide<T>>(arguments, 3) : nullptr;
    const int64_t columns = spec.inputs[0].columns();
    const int64_t vocabulary = spec.inputs[1].shape[0];
    std::vector<Wide<T>> row(static_cast<size_t>(vocabulary));
    std::vector<Wide<T>> dw_sum(dw == nullptr ? 0 : static_cast<size_t>(vocabulary * columns));
    std::vector<Wide<T>> dbias_sum(dbias == nullptr ? 0 : static_cast<size_t>(vocabulary));
    double total = 0;
    for (int64_t r = 0; r < spec.inputs[0].rows(); ++r) {
      if (labels[r] == kNotCounted) {
        if (dy != nullptr) std::fill_n(dy + r * columns, columns, Rounded<T>(0));
        continue;
      }
      for (int64_t v = 0; v < vocabulary; ++v) {
        Wide<T> sum = 0;
        for (int64_t c = 0; c < columns; ++c) sum += Widened(y[r * columns + c]) * Widened(w[v * columns + c]);
        row[static_cast<size_t>(v)] = bias == nullptr ? sum : sum + Widened(bias[v]);
      }
      total += SoftmaxRow<T>(row, labels[r]);
      for (int64_t c = 0; dy != nullptr && c < columns; ++c) {
        Wide<T> sum = 0;
        for (int64_t v = 0; v < vocabulary; ++v) sum += row[static_cast<size_t>(v)] * Widened(w[v * columns + c]);
        dy[r * columns + c] = Rounded<T>(sum);
      }
      for (int64_t v = 0; dw != nullptr && v < vocabulary; ++v) {
        for (int64_t c = 0; c < columns; ++c) {
          dw_sum[static_cast<size_t>(v * columns + c)] += row[static_cast<size_t>(v)] * Widened(y[r * columns + c]);
        }
      }
      for (size_t v = 0; v < dbias_sum.size(); ++v) dbias_sum[v] += row[v];
    }
    if (loss != nullptr) Put(*loss, total, Accumulates(arguments, 0));
    for (size_t i = 0; i < dw_sum.size(); ++i) Put(dw[i], dw_sum[i], Accumulates(arguments, 2));
    for (size_t v = 0; v < dbias_sum.size(); ++v) Put(dbias[v], dbias_sum[v], Accumulates(arguments, 3));
  }
};

const bool registered = RegisterReference<LinearCrossEntropy>("linear_cross_entropy");

}  // namespace
}  // namespace reprise

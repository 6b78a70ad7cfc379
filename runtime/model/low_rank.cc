#include "runtime/model/low_rank.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "runtime/model/program.h"

namespace reprise {
namespace {

constexpr char kAllLinear[] = "all-linear";
constexpr size_t kMostNamed = 12;  // in one message

// A product of a model with a weight of its own.
struct Product {
  const Parameter* weight = nullptr;
  std::string name;  // the weight's, without ".weight"
  WeightLayout layout = WeightLayout::kInOut;
  int64_t in = 0;
  int64_t out = 0;
};

// Not of the first block, which looks its input up; the head's own are the loss's, which is no Linear.
std::vector<Product> ProductsOf(const Model& model) {
  const Program program = TraceModel(model, {.sequences = 1, .sequence_length = 1, .training = false});
  std::vector<Product> products;
  std::set<const Parameter*> known;
  for (size_t b = 1; b < program.blocks.size(); ++b) {
    const Graph& graph = program.graph(b).block.graph;
    for (const Node& node : graph.nodes) {
      if (node.operation != "linear") continue;
      const Value& weight = graph.values[static_cast<size_t>(node.inputs[1])];
      if (weight.role != ValueRole::kParameter) continue;
      const Parameter* parameter = program.blocks[b].parameters[static_cast<size_t>(weight.index)];
      if (parameter->shape().size() != 2) continue;
      absl::string_view name = parameter->name();
      if (!absl::ConsumeSuffix(&name, ".weight") || !known.insert(parameter).second) continue;
      const bool out_in = node.attributes.Int("transposed") != 0;
      const Shape& shape = parameter->shape();
      products.push_back({.weight = parameter,
                          .name = std::string(name),
                          .layout = out_in ? WeightLayout::kOutIn : WeightLayout::kInOut,
                          .in = shape[out_in ? 1 : 0],
                          .out = shape[out_in ? 0 : 1]});
    }
  }
  return products;
}

bool IsTarget(const std::string& target, const std::string& product) {
  return target == kAllLinear || product == target || absl::EndsWith(product, "." + target);
}

// "attn.c_attn" of "transformer.h.3.attn.c_attn": what stands behind the last number.
std::string ShortName(const std::string& product) {
  std::vector<std::string> parts = absl::StrSplit(product, '.');
  const auto is_number = [](const std::string& part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const auto number = std::find_if(parts.rbegin(), parts.rend(), is_number);
  return absl::StrJoin(number.base(), parts.end(), ".");
}

absl::Status NamesNoProduct(const std::string& target, const Model& model, const std::vector<Product>& products) {
  std::set<std::string> names;
  for (const Product& product : products) names.insert(ShortName(product.name));
  std::vector<std::string> named(names.begin(), names.end());
  if (named.size() > kMostNamed) named.resize(kMostNamed);
  return absl::InvalidArgumentError(absl::StrCat("lora_targets: ", model.name, " has no product called ", target,
                                                 named.empty() ? "" : "; it has ", absl::StrJoin(named, ", ")));
}

absl::Status Check(const LowRankOptions& options) {
  if (options.rank < 1 || options.rank > (int64_t{1} << 20)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lora_rank=", options.rank, " must be from 1 to ", int64_t{1} << 20));
  }
  if (!std::isfinite(options.alpha) || options.alpha <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("lora_alpha=", options.alpha, " must be a number above 0"));
  }
  if (options.targets.empty()) {
    return absl::InvalidArgumentError("lora_targets is empty; name the products that get adapters, or all-linear");
  }
  return absl::OkStatus();
}

}  // namespace

LowRankAdapter::LowRankAdapter(const std::string& product, int64_t in, int64_t out, WeightLayout layout,
                               const LowRankOptions& options)
    : Module(product),
      layout_(layout),
      scale_(options.alpha / static_cast<double>(options.rank)),
      a_(*this, "lora_A.weight", {options.rank, in}, Initializer::Uniform(1 / std::sqrt(static_cast<double>(in)))),
      b_(*this, "lora_B.weight", {out, options.rank}, Initializer::Constant(0)) {}

// The factor stands where the tensor is small.
Tensor LowRankAdapter::Forward(BlockTrace& trace, Tensor x, Tensor y) const {
  const Tensor low = Linear(x, trace.Get(a_), WeightLayout::kOutIn);
  return y + Linear(scale_ == 1 ? low : Scale(low, scale_), trace.Get(b_), WeightLayout::kOutIn);
}

Tensor Adapt(const LowRankAdapters& adapters, BlockTrace& trace, Tensor x, Tensor weight, Tensor y) {
  const Value& value = weight.trace()->graph.values[static_cast<size_t>(weight.value())];
  if (value.role != ValueRole::kParameter) return y;
  const auto found = adapters.find(trace.parameters()[static_cast<size_t>(value.index)]);
  return found == adapters.end() ? y : found->second->Forward(trace, x, y);
}

bool IsOfAdapter(const Model& model, const Parameter& parameter) {
  return std::any_of(model.adapters.begin(), model.adapters.end(), [&](const auto& entry) {
    return &entry.second->a() == &parameter || &entry.second->b() == &parameter;
  });
}

absl::Status AddLowRankAdapters(const LowRankOptions& options, Model* model) {
  RETURN_IF_ERROR(Check(options));
  const std::vector<Product> products = ProductsOf(*model);
  auto adapters = std::make_shared<std::set<const Parameter*>>();
  for (const std::string& target : options.targets) {
    bool any = false;
    for (const Product& product : products) {
      if (!IsTarget(target, product.name)) continue;
      any = true;
      if (model->adapters.count(product.weight) > 0) continue;
      auto adapter =
          std::make_shared<const LowRankAdapter>(product.name, product.in, product.out, product.layout, options);
      adapters->insert({&adapter->a(), &adapter->b()});
      model->adapters.emplace(product.weight, std::move(adapter));
    }
    if (!any) return NamesNoProduct(target, *model, products);
  }
  model->trained = [adapters](const Parameter& p) { return adapters->count(&p) > 0; };
  return absl::OkStatus();
}

}  // namespace reprise

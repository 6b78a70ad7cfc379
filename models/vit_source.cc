// ViT from a Hugging Face configuration (ViTConfig).
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/sizes.h"
#include "models/sources.h"
#include "models/vit.h"

namespace reprise {
namespace {

// Where classes have names, there are as many.
absl::StatusOr<int64_t> ReadLabels(ModelConfig& config, int64_t fallback) {
  constexpr char kNames[] = "id2label.";
  int64_t names = 0;
  for (auto it = config.values().lower_bound(kNames); it != config.values().end(); ++it) {
    if (!absl::StartsWith(it->first, kNames)) break;
    ++names;
  }
  ASSIGN_OR_RETURN(const int64_t labels, config.Integer("num_labels", names > 0 ? names : fallback, 1, kMaximumSize));
  if (names > 0 && labels != names) return config.Refuse("num_labels", absl::StrCat("be ", names, ", as id2label has"));
  return labels;
}

}  // namespace

absl::StatusOr<ModelSource> BuildVit(ModelConfig& config, const ModelOptions& options) {
  VitConfig c;
  ASSIGN_OR_RETURN(c.hidden_size, config.Integer("hidden_size", c.hidden_size, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.num_hidden_layers, config.Integer("num_hidden_layers", c.num_hidden_layers, 1, kMostLayers));
  ASSIGN_OR_RETURN(c.num_attention_heads,
                   config.Integer("num_attention_heads", c.num_attention_heads, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.intermediate_size, config.Integer("intermediate_size", c.intermediate_size, 1, kMaximumSize));
  if (options.image_size > 0) config.Override("image_size", options.image_size);
  ASSIGN_OR_RETURN(c.image_size, config.Integer("image_size", c.image_size, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.patch_size, config.Integer("patch_size", c.patch_size, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.num_channels, config.Integer("num_channels", c.num_channels, 1, kMaximumSize));
  ASSIGN_OR_RETURN(c.num_labels, ReadLabels(config, c.num_labels));
  ASSIGN_OR_RETURN(c.qkv_bias, config.Flag("qkv_bias", c.qkv_bias));
  ASSIGN_OR_RETURN(c.layer_norm_eps, config.Number("layer_norm_eps", c.layer_norm_eps, kSmallestEpsilon, 1));
  ASSIGN_OR_RETURN(c.initializer_range, config.Number("initializer_range", c.initializer_range, 0, kLargestDeviation));
  ASSIGN_OR_RETURN(const std::string activation, config.Text("hidden_act", "gelu"));
  if (activation != "gelu") return config.Refuse("hidden_act", "be gelu");
  RETURN_IF_ERROR(RefuseUnknownKeys("vit", config));
  c.dropout = options.dropout;
  RETURN_IF_ERROR(Validate(c));
  ModelSource source{Vit(c), {.prefix = "vit.", .unused = {"vit.pooler.dense.weight", "vit.pooler.dense.bias"}}};
  source.adapter_targets = {"query", "value"};
  return source;
}

[[maybe_unused]] const bool vit_registered = RegisterModel("vit", BuildVit, "ViTForImageClassification");

}  // namespace reprise

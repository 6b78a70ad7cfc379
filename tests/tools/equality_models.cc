#include "tests/tools/equality_models.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "models/vit.h"
#include "runtime/model/low_rank.h"

namespace reprise::testing {
namespace {

constexpr double kDeviation = 0.2;  // far from the linear: every sum rounds

Model PlainModel(const std::string& name, int64_t layers, int64_t length, double dropout) {
  const bool documents = absl::EndsWith(name, "_documents");
  if (absl::StartsWith(name, "gpt2")) {
    return Gpt2({.vocab_size = kEqualityVocabulary,
                 .n_positions = length,
                 .n_embd = kEqualityWidth,
                 .n_layer = layers,
                 .n_head = 3,
                 .initializer_range = kDeviation,
                 .documents = documents,
                 .dropout = dropout});
  }
  if (absl::StartsWith(name, "vit")) {
    return Vit({.hidden_size = kEqualityWidth,
                .num_hidden_layers = layers,
                .num_attention_heads = 3,
                .intermediate_size = 40,
                .image_size = 6,
                .patch_size = 2,
                .num_channels = 2,
                .num_labels = kEqualityVocabulary,
                .initializer_range = kDeviation,
                .dropout = dropout});
  }
  LlamaConfig c;
  c.vocab_size = kEqualityVocabulary;
  c.hidden_size = kEqualityWidth;
  c.intermediate_size = 40;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 6;
  c.num_key_value_heads = 2;
  c.max_position_embeddings = length;
  c.initializer_range = kDeviation;
  c.tie_word_embeddings = !absl::StartsWith(name, "qwen2");
  c.query_key_value_bias = absl::StartsWith(name, "qwen2");
  c.documents = documents;
  c.dropout = dropout;
  return Llama(c);
}

bool IsBelow(const std::string& parameter) {
  for (const char* part : {"wte", "wpe", "embed", ".h.0.", ".h.1.", ".h.2.", "layers.0.", "layers.1.", "layers.2.",
                           "layer.0.", "layer.1.", "layer.2."}) {
    if (absl::StrContains(parameter, part)) return true;
  }
  return false;
}

bool IsOfNorm(const std::string& parameter) {
  return absl::StrContains(parameter, "ln_") || absl::StrContains(parameter, "norm");
}

}  // namespace

Model EqualityModelOfLength(const std::string& name, int64_t layers, int64_t length) {
  return PlainModel(name, layers, length, /*dropout=*/0);
}

Model EqualityModel(const std::string& name, int64_t layers, double dropout) {
  Model model = PlainModel(name, layers, kEqualityLength, dropout);
  if (absl::EndsWith(name, "_frozen_below")) model.trained = [](const Parameter& p) { return !IsBelow(p.name()); };
  if (absl::EndsWith(name, "_frozen_norms")) model.trained = [](const Parameter& p) { return !IsOfNorm(p.name()); };
  if (absl::EndsWith(name, "_adapters")) {
    const absl::Status added = AddLowRankAdapters({.rank = 3, .alpha = 4, .targets = {"all-linear"}}, &model);
    REPRISE_CHECK(added.ok()) << added.message();
  }
  return model;
}

std::vector<std::string> OtherEqualityModels() {
  std::vector<std::string> names = {"llama", "qwen2", "vit", "vit_frozen_below", "vit_adapters"};
  for (const char* kind : {"_frozen_below", "_frozen_norms", "_adapters", "_documents"}) {
    names.push_back(absl::StrCat("gpt2", kind));
    names.push_back(absl::StrCat("llama", kind));
  }
  return names;
}

}  // namespace reprise::testing

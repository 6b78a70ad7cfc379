#include "models/vit.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/modules.h"
#include "models/sizes.h"

namespace reprise {
namespace {

class VitAttention : public Module {
 public:
  VitAttention(const Module& parent, const VitConfig& c)
      : Module(parent, "attention"),
        options_{.heads = c.num_attention_heads,
                 .sequence_length = c.sequence_length(),
                 .causal = false,
                 .dropout = c.dropout},
        query_(*this, "attention.query", c.hidden_size, c.hidden_size, c.qkv_bias, c.initializer_range),
        key_(*this, "attention.key", c.hidden_size, c.hidden_size, c.qkv_bias, c.initializer_range),
        value_(*this, "attention.value", c.hidden_size, c.hidden_size, c.qkv_bias, c.initializer_range),
        output_(*this, "output.dense", c.hidden_size, c.hidden_size, /*has_bias=*/true, c.initializer_range) {}
  Tensor Forward(BlockTrace& t, Tensor x) const {
    const Tensor q = query_.Forward(t, x);
    const Tensor k = key_.Forward(t, x);
    const Tensor v = value_.Forward(t, x);
    const Tensor y = output_.Forward(t, Attention(q, k, v, options_));
    return Dropout(y, options_.dropout, options_.sequence_length);
  }

 private:
  AttentionOptions options_;
  TorchLinear query_, key_, value_, output_;
};

class VitLayer : public Block {
 public:
  VitLayer(const VitConfig& c, int64_t index)
      : Block(absl::StrCat("vit.encoder.layer.", index)),
        dropout_(c.dropout),
        length_(c.sequence_length()),
        attention_(*this, c),
        expand_(*this, "intermediate.dense", c.hidden_size, c.intermediate_size, /*has_bias=*/true,
                c.initializer_range),
        projection_(*this, "output.dense", c.intermediate_size, c.hidden_size, /*has_bias=*/true, c.initializer_range),
        norm_before_(*this, "layernorm_before", c.hidden_size, c.layer_norm_eps),
        norm_after_(*this, "layernorm_after", c.hidden_size, c.layer_norm_eps) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    Tensor x = boundary[0];
    x = x + attention_.Forward(t, norm_before_.Forward(t, x));
    const Tensor hidden = GeluExact(expand_.Forward(t, norm_after_.Forward(t, x)));
    return {x + Dropout(projection_.Forward(t, hidden), dropout_, length_)};
  }

 private:
  double dropout_;
  int64_t length_;
  VitAttention attention_;
  TorchLinear expand_, projection_;
  TorchLayerNorm norm_before_, norm_after_;
};

class VitEmbedding : public Block {
 public:
  explicit VitEmbedding(const VitConfig& c)
      : Block("vit.embeddings"),
        image_{.channels = c.num_channels, .size = c.image_size, .patch = c.patch_size},
        width_(c.hidden_size),
        length_(c.sequence_length()),
        dropout_(c.dropout),
        class_token_(*this, "cls_token", {1, 1, width_}, Initializer::Normal(c.initializer_range)),
        positions_(*this, "position_embeddings", {1, length_, width_}, Initializer::Normal(c.initializer_range)),
        weight_(*this, "patch_embeddings.projection.weight", {width_, c.num_channels, c.patch_size, c.patch_size},
                Initializer::Normal(c.initializer_range)),
        bias_(*this, "patch_embeddings.projection.bias", {width_}, Initializer::Constant(0)) {}

  // A convolution that steps by whole patches is a product of patches.
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    const Tensor pixels = t.Pixels(image_.channels * image_.size * image_.size);
    const Tensor patches = ImagePatches(pixels, image_, t.dtype());
    const Tensor weight = t.Get(weight_, {width_, patches.dimension(1)});
    const Tensor x = Linear(patches, weight, t.Get(bias_), WeightLayout::kOutIn);
    const Tensor rows = PrependRow(x, t.Get(class_token_, {1, width_}), t.Get(positions_, {length_, width_}));
    return {Dropout(rows, dropout_, length_)};
  }

 private:
  ImageOptions image_;
  int64_t width_, length_;
  double dropout_;
  Parameter class_token_, positions_, weight_, bias_;
};

// The final norm belongs to "vit", the classifier to the whole. A norm knows no other row: only the class token's is
// computed.
class VitHead : public Block {
 public:
  explicit VitHead(const VitConfig& c)
      : Block("vit"),
        length_(c.sequence_length()),
        norm_(*this, "layernorm", c.hidden_size, c.layer_norm_eps),
        weight_(whole_, "classifier.weight", {c.num_labels, c.hidden_size}, Initializer::Normal(c.initializer_range)),
        bias_(whole_, "classifier.bias", {c.num_labels}, Initializer::Constant(0)) {}

  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    const Tensor x = norm_.Forward(t, FirstRow(boundary[0], length_));
    return {LinearCrossEntropy(x, t.Get(weight_), t.Get(bias_), t.SequenceLabels())};
  }

 private:
  int64_t length_;
  TorchLayerNorm norm_;
  Module whole_{""};
  Parameter weight_, bias_;
};

// Beyond any machine, and within what keeps every product of sizes in 64 bits.
constexpr int64_t kMostPixels = 1 << 14;  // of a side
constexpr int64_t kMostChannels = 1 << 8;
constexpr int64_t kMostWidth = 1 << 20;

absl::Status AtMost(const char* name, int64_t size, int64_t most) {
  if (size <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model_config: ", name, "=", size, " is above ", most));
}

}  // namespace

absl::Status Validate(const VitConfig& c) {
  RETURN_IF_ERROR(CheckSizes({{"hidden_size", c.hidden_size},
                              {"num_hidden_layers", c.num_hidden_layers},
                              {"num_attention_heads", c.num_attention_heads},
                              {"intermediate_size", c.intermediate_size},
                              {"image_size", c.image_size},
                              {"patch_size", c.patch_size},
                              {"num_channels", c.num_channels},
                              {"num_labels", c.num_labels}}));
  RETURN_IF_ERROR(AtMost("image_size", c.image_size, kMostPixels));
  RETURN_IF_ERROR(AtMost("num_channels", c.num_channels, kMostChannels));
  RETURN_IF_ERROR(AtMost("hidden_size", c.hidden_size, kMostWidth));
  RETURN_IF_ERROR(AtMost("intermediate_size", c.intermediate_size, kMostWidth));
  if (c.hidden_size % c.num_attention_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: num_attention_heads=", c.num_attention_heads,
                                                   " does not divide hidden_size=", c.hidden_size,
                                                   "; choose a number of heads that does"));
  }
  if (c.image_size % c.patch_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: patch_size=", c.patch_size,
                                                   " does not divide image_size=", c.image_size,
                                                   "; choose a multiple of it, with --image_size perhaps"));
  }
  RETURN_IF_ERROR(CheckNumber("layer_norm_eps", c.layer_norm_eps, kSmallestEpsilon, 1));
  RETURN_IF_ERROR(CheckNumber("initializer_range", c.initializer_range, 0, kLargestDeviation));
  return CheckDropout(c.dropout);
}

Model Vit(const VitConfig& config) {
  Model model;
  model.name = "vit";
  model.images = ImageInput{.channels = config.num_channels,
                            .size = config.image_size,
                            .patch = config.patch_size,
                            .classes = config.num_labels};
  model.sequence_length = config.sequence_length();
  model.blocks.push_back(std::make_shared<VitEmbedding>(config));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) model.blocks.push_back(std::make_shared<VitLayer>(config, i));
  model.blocks.push_back(std::make_shared<VitHead>(config));
  return model;
}

}  // namespace reprise

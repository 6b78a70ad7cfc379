// A vision transformer that classifies images (Dosovitskiy et al. 2021), as Hugging Face's ViTForImageClassification
// computes it: patches by one product, a class token before them, a position table, layers with their norm first, exact
// GELU, and a classifier of the class token. Parameter names and layouts are those of the checkpoints.
//
//   RETURN_IF_ERROR(Validate(config));
//   Model model = Vit(config);
//   model.images->size;    // 224 pixels of a side
//   model.sequence_length; // 197 rows: a class token and 14 x 14 patches
//
// It reads pixels and one label for each image.
#ifndef REPRISE_MODELS_VIT_H_
#define REPRISE_MODELS_VIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/model/block.h"

namespace reprise {

struct VitConfig {
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;  // of the MLP
  int64_t image_size = 224;          // pixels of a side
  int64_t patch_size = 16;           // likewise
  int64_t num_channels = 3;
  int64_t num_labels = 2;
  bool qkv_bias = true;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  double dropout = 0;

  int64_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
  int64_t sequence_length() const { return patches() + 1; }
};

// InvalidArgument where sizes are not positive, do not divide as they must, or are beyond any machine.
absl::Status Validate(const VitConfig& config);

Model Vit(const VitConfig& config);

}  // namespace reprise

#endif  // REPRISE_MODELS_VIT_H_

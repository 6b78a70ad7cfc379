// The models of the equality matrix: small ones of each kind, with frozen parts, adapters and packed documents.
//
//   const Model model = EqualityModel("gpt2_adapters", /*layers=*/7, /*dropout=*/0.1);
#ifndef REPRISE_TESTS_TOOLS_EQUALITY_MODELS_H_
#define REPRISE_TESTS_TOOLS_EQUALITY_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/block.h"

namespace reprise::testing {

inline constexpr int64_t kEqualityWidth = 24;
inline constexpr int64_t kEqualityVocabulary = 61;
inline constexpr int64_t kEqualityLength = 8;  // tokens

// "gpt2", "llama" (grouped queries, tied), "qwen2" (biases), "vit", and of these: "_frozen_below" (embedding and the
// first three layers), "_frozen_norms", "_adapters"; of gpt2 and llama "_documents".
Model EqualityModel(const std::string& name, int64_t layers, double dropout);

// With room for sequences of `length` tokens, without dropout.
Model EqualityModelOfLength(const std::string& name, int64_t layers, int64_t length);

// All of them but plain gpt2.
std::vector<std::string> OtherEqualityModels();

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_EQUALITY_MODELS_H_

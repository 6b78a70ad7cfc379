// A chain that is no transformer: every layer has its own width, hidden width and number of products, so that no two
// are planned alike.
//
//   const Model model = UnequalChain(/*layers=*/30, /*seed=*/1);     // 5 ids, sequences of any length
#ifndef REPRISE_TESTS_TOOLS_CHAIN_MODEL_H_
#define REPRISE_TESTS_TOOLS_CHAIN_MODEL_H_

#include <cstdint>

#include "runtime/model/block.h"

namespace reprise::testing {

inline constexpr int64_t kChainVocabulary = 5;
inline constexpr int64_t kChainLongest = 16;  // tokens

Model UnequalChain(int layers, uint32_t seed);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_CHAIN_MODEL_H_

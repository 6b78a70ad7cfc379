// A small model whose blocks use all that a chain allows: boundaries of one to three tensors and of unequal shapes, one
// of integers that goes along as a side input, a block without parameters, a parameter of two layers, another of the
// first block and a layer, a tied head.
//
//   const Model model = ThreadedModel();     // kThreadedVocabulary ids, sequences of kThreadedLength
#ifndef REPRISE_TESTS_TOOLS_THREADED_MODEL_H_
#define REPRISE_TESTS_TOOLS_THREADED_MODEL_H_

#include <cstdint>

#include "runtime/model/block.h"

namespace reprise::testing {

inline constexpr int64_t kThreadedVocabulary = 5;
inline constexpr int64_t kThreadedLength = 4;

struct ThreadedOptions {
  bool shares = true;   // between layers; else each has its own
  bool ignores = true;  // a layer hands over a tensor that the next one does not read
};

Model ThreadedModel(const ThreadedOptions& options = {});

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_THREADED_MODEL_H_

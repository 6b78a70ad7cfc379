// DataKind: what a batch consists of. A model reads the kinds that it asks for (BlockTrace in runtime/model/block.h); a
// job holds no others.
//
//   job->data(DataKind::kPixels, micro_batch);   // bytes; empty where the model reads none
#ifndef REPRISE_RUNTIME_GRAPH_DATA_KIND_H_
#define REPRISE_RUNTIME_GRAPH_DATA_KIND_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise {

// B sequences of T rows.
enum class DataKind : int32_t {
  kTokens,          // i32[B * T]
  kLabels,          // i32[B * T], or i32[B] of a model that classifies whole sequences; -100: not counted
  kPixels,          // f32[B, channels * height * width], normalised
  kPositions,       // i32[B * T]: of each row in its document
  kDocumentStarts,  // i32[B * T]: the row of the sequence at which each row's document begins
};
inline constexpr int kDataKindCount = 5;

constexpr const char* DataKindName(DataKind kind) {
  constexpr std::array<const char*, kDataKindCount> kNames = {"tokens", "labels", "pixels", "positions",
                                                              "document starts"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_GRAPH_DATA_KIND_H_

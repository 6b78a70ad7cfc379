// Packed documents: several in one window, each ended by a separator token, none of which sees another.
//
//   MarkDocuments(50256, tokens, labels, positions, starts);
//
// tokens     a b SEP c d e SEP f
// labels     b SEP -100 d e SEP -100 (next)      nothing predicts the first token of a document
// positions  0 1 2 0 1 2 3 0
// starts     0 0 0 3 3 3 3 7
//
// What a window cuts off begins as a document of its own.
#ifndef REPRISE_RUNTIME_TRAIN_DOCUMENTS_H_
#define REPRISE_RUNTIME_TRAIN_DOCUMENTS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace reprise {

// Of one window. Sets `positions` and `starts`, each of which may be empty where the model does not read it, and takes
// the labels behind separators out of the count.
void MarkDocuments(int32_t separator, absl::Span<const int32_t> tokens, absl::Span<int32_t> labels,
                   absl::Span<int32_t> positions, absl::Span<int32_t> starts);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_DOCUMENTS_H_

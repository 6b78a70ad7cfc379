#include "runtime/train/documents.h"

#include "base/check.h"
#include "runtime/train/batch.h"

namespace reprise {

void MarkDocuments(int32_t separator, absl::Span<const int32_t> tokens, absl::Span<int32_t> labels,
                   absl::Span<int32_t> positions, absl::Span<int32_t> starts) {
  const auto fits = [&](size_t size) { return size == 0 || size == tokens.size(); };
  REPRISE_CHECK(labels.size() == tokens.size() && fits(positions.size()) && fits(starts.size()))
      << "a window of " << tokens.size() << " tokens";
  size_t start = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!starts.empty()) starts[i] = static_cast<int32_t>(start);
    if (!positions.empty()) positions[i] = static_cast<int32_t>(i - start);
    if (tokens[i] != separator) continue;
    labels[i] = kIgnoredLabel;
    start = i + 1;
  }
}

}  // namespace reprise

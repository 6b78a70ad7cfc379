// A golden checkpoint of tests/fixtures, its batch, and what Transformers makes of it (tests/fixtures/make_golden.py).
//
//   const Golden g = LoadGolden("llama_gqa");
//   const int64_t counted = FillBatch(g, /*first_row=*/0, rows, job);
//   g.Numbers("grad.lm_head.weight");
#ifndef REPRISE_TESTS_TOOLS_GOLDEN_H_
#define REPRISE_TESTS_TOOLS_GOLDEN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/registry.h"
#include "runtime/snapshot/huggingface.h"
#include "runtime/snapshot/safetensors.h"
#include "runtime/train/training_job.h"

namespace reprise::testing {

struct Golden {
  ModelSource source;
  std::unique_ptr<HuggingFaceCheckpoint> checkpoint;
  std::unique_ptr<SafetensorsFile> expected;
  std::vector<int64_t> tokens, labels;
  std::vector<float> pixels;
  int64_t rows = 0, length = 0;

  std::vector<double> Numbers(const std::string& name) const;
  double counted_labels() const;  // of the whole batch
  ParameterSource Parameters() const;
};

Golden LoadGolden(const std::string& name);

// Fills micro-batch 0 with `rows` rows from `first_row` on; those beyond the batch are padding: no label counts.
// Returns how many labels do.
int64_t FillBatch(const Golden& g, int64_t first_row, int64_t rows, TrainingJob& job);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_GOLDEN_H_

// Small GPT-2 jobs on ranks that are threads, from given rows, for tests whose answers fit in a line.
//
//   CaseRun run = RunCase({.ranks = 2, .parameters = F0()}, rows);
//   run.ranks[0].gradients.at("transformer.wte.weight")
#ifndef REPRISE_TESTS_RUNTIME_TRAIN_CLOSED_FORM_H_
#define REPRISE_TESTS_RUNTIME_TRAIN_CLOSED_FORM_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/gpt2.h"
#include "runtime/train/training_job.h"
#include "tests/tools/ranks.h"

namespace reprise::testing {

inline constexpr char kTokenTable[] = "transformer.wte.weight";

// One sequence; labels below 0 do not count.
struct Row {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;
};

struct Case {
  int ranks = 1;
  Gpt2Config model = {.vocab_size = 4, .n_positions = 16, .n_embd = 4, .n_layer = 2, .n_head = 2};
  JobOptions options = {};  // micro_batch and accumulation are to make ranks * micro_batch * accumulation rows
  ParameterSource parameters = {};
  double learning_rate = 0;
  int steps = 1;  // each on the same rows
  uint64_t seed = 7;
};

struct RankRun {
  std::vector<StepResult> steps;
  std::map<std::string, std::vector<float>> gradients;  // of the last step, divided by the count
  std::map<std::string, std::vector<float>> parameters;
};

struct CaseRun {
  std::vector<RankRun> ranks;
};

inline ParameterSource ByName(std::map<std::string, float> values) {
  return [values = std::move(values)](const Parameter& parameter, int64_t, absl::Span<float> out) {
    const auto value = values.find(parameter.name());
    std::fill(out.begin(), out.end(), value == values.end() ? 0.0F : value->second);
    return absl::OkStatus();
  };
}

// All zero but the bias of the last norm: every position sees a vector of ones, whatever the tokens.
inline ParameterSource F0() { return ByName({{"transformer.ln_f.bias", 1}}); }
inline ParameterSource F0b() {
  return ByName({{"transformer.ln_f.bias", 1}, {kTokenTable, 1}, {"transformer.wpe.weight", 1}});
}

// Puts row `index` of `rows` into place `b` of micro-batch m; the number of labels that count.
inline int64_t PutRow(const Row& row, int m, int64_t b, TrainingJob& job) {
  const int64_t offset = b * static_cast<int64_t>(row.tokens.size());
  std::copy(row.tokens.begin(), row.tokens.end(), job.tokens(m).begin() + offset);
  std::copy(row.labels.begin(), row.labels.end(), job.labels(m).begin() + offset);
  return std::count_if(row.labels.begin(), row.labels.end(), [](int32_t label) { return label >= 0; });
}

inline void RunRank(const Case& c, const JobOptions& options, const std::vector<Row>& rows, Communicator& communicator,
                    RankRun& run) {
  auto created = TrainingJob::Create(Gpt2(c.model), options, {.threads = 1}, communicator);
  ASSERT_TRUE(created.ok()) << created.status();
  TrainingJob& job = **created;
  ASSERT_TRUE(job.SetParameters(c.parameters).ok());
  const int64_t stride = c.ranks * options.micro_batch;
  StepInput input{.seed = c.seed,
                  .learning_rate = c.learning_rate,
                  .first_sequence = communicator.rank() * options.micro_batch,
                  .sequence_stride = stride};
  for (int m = 0; m < options.accumulation; ++m) {
    for (int64_t b = 0; b < options.micro_batch; ++b) {
      input.counted_labels += PutRow(rows[static_cast<size_t>(m * stride + input.first_sequence + b)], m, b, job);
    }
  }
  for (input.step = 0; input.step < c.steps; ++input.step) {
    const auto result = job.Step(input);
    ASSERT_TRUE(result.ok()) << result.status();
    run.steps.push_back(*result);
  }
  const auto counted = static_cast<double>(run.steps.back().counted_labels);
  for (const Parameter* parameter : job.parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->elements()));
    ASSERT_TRUE(job.ReadGradient(*parameter, counted > 0 ? 1 / counted : 0, absl::MakeSpan(values)).ok());
    run.gradients[parameter->name()] = values;
    ASSERT_TRUE(job.ReadParameter(*parameter, absl::MakeSpan(values)).ok());
    run.parameters[parameter->name()] = values;
  }
}

// Row (m * ranks + rank) * micro_batch + b goes to place b of the rank's micro-batch m.
inline CaseRun RunCase(const Case& c, const std::vector<Row>& rows) {
  CaseRun run;
  run.ranks.resize(static_cast<size_t>(c.ranks));
  JobOptions options = c.options;
  options.sequence_length = static_cast<int64_t>(rows[0].tokens.size());
  EXPECT_EQ(static_cast<int64_t>(rows.size()), c.ranks * options.micro_batch * options.accumulation);
  RunRanks(c.ranks, [&](Communicator& communicator) {
    RunRank(c, options, rows, communicator, run.ranks[static_cast<size_t>(communicator.rank())]);
  });
  return run;
}

// `count` rows of `length` tokens from the formula of a linear congruential generator.
inline std::vector<Row> MixedRows(int64_t count, int64_t length, int64_t vocabulary) {
  std::vector<Row> rows(static_cast<size_t>(count));
  uint32_t state = 12345;
  const auto next = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocabulary));
  };
  for (Row& row : rows) {
    for (int64_t t = 0; t < length; ++t) {
      row.tokens.push_back(next());
      row.labels.push_back(next());
    }
  }
  return rows;
}

// Cuts a stream of tokens into rows of `length`, each labelled with what follows.
inline std::vector<Row> Windows(const std::vector<int32_t>& stream, size_t length) {
  std::vector<Row> rows;
  for (size_t first = 0; first + length < stream.size(); first += length) {
    const auto begin = stream.begin() + static_cast<int64_t>(first);
    const auto end = begin + static_cast<int64_t>(length);
    rows.push_back({{begin, end}, {begin + 1, end + 1}});
  }
  return rows;
}

// Every gradient that is not the token table's is exactly 0.
inline void ExpectOnlyTokenTableHasGradients(const RankRun& run) {
  for (const auto& [name, values] : run.gradients) {
    if (name == kTokenTable) continue;
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 0) << name << " element " << i;
  }
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_RUNTIME_TRAIN_CLOSED_FORM_H_

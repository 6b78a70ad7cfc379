// A folder with data for a job that takes a moment.
//
//   class BadInput : public SmallJob {};
//   TEST_F(BadInput, MissingData) { Shell(TrainOn(2, Flags("--data=missing"))); }
#ifndef REPRISE_TESTS_LAUNCH_SMALL_JOB_H_
#define REPRISE_TESTS_LAUNCH_SMALL_JOB_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/launch/shell.h"
#include "tests/tools/paths.h"

namespace reprise::testing {

inline constexpr char kSmallModel[] =
    "--model_config=n_layer=2,n_embd=16,n_head=2,vocab_size=256,n_positions=32 --sequence_length=16 --micro_batch=2 "
    "--threads=1";

class SmallJob : public ::testing::Test {
 protected:
  static constexpr int64_t kTextBytes = 4000;  // 249 windows of 16

  SmallJob() {
    std::string text;
    for (int64_t i = 0; text.size() < kTextBytes; ++i) absl::StrAppend(&text, i * i % 97, " is ", i, "; ");
    Write("text.txt", text.substr(0, kTextBytes));
  }

  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
  }
  void WriteU16(const std::string& name, const std::vector<uint16_t>& tokens) const {
    std::string bytes(tokens.size() * sizeof(uint16_t), '\0');
    std::memcpy(bytes.data(), tokens.data(), bytes.size());
    Write(name, bytes);
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

  // The small model on the text for one step; what is given comes later and wins.
  std::string Flags(const std::string& more) const {
    return absl::StrCat("--data=", File("text.txt"), " ", kSmallModel, " --steps=1 ", more);
  }

  // Trains with the flags and gives back the values of `key` over the steps.
  std::vector<double> Metrics(int ranks, const std::string& more, const std::string& key) const {
    const std::string path = File("metrics.jsonl");
    const Outcome outcome = Shell(TrainOn(ranks, Flags(absl::StrCat("--metrics=", path, " ", more))));
    EXPECT_EQ(outcome.exit_code, 0) << more << outcome.errors;
    EXPECT_EQ(ErrorLines(outcome).size(), 0U) << outcome.errors;
    return MetricsOf(path, key);
  }

  TemporaryFolder folder_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_LAUNCH_SMALL_JOB_H_

#include "runtime/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/tools/fault_storage.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Keys(const std::string& line) {
  std::vector<std::string> keys;
  const auto json = nlohmann::ordered_json::parse(line);
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(FormatStep, HasTheKeysOfTheInterfaceInOrder) {
  StepMetrics metrics;
  metrics.mfu = 0.5;
  metrics.peak_resident_bytes = 1 << 20;
  metrics.validation_loss = 2.5;
  EXPECT_THAT(Keys(FormatStep(metrics)),
              ElementsAre("step", "loss", "gradient_norm", "learning_rate", "tokens", "tokens_per_second", "mfu",
                          "step_seconds", "peak_device_bytes", "predicted_peak_device_bytes", "host_bytes",
                          "recompute_fraction", "recomputed_flops", "gathers", "offloaded_bytes",
                          "exposed_communication_seconds", "exposed_transfer_seconds", "peak_resident_bytes",
                          "validation_loss"));
  metrics.mfu.reset();
  metrics.peak_resident_bytes.reset();
  metrics.validation_loss.reset();
  const std::vector<std::string> keys = Keys(FormatStep(metrics));
  EXPECT_EQ(keys.size(), 16);
  EXPECT_EQ(keys.back(), "exposed_transfer_seconds");
}

TEST(FormatStep, NumbersReadBackExactly) {
  StepMetrics metrics;
  metrics.step = 3;
  metrics.loss = 10.824905395507812;
  metrics.learning_rate = 0.1 + 0.2;
  metrics.gradient_norm = 5e-324;
  metrics.tokens_per_second = 1.7976931348623157e308;
  metrics.step_seconds = 2;
  metrics.recomputed_flops = INT64_MAX;
  const std::string line = FormatStep(metrics);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["loss"].get<double>(), metrics.loss);
  EXPECT_EQ(json["learning_rate"].get<double>(), metrics.learning_rate);
  EXPECT_EQ(json["gradient_norm"].get<double>(), metrics.gradient_norm);
  EXPECT_EQ(json["tokens_per_second"].get<double>(), metrics.tokens_per_second);
  EXPECT_EQ(json["recomputed_flops"].get<int64_t>(), INT64_MAX);
  EXPECT_TRUE(json["step_seconds"].is_number_float());
  EXPECT_THAT(line, HasSubstr("\"step\":3,\"loss\":10.824905395507812,"));
  EXPECT_EQ(json.count("not_finite"), 0);
}

TEST(FormatStep, WhatIsNotFiniteIsNullAndNamed) {
  StepMetrics metrics;
  metrics.loss = NAN;
  metrics.gradient_norm = HUGE_VAL;
  metrics.validation_loss = -HUGE_VAL;
  const auto json = nlohmann::json::parse(FormatStep(metrics));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["gradient_norm"].is_null());
  EXPECT_EQ(json["not_finite"],
            nlohmann::json::parse(R"({"loss":"nan","gradient_norm":"inf","validation_loss":"-inf"})"));
}

TEST(JsonObject, EscapesAndNests) {
  const std::string text = JsonObject()
                               .Add("quote\"", "line\nend\\")
                               .Add("hosts", std::vector<std::string>{"a", "b\t"})
                               .Add("on", true)
                               .Add("ranks", 2)
                               .Add("bad", "\xff")
                               .Add("plan", JsonObject().Add("checkpoint", std::string("every:4")))
                               .Add("none", JsonObject())
                               .text();
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["quote\""], "line\nend\\");
  EXPECT_EQ(json["hosts"][1], "b\t");
  EXPECT_EQ(json["on"], true);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["bad"], "\xef\xbf\xbd");
  EXPECT_EQ(json["plan"]["checkpoint"], "every:4");
  EXPECT_TRUE(json["none"].empty());
}

TEST(MetricsWriter, EachLineIsThereWhenTheCallReturns) {
  testing::TemporaryFolder folder;
  const std::string path = folder.File("m.jsonl");
  auto writer = MetricsWriter::Open(PosixStorage(), path, LineStreamMode::kReplace);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->WriteRun(JsonObject().Add("ranks", 2)).ok());
  EXPECT_EQ(*ReadWholeFile(PosixStorage(), path, 1000), "{\"run\":{\"ranks\":2}}\n");
  ASSERT_TRUE(writer->WriteStep({.step = 1}).ok());
  const std::string text = *ReadWholeFile(PosixStorage(), path, 10000);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.back(), '\n');
}

TEST(MetricsWriter, FailuresAreStatuses) {
  testing::TemporaryFolder folder;
  const absl::Status open =
      MetricsWriter::Open(PosixStorage(), folder.File("none/m.jsonl"), LineStreamMode::kReplace).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(open.message()), HasSubstr("none/m.jsonl: No such file or directory; check the path"));
  testing::MemoryStorage memory;
  testing::FaultStorage faulty(&memory);
  faulty.FailFrom(3);
  auto writer = MetricsWriter::Open(faulty, "m", LineStreamMode::kReplace);
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(writer->WriteRun(JsonObject()).ok());
  EXPECT_EQ(writer->WriteStep({}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace reprise

#include "runtime/train/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reprise {
namespace {

TEST(LearningRate, WarmUpThenLinear) {
  const LearningRateSettings settings = {.base = 1e-3, .warmup_steps = 4, .steps = 8, .decay = Decay::kLinear};
  const double expected[] = {2.5e-4, 5e-4, 7.5e-4, 1e-3, 7.5e-4, 5e-4, 2.5e-4, 0};
  for (int64_t step = 0; step < 8; ++step) EXPECT_DOUBLE_EQ(LearningRate(settings, step), expected[step]) << step;
  EXPECT_EQ(LearningRate(settings, 100), 0);
}

TEST(LearningRate, CosineOfTheReferenceRun) {
  // 2e-3 x (0.1 + 0.9 (1 + cos(pi d)) / 2), d = (s + 1 - 40) / 560: cos is 1, 1/2, 0, -1/2, -1 at sixths of pi.
  const LearningRateSettings settings = {.base = 2e-3, .minimum = 2e-4, .warmup_steps = 40, .steps = 600};
  EXPECT_DOUBLE_EQ(LearningRate(settings, 0), 5e-5);
  EXPECT_DOUBLE_EQ(LearningRate(settings, 39), 2e-3);
  EXPECT_NEAR(LearningRate(settings, 319), 1.1e-3, 1e-15);                                    // d = 1/2
  EXPECT_NEAR(LearningRate(settings, 179), 2e-4 + 1.8e-3 * (1 + std::sqrt(0.5)) / 2, 1e-15);  // d = 1/4
  EXPECT_NEAR(LearningRate(settings, 599), 2e-4, 1e-15);
}

TEST(LearningRate, Constant) {
  const LearningRateSettings settings = {.base = 0.1, .warmup_steps = 2, .steps = 5, .decay = Decay::kConstant};
  EXPECT_DOUBLE_EQ(LearningRate(settings, 0), 0.05);
  for (int64_t step = 1; step < 9; ++step) EXPECT_EQ(LearningRate(settings, step), 0.1);
}

TEST(LearningRate, EdgesOfWarmUp) {
  // None: the first step has decayed once already, the last stands at the minimum.
  const LearningRateSettings none = {.base = 1, .minimum = 0.2, .steps = 4, .decay = Decay::kLinear};
  EXPECT_DOUBLE_EQ(LearningRate(none, 0), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(none, 3), 0.2);
  // Nothing but warm-up: no division by zero after it.
  for (const Decay decay : {Decay::kLinear, Decay::kCosine, Decay::kConstant}) {
    const LearningRateSettings all = {.base = 1, .warmup_steps = 4, .steps = 4, .decay = decay};
    EXPECT_EQ(LearningRate(all, 3), 1);
    EXPECT_EQ(LearningRate(all, 4), 1);
  }
}

TEST(LearningRate, ValidateNamesTheFlag) {
  const LearningRateSettings good = {.base = 1e-3, .minimum = 1e-4, .warmup_steps = 4, .steps = 8};
  EXPECT_TRUE(Validate(good).ok());
  const auto refused = [&](auto change, const std::string& flag) {
    LearningRateSettings bad = good;
    change(bad);
    const absl::Status status = Validate(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()).rfind(flag, 0), 0) << status;
  };
  refused([](auto& s) { s.base = NAN; }, "--learning_rate");
  refused([](auto& s) { s.base = HUGE_VAL; }, "--learning_rate");
  refused([](auto& s) { s.base = -1; }, "--learning_rate");
  refused([](auto& s) { s.minimum = NAN; }, "--min_learning_rate");
  refused([](auto& s) { s.minimum = -1e-9; }, "--min_learning_rate");
  refused([](auto& s) { s.minimum = 2e-3; }, "--min_learning_rate");
  refused([](auto& s) { s.warmup_steps = -1; }, "--warmup_steps");
  refused([](auto& s) { s.warmup_steps = 9; }, "--warmup_steps");
  refused([](auto& s) { s.steps = 0; }, "--steps");
}

TEST(ParseDecay, KnowsItsNames) {
  EXPECT_EQ(*ParseDecay("linear"), Decay::kLinear);
  EXPECT_EQ(ParseDecay("step").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace reprise

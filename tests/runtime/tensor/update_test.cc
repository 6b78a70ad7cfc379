#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/tools/kernel_check.h"

namespace reprise::testing {
namespace {

KernelSpec AdamW(int64_t count, double weight_decay, DType dtype = DType::kFloat32) {
  return MakeSpec(
      "adamw", {{dtype, {count}}},
      Attributes().Set("beta1", 0.9).Set("beta2", 0.95).Set("epsilon", 1e-8).Set("weight_decay", weight_decay));
}

// After one step m / (1 - b1) is g and v / (1 - b2) is g^2: the step is the learning rate in the direction of the sign.
TEST(AdamW, MovesByTheLearningRateAtFirst) {
  const Values g = {3, -0.25, 1e-3, 0, -700};
  for (const KernelKind kind : kKernelKinds) {
    const std::vector<Values> out = RunKernel(
        AdamW(5, 0), {g},
        {.kind = kind, .step = {.learning_rate = 0.01}, .before = {Values(5, 1.0), Values(5, 0.0), Values(5, 0.0)}});
    ExpectClose(out[0], {0.99, 1.01, 0.99 + 1e-7, 1, 1.01}, {3e-7}, "p");
    ExpectClose(out[1], {0.3, -0.025, 1e-4, 0, -70}, {3e-7}, "m");
    ExpectClose(out[2], {0.45, 0.003125, 5e-8, 0, 24500}, {3e-7}, "v");
  }
}

struct AdamWState {
  Values p, m, v;
};

// Algorithm 2 of Loshchilov and Hutter in the order of PyTorch's AdamW, in float64.
void PlainAdamW(const Values& g, const StepValues& step, double weight_decay, AdamWState& state) {
  for (size_t i = 0; i < g.size(); ++i) {
    const double gradient = g[i] * step.gradient_scale;
    const double t = static_cast<double>(step.step) + 1;
    state.p[i] -= step.learning_rate * weight_decay * state.p[i];
    state.m[i] += 0.1 * (gradient - state.m[i]);
    state.v[i] += 0.05 * (gradient * gradient - state.v[i]);
    const double m_hat = state.m[i] / (1 - std::pow(0.9, t));
    const double v_hat = state.v[i] / (1 - std::pow(0.95, t));
    state.p[i] -= step.learning_rate * m_hat / (std::sqrt(v_hat) + 1e-8);
  }
}

TEST(AdamW, FollowsAPlainLoopOverSteps) {
  for (const int64_t count : {1, 7, 33, 40001}) {
    const Values start = RandomValues(count, 1);
    const Values zero(start.size(), 0.0);
    for (const KernelKind kind : kKernelKinds) {
      for (const int threads : {1, 2}) {
        AdamWState expected = {start, zero, zero};
        std::vector<Values> state = {start, zero, zero};
        for (int64_t step = 0; step < 4; ++step) {
          Values g = RandomValues(count, 10 + static_cast<uint64_t>(step), -8, 8);
          for (double& value : g) value = Stored(value, DType::kFloat32);
          const StepValues values = {.step = step, .learning_rate = 1e-2, .gradient_scale = 0.125};
          PlainAdamW(g, values, 0.1, expected);
          state =
              RunKernel(AdamW(count, 0.1), {g}, {.kind = kind, .threads = threads, .step = values, .before = state});
        }
        ExpectClose(state[0], expected.p, {1e-5, 1e-6}, "p");
        ExpectClose(state[1], expected.m, {1e-5, 1e-6}, "m");
        ExpectClose(state[2], expected.v, {1e-5, 1e-6}, "v");
      }
    }
  }
}

TEST(AdamW, DoesNotDependOnThreads) {
  const int64_t count = 100003;
  const std::vector<Values> before = {RandomValues(count, 2), RandomValues(count, 3), RandomValues(count, 4, 0, 1)};
  const KernelRun run = {.kind = KernelKind::kCpu, .step = {.step = 9, .learning_rate = 1e-3}, .before = before};
  KernelRun threaded = run;
  threaded.threads = 3;
  const Values g = RandomValues(count, 1);
  const std::vector<Values> one = RunKernel(AdamW(count, 0.1), {g}, run);
  const std::vector<Values> three = RunKernel(AdamW(count, 0.1), {g}, threaded);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(SameBits(one[i], three[i])) << i;
}

TEST(Sgd, IsItsFormula) {
  for (const int64_t count : {1, 7, 33, 40001}) {
    const Values g = RandomValues(count, 1);
    const Values p = RandomValues(count, 2);
    Values expected;
    for (size_t i = 0; i < g.size(); ++i) expected.push_back(p[i] - 0.1 * (g[i] * 0.5 + 0.01 * p[i]));
    for (const KernelKind kind : kKernelKinds) {
      const KernelSpec spec = MakeSpec("sgd", {{DType::kFloat32, {count}}}, Attributes().Set("weight_decay", 0.01));
      const Values out = RunKernel(
          spec, {g},
          {.kind = kind, .threads = 2, .step = {.learning_rate = 0.1, .gradient_scale = 0.5}, .before = {p}})[0];
      ExpectClose(out, expected, {1e-6, 1e-7}, "p");
    }
  }
}

TEST(Updates, LeaveEverythingAsItIsWhereTheStepHasNone) {
  const Values g(5, std::nan(""));
  const std::vector<Values> before = {RandomIntegers(5, 2, 99), RandomIntegers(5, 3, 99), RandomIntegers(5, 4, 99)};
  const StepValues none{.learning_rate = 0.1, .updates = 0};
  for (const KernelKind kind : kKernelKinds) {
    const std::vector<Values> after = RunKernel(AdamW(5, 0.1), {g}, {.kind = kind, .step = none, .before = before});
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(SameBits(after[i], before[i])) << i;
    const KernelSpec sgd = MakeSpec("sgd", {{DType::kFloat32, {5}}}, Attributes().Set("weight_decay", 0.01));
    EXPECT_TRUE(SameBits(RunKernel(sgd, {g}, {.kind = kind, .step = none, .before = {before[0]}})[0], before[0]));
  }
}

TEST(StepFactor, DividesByTheCountAndClipsTheNormOfTheMean) {
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    Values sums;  // loss, squared norm, count
    double clip_norm;
    Values factor;
  };
  const std::vector<Case> cases = {
      {{6, 16, 2}, 0, {0.5, 1}},                         // not clipped
      {{6, 16, 2}, 5, {0.5, 1}},                         // the norm is 2
      {{6, 16, 2}, 1, {0.5 / (2 + 1e-6), 1}},            // as clip_grad_norm_
      {{6, 0, 4}, 1, {0.25, 1}},                         // no gradient at all
      {{0, 0, 0}, 1, {0, 0}},                            // no label counted
      {{std::nan(""), 16, 2}, 1, {0, 0}},                //
      {{infinity, 16, 2}, 0, {0, 0}},                    //
      {{6, infinity, 2}, 1, {0, 0}},                     //
      {{6, std::nan(""), 2}, 0, {0, 0}},                 //
      {{-6, 16, 2}, 0, {0.5, 1}},                        //
      {{6, 1e308, 1}, 1e-3, {1e-3 / (1e154 + 1e-6), 1}}  //
  };
  for (const Case& c : cases) {
    for (const KernelKind kind : kKernelKinds) {
      const KernelSpec spec{"step_factor",
                            {{DType::kFloat64, {3}}},
                            {{DType::kFloat64, {2}}},
                            Attributes().Set("clip_norm", c.clip_norm)};
      ExpectClose(RunKernel(spec, {c.sums}, {.kind = kind})[0], c.factor, {1e-15}, "factor");
    }
  }
}

TEST(SquaredSum, IsExactForIntegers) {
  for (const int64_t count : {1, 15, 17, 4095, 4096, 4097, 50000}) {
    const Values x = RandomIntegers(count, 1, 1 << 18);
    double expected = 0;
    for (const double value : x) expected += value * value;  // below 2^53
    const KernelSpec spec = MakeSpec("squared_sum", {{DType::kFloat32, {count}}});
    for (const KernelKind kind : kKernelKinds) {
      for (const int threads : {1, 2}) {
        EXPECT_EQ(RunKernel(spec, {x}, {.kind = kind, .threads = threads})[0][0], expected);
        EXPECT_EQ(RunKernel(spec, {x}, {.kind = kind, .threads = threads, .accumulate = 1, .before = {{3}}})[0][0],
                  expected + 3);
      }
    }
  }
}

TEST(SquaredSum, DoesNotOverflowAndDoesNotDependOnThreads) {
  const KernelSpec spec = MakeSpec("squared_sum", {{DType::kFloat32, {30001}}});
  ExpectKernelsAgree(spec, {RandomValues(30001, 1)}, {1e-14}, {.accumulated = 1});
  ExpectKernelsAgree(spec, {RandomValues(30001, 1, -3e38, 3e38)}, {1e-14});
}

TEST(Cast, RoundsTiesToEvenAndKeepsWhatIsSpecial) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Values x = {1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-8 + 0x1p-23, -1 - 0x1p-8, -0.0,
                    infinity,   -infinity,  std::nan(""),         3.4e38,      0x1p-149,
                    0x1p-133,   0x1.8p-133};
  const Values expected = {1,         1 + 0x1p-6,   1 + 0x1p-7, -1, -0.0,     infinity,
                           -infinity, std::nan(""), infinity,   0,  0x1p-133, 0x1p-132};
  const auto count = static_cast<int64_t>(x.size());
  const KernelSpec spec =
      MakeSpec("cast", {{DType::kFloat32, {count}}}, Attributes().Set("dtype", static_cast<int>(DType::kBFloat16)));
  for (const KernelKind kind : kKernelKinds) {
    EXPECT_TRUE(SameBits(RunKernel(spec, {x}, {.kind = kind})[0], expected));
  }
}

TEST(Cast, FastHasTheBitsOfTheReference) {
  for (const DType from : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType to : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t count : {1, 3, 7, 31, 33, 257, 200001}) {
        ExpectKernelsAgree(MakeSpec("cast", {{from, {count}}}, Attributes().Set("dtype", static_cast<int>(to))),
                           {RandomValues(count, 1)}, {});
      }
    }
  }
}

TEST(FillZero, FillsEveryElement) {
  for (const int64_t count : {1, 33, 300001}) {
    const KernelSpec spec =
        MakeSpec("fill_zero", {}, Attributes().Set("dtype", static_cast<int>(DType::kBFloat16)).Set("elements", count));
    for (const KernelKind kind : kKernelKinds) {
      const Values zero(static_cast<size_t>(count), 0.0);
      EXPECT_TRUE(SameBits(RunKernel(spec, {}, {.kind = kind, .threads = 2})[0], zero));
    }
  }
}

TEST(FastKernels, SayThatTheyDoNotComputeInFloat64) {
  for (const KernelSpec& spec : {AdamW(3, 0, DType::kFloat64), MakeSpec("gelu", {{DType::kFloat64, {1, 3}}}),
                                 MakeSpec("add", {{DType::kFloat64, {3}}, {DType::kFloat64, {3}}})}) {
    for (const KernelKind kind : {KernelKind::kCpu, KernelKind::kCuda}) {
      EXPECT_EQ(MakeKernel(spec, {.kind = kind}).status().code(), absl::StatusCode::kUnimplemented);
    }
  }
}

}  // namespace
}  // namespace reprise::testing

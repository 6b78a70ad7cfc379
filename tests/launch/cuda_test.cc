// `reprise train --device=cuda`, with the CUDA part over its stand-in (tests/tools/cuda) in place of
// libreprise_cuda.so.
#include <gmock/gmock.h>

#include <vector>

#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class CudaTrain : public SmallJob {
 protected:
  CudaTrain() {
    const std::string library = absl::StrCat(REPRISE_BINARY_DIR, "/lib/libreprise_cuda_standin.so");
    setenv("REPRISE_CUDA_LIBRARY", library.c_str(), 1);
  }
  ~CudaTrain() override { unsetenv("REPRISE_CUDA_LIBRARY"); }

  static constexpr char kJob[] =
      "--steps=3 --learning_rate=0.01 --model_config=n_layer=3,n_embd=16,n_head=2,"
      "vocab_size=256,n_positions=32 ";

  std::vector<double> Losses(int ranks, const std::string& flags) const {
    return Metrics(ranks, absl::StrCat(kJob, flags), "loss");
  }
};

TEST_F(CudaTrain, HasTheCpusLossesAndItsOwnBitsUnderAnyPolicy) {
  for (const int ranks : {1, 2}) {  // two share the one device
    const std::vector<double> cpu = Losses(ranks, "--device=cpu");
    const std::vector<double> cuda = Losses(ranks, "--device=cuda");
    EXPECT_THAT(cuda, Pointwise(DoubleNear(1e-5), cpu));
    EXPECT_EQ(Losses(ranks, "--device=cuda --checkpoint=all --offload=activations --prefetch=2"), cuda);
    EXPECT_EQ(Metrics(ranks, absl::StrCat(kJob, "--device=cuda --checkpoint=every:2"), "peak_device_bytes"),
              Metrics(ranks, absl::StrCat(kJob, "--device=cuda --checkpoint=every:2"), "predicted_peak_device_bytes"));
  }
}

TEST_F(CudaTrain, HasTheCpusValidationLoss) {
  const std::string flags = absl::StrCat(kJob, "--validation_data=", File("text.txt"),
                                         " --validation_windows=7 --validation_every=2 --micro_batch=3 --device=");
  const std::vector<double> cpu = Metrics(2, flags + "cpu", "validation_loss");
  ASSERT_EQ(cpu.size(), 2U);
  EXPECT_THAT(Metrics(2, flags + "cuda", "validation_loss"), Pointwise(DoubleNear(1e-5), cpu));
}

TEST_F(CudaTrain, StartsItsStepsAsAWhole) {
  const std::vector<double> losses = Losses(1,
                                            "--device=cuda --dropout=0.1 --accumulation=2 --offload=activations "
                                            "--checkpoint=all");
  EXPECT_EQ(Losses(1,
                   "--device=cuda --dropout=0.1 --accumulation=2 --offload=activations --checkpoint=all "
                   "--cuda_graphs=on"),
            losses);
  const Outcome shared = Shell(TrainOn(2, Flags("--device=cuda --steps=2 --cuda_graphs=on")));
  EXPECT_EQ(shared.exit_code, 2) << shared.errors;
  EXPECT_EQ(ErrorLines(shared).size(), 1U) << shared.errors;
  EXPECT_EQ(Shell(Train(Flags("--device=cpu --cuda_graphs=on"))).exit_code, 2);
  EXPECT_EQ(Shell(Train(Flags(absl::StrCat("--device=cuda --cuda_graphs=on --trace=", File("t"))))).exit_code, 2);
}

TEST_F(CudaTrain, AutoTakesTheDeviceAndPlansForIt) {
  const Outcome outcome = Shell(Train(
      Flags(absl::StrCat("--device=auto --checkpoint=auto --memory_budget=1MiB --profile_cache=", File("cache")))));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("rank 0: cuda, stand-in, sm_90"));
}

TEST_F(CudaTrain, RefusesAnOperationWithoutKernel) {
  const Outcome outcome =
      Shell(Train(absl::StrCat("--data=", File("text.txt"), " --sequence_length=16 --steps=1 --device=cuda --plugin=",
                               REPRISE_BINARY_DIR, "/plugins/mixer.so --model=mixer")));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
  ASSERT_EQ(ErrorLines(outcome).size(), 1U) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("operation squared_relu has no cuda kernel"));
  EXPECT_THAT(outcome.errors, HasSubstr("use --device=cpu"));
}

TEST_F(CudaTrain, WritesATraceAndAReport) {
  const Outcome outcome = Shell(
      Train(Flags(absl::StrCat("--device=cuda --checkpoint=all --offload=activations --trace=", File("trace.json"),
                               " --report=", File("report.html")))));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(Contents(File("trace.json")), HasSubstr("\"offload"));
  EXPECT_GT(Contents(File("report.html")).size(), 10000U);
}

}  // namespace
}  // namespace reprise::testing

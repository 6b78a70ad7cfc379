// `reprise plan` beyond the flags of train: machines from files, saved profiles, budgets, the largest that fits.
#include "launch/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/launch/small_job.h"

namespace reprise {
namespace {

using ::reprise::testing::ErrorLines;
using ::reprise::testing::Outcome;
using ::reprise::testing::Shell;
using ::testing::HasSubstr;

class PlanProgram : public ::reprise::testing::SmallJob {
 protected:
  static Outcome Plan(const std::string& flags) {
    return Shell(absl::StrCat(testing::ProgramPath("reprise"), " plan ", flags));
  }
  // Of the small model, on a machine that is described.
  static Outcome PlanSmall(const std::string& flags) {
    return Plan(absl::StrCat(testing::kSmallModel, " --hardware=h100-sxm ", flags));
  }
  static void Refused(const Outcome& outcome, int code, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, code) << outcome.errors;
    ASSERT_EQ(ErrorLines(outcome).size(), 1U) << outcome.errors;
    EXPECT_THAT(ErrorLines(outcome)[0], HasSubstr(part));
  }
  // A whole description with one line in place of its own.
  static std::string Machine(const std::string& line) {
    std::string text;
    for (const char* own : {"compute_fp32 = 1e12", "compute_bf16 = 1e12", "memory = 1e11", "kernel_latency = 1e-6",
                            "link = 1e10", "network = 1e10", "link_latency = 1e-5", "host = 1e10", "disk = 1e9",
                            "device_memory = 1e10", "ranks_per_host = 8"}) {
      const std::string key = absl::StrCat(line.substr(0, line.find(' ')), " ");
      absl::StrAppend(&text, std::string(own).rfind(key, 0) == 0 ? line : own, "\n");
    }
    return text;
  }
  static nlohmann::json Json(const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return nlohmann::json::parse(outcome.output);
  }
};

TEST_F(PlanProgram, RefusesHardwareThatIsNone) {
  Write("negative.toml", "compute_fp32 = -1\n");
  Write("text.toml", "memory = \"x\"\n");
  Write("bad.toml", "nonsense\n");
  Write("unknown.toml", "compute = 1\n");
  const auto with = [&](const std::string& file) {
    return Plan(absl::StrCat(testing::kSmallModel, " --hardware=", File(file)));
  };
  Refused(with("negative.toml"), 2, "compute_fp32 is not a positive number");
  Refused(with("text.toml"), 2, "text.toml:1: memory is not a number");
  Refused(with("bad.toml"), 2, "bad.toml:1: not TOML");
  Refused(with("unknown.toml"), 2, "did you mean 'compute_fp32'");
  Write("slow.toml", Machine("link = 1e-30"));
  Write("late.toml", Machine("kernel_latency = 1e308"));
  Write("fast.toml", Machine("memory = 1e308"));
  Refused(with("slow.toml"), 2, "hardware slow: link is 1e-30; it must be from 1e+06");
  Refused(with("late.toml"), 2, "hardware late: kernel_latency is 1e+308; it must be from 0 to 1 seconds");
  Refused(with("fast.toml"), 2, "hardware fast: memory is 1e+308");
  // Whole numbers beyond what a double tells apart are numbers too.
  Write("large.toml", Machine("memory = 9223372036854775807"));
  EXPECT_EQ(with("large.toml").exit_code, 0);
  Write("good.toml", Machine(""));
  EXPECT_EQ(with("good.toml").exit_code, 0);
  Refused(with("absent.toml"), 2, "no file that can be read");
  Refused(Plan(absl::StrCat(testing::kSmallModel, " --hardware=nope")), 2, "use one of a100-sxm");
}

TEST_F(PlanProgram, SavesAProfileAndPlansIt) {
  const std::string profile = File("profile.json");
  const nlohmann::json job =
      Json(PlanSmall(absl::StrCat("--checkpoint=auto --memory_budget=1GiB --json --save_profile=", profile)));
  const nlohmann::json saved = Json(Plan(absl::StrCat("--profile=", profile, " --memory_budget=1GiB --json")));
  EXPECT_EQ(saved["step_ns"], job["class_ns"]);
  EXPECT_EQ(saved["step_ns"], saved["bound_ns"]);
  EXPECT_EQ(saved["layers"].size(), 2U);
  const int64_t smallest = saved["smallest_budget"];
  EXPECT_EQ(Plan(absl::StrCat("--profile=", profile, " --memory_budget=", smallest)).exit_code, 0);
  Refused(Plan(absl::StrCat("--profile=", profile, " --memory_budget=", smallest - 1)), 4,
          absl::StrCat(smallest, " bytes"));
  Refused(Plan(absl::StrCat("--profile=", profile, " --world_size=2")), 2, "cannot stand beside --profile");
  Write("cut.json", testing::Contents(profile).substr(0, 500));
  Refused(Plan(absl::StrCat("--profile=", File("cut.json"))), 2, "cut off");
  Refused(Plan(absl::StrCat("--profile=", File("absent.json"))), 2, "absent.json");
  // Of another job than the flags say.
  EXPECT_EQ(Plan(absl::StrCat(testing::kSmallModel, " --profile=", profile)).exit_code, 0);
  for (const char* other : {"--micro_batch=3", "--precision=bf16", "--sequence_length=8", "--accumulation=2",
                            "--model_config=n_layer=3,n_embd=16,n_head=2,vocab_size=256,n_positions=32"}) {
    Refused(Plan(absl::StrCat(testing::kSmallModel, " ", other, " --profile=", profile)), 2, "is of another job");
  }
  Refused(PlanSmall("--save_profile=/absent/x.json"), 2, "/absent/x.json");
}

TEST_F(PlanProgram, FindsTheLargestThatFits) {
  for (const char* what : {"micro_batch", "n_layer"}) {
    const std::string flags = "--checkpoint=all --memory_budget=768KiB ";
    const Outcome outcome = PlanSmall(absl::StrCat(flags, "--maximize=", what));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    const std::string mark = absl::StrCat("largest ", what, " that fits: ");
    const size_t at = outcome.output.find(mark);
    ASSERT_NE(at, std::string::npos) << outcome.output;
    const int64_t largest = std::stoll(outcome.output.substr(at + mark.size()));
    EXPECT_GT(largest, 1);
    const auto with = [&](int64_t value) {
      if (std::string(what) == "micro_batch") return PlanSmall(absl::StrCat(flags, "--micro_batch=", value)).exit_code;
      return PlanSmall(absl::StrCat(flags, "--model_config=n_layer=", value,
                                    ",n_embd=16,n_head=2,vocab_size=256,n_positions=32"))
          .exit_code;
    };
    EXPECT_EQ(with(largest), 0) << what << " " << largest;
    EXPECT_EQ(with(largest + 1), 4) << what << " " << largest;
  }
  Refused(PlanSmall("--maximize=micro_batch"), 2, "needs --memory_budget");
  Refused(PlanSmall("--checkpoint=auto --memory_budget=1GiB --prefetch=4"), 2, "--prefetch must be from 0 to 3");
  Refused(PlanSmall("--micro_batch=auto"), 2, "needs --memory_budget");
  Refused(PlanSmall("--micro_batch=many"), 2, "an integer or auto");
  Refused(PlanSmall("--micro_batch=auto --memory_budget=1MiB --maximize=n_layer"), 2, "give one of them");
  EXPECT_EQ(PlanSmall("--checkpoint=all --memory_budget=768KiB --micro_batch=auto").output,
            PlanSmall("--checkpoint=all --memory_budget=768KiB --maximize=micro_batch").output);
  Refused(PlanSmall("--maximize=width --memory_budget=1MiB"), 2, "micro_batch, sequence_length, image_size, n_layer");
  Refused(PlanSmall("--checkpoint=auto --maximize=micro_batch --memory_budget=1KiB"), 4, "micro_batch=1");
}

// Shapes of Llama 3.1, with the count of parameters that their model cards give.
class PlansLlama : public PlanProgram {
 protected:
  static void Expect(const std::string& name, int64_t parameters) {
    const std::string config = testing::FixturePath("../../examples/configs/llama-3.1-" + name + ".json");
    const nlohmann::json plan =
        Json(Plan(absl::StrCat("--model_config=", config, " --world_size=512 --hardware=h100-sxm --precision=bf16 ",
                               "--sequence_length=4096 --micro_batch=1 --checkpoint=all --json")));
    EXPECT_EQ(plan["parameters"], parameters);
    EXPECT_GT(plan["peak_bytes"], 12 * parameters / 512);  // float32 parameters and moments alone
  }
};
TEST_F(PlansLlama, Of70Billion) { Expect("70b", 70553706496); }
TEST_F(PlansLlama, Of405BillionLong) { Expect("405b", 405853388800); }

// Twelve layers of 8 x 1024 tokens, 768 wide: boundaries of 12 x 8 x 1024 x 768 x 2 bytes, logits of 8 x 1024 x 50257
// x 4.
TEST_F(PlanProgram, SaysWhatBoundariesAndLogitsTake) {
  const std::string gpt2 =
      "--hardware=h100-sxm --precision=bf16 --sequence_length=1024 --micro_batch=8 "
      "--model_config=n_layer=12,n_embd=768,n_head=12,vocab_size=50257,n_positions=1024 ";
  const Outcome outcome = Plan(absl::StrCat(gpt2, "--checkpoint=every:12"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("offloading boundaries, 144.0 MiB in all, would lower it by"));
  EXPECT_THAT(outcome.output, HasSubstr("whole logits, 1.5 GiB in float32 and as much for their gradient"));
}

// `train --micro_batch=auto` takes what `plan` finds, and not more than the data holds.
TEST_F(PlanProgram, TrainsWithTheLargestMicroBatch) {
  const std::string memory = "--checkpoint=auto --memory_budget=600KiB --profile_cache=none ";
  const nlohmann::json plan = Json(PlanSmall(absl::StrCat(memory, "--micro_batch=auto --world_size=2 --json")));
  const std::vector<double> tokens = Metrics(2, absl::StrCat(memory, "--micro_batch=auto"), "tokens");
  ASSERT_EQ(tokens.size(), 1U);
  const auto sequences = static_cast<int64_t>(tokens[0]) / (2 * 16);
  EXPECT_GT(sequences, 2);
  const auto fits = [&](int64_t count) {
    return PlanSmall(absl::StrCat(memory, "--world_size=2 --micro_batch=", count)).exit_code;
  };
  EXPECT_EQ(fits(sequences), 0) << sequences;
  EXPECT_EQ(fits(sequences + 1), 4) << sequences;
  const std::vector<double> peaks = testing::MetricsOf(File("metrics.jsonl"), "peak_device_bytes");
  EXPECT_LE(peaks.at(0), 600 * 1024);
  EXPECT_EQ(plan["layers"].size(), 2U);

  const std::vector<double> most = Metrics(1, "--memory_budget=1GiB --micro_batch=auto --accumulation=2", "tokens");
  EXPECT_EQ(most.at(0), 2 * 124 * 16) << "of 249 windows";
  Refused(Shell(testing::TrainOn(2, Flags("--memory_budget=8KiB --micro_batch=auto"))), 4, "micro_batch=1");
}

}  // namespace
}  // namespace reprise

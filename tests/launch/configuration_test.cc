// The command line and its values, against the sentences and defaults that the interface promises.
#include "launch/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launch/command_line.h"
#include "launch/flags.h"

namespace reprise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The least that `train` needs, and `more` behind it.
std::vector<std::string> With(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--data=text.txt", "--steps=10"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

absl::StatusOr<TrainConfiguration> Train(const std::vector<std::string>& more) {
  return Resolve(Subcommand::kTrain, With(more));
}

std::string Refusal(const std::vector<std::string>& more) {
  const absl::StatusOr<TrainConfiguration> configuration = Train(more);
  if (configuration.ok()) return "accepted";
  EXPECT_EQ(configuration.status().code(), absl::StatusCode::kInvalidArgument) << configuration.status();
  return std::string(configuration.status().message());
}

TEST(Resolve, LeavesTheDefaults) {
  TrainConfiguration expected;
  expected.data = "text.txt";
  expected.steps = 10;
  const absl::StatusOr<TrainConfiguration> configuration = Train({});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(*configuration, expected);
  EXPECT_EQ(configuration->checkpoint, "none");
  EXPECT_EQ(configuration->deadline, 300);
}

TEST(Resolve, TakesBothFormsAndTheLastOfSeveral) {
  const absl::StatusOr<TrainConfiguration> configuration =
      Train({"--micro_batch", "8", "--learning_rate=2e-3", "-prefetch=2", "--micro_batch=16", "--init", ""});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->micro_batch.sequences, 16);
  EXPECT_EQ(configuration->learning_rate, 2e-3);
  EXPECT_EQ(configuration->prefetch, 2);
}

TEST(Resolve, DoesNotRememberEarlierCalls) {
  ASSERT_TRUE(Train({"--micro_batch=8", "--offload=activations", "--checkpoint=all"}).ok());
  EXPECT_EQ(Train({})->micro_batch, TrainConfiguration().micro_batch);
  EXPECT_FALSE(Train({})->offload_activations);
}

TEST(Resolve, DerivesFromWords) {
  const absl::StatusOr<TrainConfiguration> configuration =
      Train({"--checkpoint=every:4", "--stream_order=random:7", "--offload=activations,activations",
             "--memory_budget=1.5GiB", "--host_budget=64MiB"});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->checkpoint_every, 4);
  EXPECT_TRUE(configuration->random_stream_order);
  EXPECT_EQ(configuration->stream_order_seed, 7);
  EXPECT_TRUE(configuration->offload_activations);
  EXPECT_FALSE(configuration->offload_optimizer);
  EXPECT_THAT(configuration->offload, ElementsAre("activations"));
  EXPECT_EQ(configuration->memory_budget.bytes, 1610612736);
  EXPECT_EQ(configuration->host_budget.bytes, 67108864);
}

struct Case {
  std::vector<std::string> arguments;
  std::string part;
};

TEST(Resolve, RefusesNamesAndForms) {
  const std::vector<Case> cases = {
      {{"--stpes=3"}, "unknown flag '--stpes'; did you mean 'steps'?"},
      {{"--learning-rate=1"}, "unknown flag '--learning-rate'; did you mean 'learning_rate'?"},
      {{"--qqqqqqqqq"}, "unknown flag '--qqqqqqqqq'"},
      {{"--world_size=8"}, "unknown flag '--world_size'"},
      {{"--nosteps"}, "unknown flag '--nosteps'; did you mean 'steps'?"},
      {{"--flagfile=x"}, "unknown flag '--flagfile'"},
      {{"--metrics"}, "--metrics needs a value"},
      {{"--metrics", "--seed=1"}, "--metrics needs a value"},
      {{"extra"}, "'extra' is no flag"},
      {{"--"}, "unknown flag '--'"},
      {{""}, "'' is no flag"},
      {{"--metrics=\xff"}, "not UTF-8"},
      {{std::string("--metrics=a\0b", 13)}, "not UTF-8"},
  };
  for (const Case& c : cases) EXPECT_THAT(Refusal(c.arguments), HasSubstr(c.part)) << c.arguments[0];
}

TEST(Resolve, RefusesTextThatIsNoValue) {
  for (const char* flag : {"steps", "micro_batch", "seed", "threads"}) {
    for (const char* value : {"", "x", "1.5", "1e3", "99999999999999999999", "1 2"}) {
      EXPECT_EQ(Refusal({absl::StrCat("--", flag, "=", value)}),
                absl::StrCat("--", flag, " wants an integer", std::string(flag) == "micro_batch" ? " or auto" : "",
                             ", not '", value, "'"));
    }
  }
  EXPECT_EQ(Refusal({"--learning_rate=fast"}), "--learning_rate wants a number, not 'fast'");
  for (const char* value : {"12GB", "-1MiB", "1.5", "", "nan"}) {
    EXPECT_EQ(Refusal({absl::StrCat("--memory_budget=", value)}),
              absl::StrCat("--memory_budget wants a size such as 512MiB, not '", value, "'"));
  }
}

TEST(Resolve, RefusesNumbersOutOfRange) {
  const std::vector<Case> cases = {
      {{"--accumulation=0"}, "--accumulation must be from 1"},
      {{"--micro_batch=0"}, "--micro_batch must be from 1"},
      {{"--micro_batch=-4"}, "and is -4"},
      {{"--micro_batch=9223372036854775807"}, "--micro_batch must be"},
      {{"--micro_batch=1048576", "--sequence_length=1048576"}, "--micro_batch times --sequence_length"},
      {{"--sequence_length=-1"}, "--sequence_length must be"},
      {{"--steps=-1"}, "--steps must be"},
      {{"--steps=0", "--epochs=-1"}, "--epochs must be"},
      {{"--seed=-1"}, "--seed must be"},
      {{"--prefetch=-1"}, "--prefetch must be"},
      {{"--threads=-1"}, "--threads must be"},
      {{"--threads=1000000"}, "--threads must be"},
      {{"--replicas=0"}, "--replicas must be"},
      {{"--validation_every=-1"}, "--validation_every must be"},
      {{"--validation_windows=-1"}, "--validation_windows must be"},
      {{"--warmup_steps=-1"}, "--warmup_steps must be"},
      {{"--snapshot_every=-1"}, "--snapshot_every must be"},
      {{"--dropout=1"}, "--dropout must be from 0 to below 1, and is 1"},
      {{"--dropout=-0.1"}, "--dropout must be from 0"},
      {{"--beta1=1"}, "--beta1 must be"},
      {{"--beta2=1.5"}, "--beta2 must be"},
      {{"--epsilon=0"}, "--epsilon must be above 0"},
      {{"--deadline=0"}, "--deadline must be above 0"},
      {{"--deadline=1e30"}, "--deadline must be at most"},
      {{"--learning_rate=-1"}, "--learning_rate must not be negative"},
      {{"--learning_rate", "-1"}, "--learning_rate must not be negative"},
      {{"--weight_decay=-0.1"}, "--weight_decay must not be negative"},
      {{"--clip_norm=-1"}, "--clip_norm must not be negative"},
      {{"--min_learning_rate=1"}, "--min_learning_rate (1) is above --learning_rate"},
  };
  for (const Case& c : cases) EXPECT_THAT(Refusal(c.arguments), HasSubstr(c.part)) << c.arguments[0];
}

TEST(Resolve, RefusesWhatIsNotFinite) {
  for (const char* flag : {"learning_rate", "min_learning_rate", "weight_decay", "beta1", "beta2", "epsilon",
                           "clip_norm", "dropout", "deadline"}) {
    for (const char* value : {"nan", "inf", "-inf", "1e999"}) {
      EXPECT_THAT(Refusal({absl::StrCat("--", flag, "=", value)}),
                  HasSubstr(absl::StrCat("--", flag, " must be a finite number")));
    }
  }
}

TEST(Resolve, RefusesUnknownWordsWithTheListAndTheNearest) {
  const std::vector<Case> cases = {
      {{"--sharding=ful"}, "--sharding takes full, gradients, optimizer, none, not 'ful'; did you mean 'full'?"},
      {{"--precision=fp16"}, "--precision takes fp32, bf16, not 'fp16'; did you mean"},
      {{"--optimizer=adam"}, "did you mean 'adamw'?"},
      {{"--decay=cos"}, "did you mean 'cosine'?"},
      {{"--device=gpu"}, "--device takes auto, cpu, cuda, not 'gpu'"},
      {{"--data_format=txt"}, "did you mean 'text'?"},
      {{"--offload=activation"}, "did you mean 'activations'?"},
      {{"--offload=activations,,"}, "--offload takes"},
      {{"--stream_order=sync"}, "did you mean 'async'?"},
      {{"--stream_order=random:"}, "--stream_order wants an integer from 0 behind 'random:'"},
      {{"--stream_order=random:x"}, "not 'x'"},
      {{"--checkpoint=sqr"}, "did you mean 'sqrt'?"},
      {{"--checkpoint=every"}, "for example every:4"},
      {{"--checkpoint=every:0"}, "--checkpoint wants an integer from 1 behind 'every:', not '0'"},
      {{"--checkpoint=every:-1"}, "not '-1'"},
      {{"--checkpoint=every:99999999999999999999"}, "behind 'every:'"},
      {{"--model="}, "--model must name a model"},
      {{"--resume="}, "--resume takes none, auto"},
  };
  for (const Case& c : cases) EXPECT_THAT(Refusal(c.arguments), HasSubstr(c.part)) << c.arguments[0];
}

TEST(Resolve, RefusesWhatDoesNotGoTogether) {
  const std::vector<Case> cases = {
      {{"--offload=activations"}, "--checkpoint retains"},
      {{"--host_budget=1GiB"}, "--host_budget needs --offload"},
      {{"--offload_file=x"}, "--offload_file needs --offload"},
      {{"--checkpoint=auto"}, "auto needs --memory_budget"},
      {{"--epochs=1"}, "--steps and --epochs are both set"},
      {{"--steps=0"}, "--steps or --epochs is needed"},
      {{"--data="}, "--data is needed"},
      {{"--validation_every=5"}, "--validation_every needs --validation_data"},
      {{"--validation_windows=5"}, "--validation_windows needs --validation_data"},
  };
  for (const Case& c : cases) EXPECT_THAT(Refusal(c.arguments), HasSubstr(c.part)) << c.arguments[0];
}

TEST(Resolve, NamesWhatIsNotBuilt) {
  const std::vector<Case> cases = {
      {{"--replicas=2"}, "--replicas above 1 is not built yet"},
      {{"--offload=parameters"}, "--offload=parameters is not built yet"},
      {{"--offload=optimizer"}, "--offload=optimizer is not built yet"},
      {{"--checkpoint=all", "--offload=activations", "--offload_file=x"}, "--offload_file is not built yet"},
      {{"--snapshot_dir=x"}, "--snapshot_dir is not built yet"},
      {{"--snapshot_every=5"}, "--snapshot_every is not built yet"},
      {{"--resume=x"}, "--resume of a snapshot is not built yet"},
  };
  for (const Case& c : cases) EXPECT_THAT(Refusal(c.arguments), HasSubstr(c.part)) << c.arguments[0];
  EXPECT_EQ(Refusal({"--resume=auto"}), "accepted");
}

TEST(Resolve, PlanNeedsNoDataAndKnowsItsOwnFlags) {
  EXPECT_TRUE(Resolve(Subcommand::kPlan, {}).ok());
  for (const char* argument : {"--world_size=8", "--hardware=h100", "--profile=p.json", "--json"}) {
    const absl::StatusOr<TrainConfiguration> plan = Resolve(Subcommand::kPlan, std::vector<std::string>{argument});
    EXPECT_TRUE(plan.ok()) << argument << ": " << plan.status();
  }
  EXPECT_TRUE(Resolve(Subcommand::kPlan, std::vector<std::string>{"--nojson"}).ok());
}

TEST(Text, JsonHoldsEverySettingOnce) {
  const absl::StatusOr<TrainConfiguration> configuration =
      Train({"--checkpoint=sqrt", "--offload=activations", "--metrics=a \"b\"\\\n\x7f.jsonl", "--dropout=0.1"});
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  const nlohmann::json json = nlohmann::json::parse(ToJson(*configuration));
  EXPECT_EQ(json.size(), Settings().size());
  for (const Setting& setting : Settings()) EXPECT_TRUE(json.contains(setting.name)) << setting.name;
  EXPECT_EQ(json["metrics"], "a \"b\"\\\n\x7f.jsonl");
  EXPECT_EQ(json["dropout"], 0.1);
  EXPECT_EQ(json["steps"], 10);
  EXPECT_EQ(json["offload"], nlohmann::json::array({"activations"}));
}

TEST(Text, HelpNamesEveryFlag) {
  for (const Subcommand subcommand : {Subcommand::kTrain, Subcommand::kPlan}) {
    const std::string help = HelpText(subcommand);
    for (const std::string& name : FlagNames(subcommand)) EXPECT_THAT(help, HasSubstr(absl::StrCat("--", name, " ")));
  }
}

TEST(Utf8, FollowsTheStandard) {
  for (const char* text : {"", "abc", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8E\xB5", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80", "\xE2\x82", "\xE2\x28\xA1"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace reprise

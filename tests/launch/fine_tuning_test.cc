// Fine-tuning from the command line: --freeze, low-rank adapters in PEFT's layout, labels that do not count, packed
// documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launch/exit_code.h"
#include "runtime/snapshot/safetensors.h"
#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class FineTuning : public SmallJob {
 protected:
  Outcome Train(int ranks, const std::string& more) const { return Shell(TrainOn(ranks, Flags(more))); }

  void ExpectRefused(const std::string& more, int exit_code, const std::string& why) const {
    const Outcome outcome = Train(1, more);
    EXPECT_EQ(outcome.exit_code, exit_code) << more;
    ASSERT_EQ(ErrorLines(outcome).size(), 1U) << more << outcome.errors;
    EXPECT_THAT(ErrorLines(outcome)[0], HasSubstr(why)) << more;
  }

  static std::vector<std::string> NamesIn(const std::string& path) {
    const auto file = SafetensorsFile::Open(PosixStorage(), path);
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<std::string> names;
    for (const StoredTensor& tensor : file->tensors()) names.push_back(tensor.name);
    return names;
  }

  static std::vector<float> TensorOf(const std::string& path, const std::string& name) {
    const auto file = SafetensorsFile::Open(PosixStorage(), path);
    EXPECT_TRUE(file.ok() && file->Find(name) != nullptr) << path << " " << name;
    std::vector<float> values(static_cast<size_t>(file->Find(name)->elements));
    EXPECT_TRUE(file->Read(name, 0, absl::MakeSpan(values)).ok());
    return values;
  }
};

TEST_F(FineTuning, FrozenParametersStayAndHaveNoGradient) {
  const std::string before = File("before"), after = File("after"), gradients = File("gradients.safetensors");
  ASSERT_EQ(Train(1, absl::StrCat("--steps=0 --export=", before)).exit_code, 0);
  const Outcome outcome =
      Train(2, absl::StrCat("--steps=2 --freeze='wte|wpe|h[.]0' --export=", after, " --dump_gradients=", gradients));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("are trained"));
  for (const std::string& name : NamesIn(before + "/model.safetensors")) {
    const bool frozen =
        absl::StrContains(name, "wte") || absl::StrContains(name, "wpe") || absl::StrContains(name, "h.0");
    const bool same = TensorOf(before + "/model.safetensors", name) == TensorOf(after + "/model.safetensors", name);
    EXPECT_EQ(same, frozen) << name;
  }
  for (const std::string& name : NamesIn(gradients)) {
    EXPECT_TRUE(absl::StrContains(name, "h.1") || absl::StrContains(name, "ln_f")) << name;
  }
  EXPECT_EQ(NamesIn(gradients).size(), 14U);
}

TEST_F(FineTuning, FreezeIsRefusedWhereItMeansNothing) {
  ExpectRefused("--freeze='('", kExitConfiguration, "is not a regular expression");
  ExpectRefused("--freeze=q_proj", kExitConfiguration, "matches no parameter of gpt2");
  ExpectRefused("--freeze=.", kExitConfiguration, "leaves no parameter of gpt2 to train");
  ExpectRefused("--freeze='(a|a)*$^b'", kExitConfiguration, "matches no parameter");
}

// Times that one run keeps are not taken for those of another that freezes something else.
TEST_F(FineTuning, AutoPlansWhateverIsFrozen) {
  const std::string flags =
      absl::StrCat("--checkpoint=auto --memory_budget=10MiB --profile_cache=", File("cache"), " ");
  for (const char* frozen : {"wpe", "wte", "ln_f", "ln_1|ln_2", "ln_f.bias", "h.0"}) {
    const Outcome outcome = Train(1, absl::StrCat(flags, "--freeze='", frozen, "'"));
    EXPECT_EQ(outcome.exit_code, 0) << frozen << outcome.errors;
  }
}

TEST_F(FineTuning, AdaptersComeBackAsTheyWere) {
  const std::string base = File("base"), first = File("first"), second = File("second"), third = File("third");
  ASSERT_EQ(Train(1, absl::StrCat("--steps=0 --export=", base)).exit_code, 0);
  const std::string from = absl::StrCat("--init=", base, " --model_config= ");
  const Outcome trained =
      Train(2, absl::StrCat(from, "--lora_rank=3 --lora_alpha=6 --steps=3 --learning_rate=1e-2 --export=", first));
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_THAT(NamesIn(first + "/adapter_model.safetensors"),
              UnorderedElementsAre("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight",
                                   "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight",
                                   "base_model.model.transformer.h.1.attn.c_attn.lora_A.weight",
                                   "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight"));
  const auto config = nlohmann::json::parse(Contents(first + "/adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 3);
  EXPECT_EQ(config["lora_alpha"], 6);
  EXPECT_EQ(config["fan_in_fan_out"], true);
  EXPECT_EQ(config["target_modules"], nlohmann::json({"c_attn"}));
  EXPECT_EQ(config["base_model_name_or_path"], base);
  EXPECT_FALSE(PosixStorage().Exists(first + "/config.json"));

  const std::string go_on = absl::StrCat(from, "--adapter=", first, " ");
  ASSERT_EQ(Train(1, absl::StrCat(go_on, "--steps=0 --export=", second)).exit_code, 0);
  EXPECT_TRUE(Contents(second + "/adapter_model.safetensors") == Contents(first + "/adapter_model.safetensors"));
  EXPECT_EQ(Contents(second + "/adapter_config.json"), Contents(first + "/adapter_config.json"));
  ASSERT_EQ(Train(1, absl::StrCat(go_on, "--steps=2 --learning_rate=1e-2 --export=", third)).exit_code, 0);
  EXPECT_TRUE(Contents(third + "/adapter_model.safetensors") != Contents(first + "/adapter_model.safetensors"));
  EXPECT_EQ(Train(1, absl::StrCat(go_on, "--steps=1 --export=", first)).exit_code, kExitConfiguration);
}

TEST_F(FineTuning, AdaptersAreRefusedWhereTheyDoNotFit) {
  const std::string adapters = File("adapters");
  ASSERT_EQ(Train(1, absl::StrCat("--lora_rank=2 --lora_targets=c_attn,c_fc --export=", adapters)).exit_code, 0);
  ExpectRefused("--lora_rank=2 --lora_targets=q_proj", kExitConfiguration, "has no product called q_proj");
  ExpectRefused("--lora_alpha=2", kExitConfiguration, "needs --lora_rank");
  ExpectRefused("--lora_targets=c_fc", kExitConfiguration, "needs --lora_rank");
  ExpectRefused("--lora_rank=-1", kExitConfiguration, "--lora_rank");
  ExpectRefused(absl::StrCat("--lora_rank=2 --adapter=", adapters), kExitConfiguration, "are both set");
  ExpectRefused("--adapter=nowhere", kExitData, "nowhere/adapter_config.json");
  ExpectRefused(absl::StrCat("--adapter=", adapters, " --model_config=n_layer=1,n_embd=16,n_head=2,n_positions=32"),
                kExitData, "for which the model has no adapter");
  ExpectRefused(absl::StrCat("--adapter=", adapters, " --model_config=n_layer=3,n_embd=16,n_head=2,n_positions=32"),
                kExitData, "is missing");
  ExpectRefused(absl::StrCat("--adapter=", adapters, " --model_config=n_layer=2,n_embd=32,n_head=2,n_positions=32"),
                kExitData, "has shape");
  ExpectRefused(
      absl::StrCat("--adapter=", adapters, " --model=llama --model_config=num_hidden_layers=1,hidden_size=16,",
                   "intermediate_size=24,num_attention_heads=2,vocab_size=256"),
      kExitData, "holds adapters of another model");
  const std::string file = adapters + "/adapter_model.safetensors";
  Write("adapters/adapter_model.safetensors", Contents(file).substr(0, 300));
  ExpectRefused(absl::StrCat("--adapter=", adapters), kExitData, "adapter_model.safetensors");
}

TEST_F(FineTuning, LabelsThatDoNotCount) {
  const std::string data = absl::StrCat("--data=", File("text.txt"), " ");
  // All count: the same losses to the last bit. None counts: no update, said once.
  Write("ones", std::string(kTextBytes, '\1'));
  Write("zeros", std::string(kTextBytes, '\0'));
  EXPECT_EQ(Metrics(2, absl::StrCat("--steps=3 --labels=", File("ones")), "loss"), Metrics(2, "--steps=3", "loss"));
  const Outcome none = Train(2, absl::StrCat("--steps=3 --labels=", File("zeros")));
  EXPECT_EQ(none.exit_code, 0) << none.errors;
  EXPECT_THAT(none.output, HasSubstr("no label that counts"));
  // A mask and the labels that it leaves are the same.
  const std::string text = Contents(File("text.txt"));
  std::string mask(kTextBytes, '\0'), numbers;
  for (size_t i = 0; i < mask.size(); ++i) {
    mask[i] = static_cast<char>(i % 3 != 0);
    const int32_t label = i % 3 != 0 ? static_cast<unsigned char>(text[i]) : -100;
    numbers.append(reinterpret_cast<const char*>(&label), 4);
  }
  Write("mask", mask);
  Write("numbers", numbers);
  const auto masked = Metrics(2, absl::StrCat("--steps=3 --labels=", File("mask")), "loss");
  const auto one_rank = Metrics(1, absl::StrCat("--steps=3 --micro_batch=4 --labels=", File("mask")), "loss");
  ASSERT_EQ(one_rank.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(one_rank[i], masked[i], 1e-6);
  EXPECT_EQ(masked, Metrics(2, absl::StrCat("--steps=3 --labels=", File("numbers")), "loss"));
  EXPECT_NE(masked, Metrics(2, "--steps=3", "loss"));
  Write("short", mask.substr(1));
  ExpectRefused(absl::StrCat("--labels=", File("short")), kExitData, "make it from the same data");
  ExpectRefused("--labels=nowhere", kExitData, "nowhere");
  mask[7] = '\7';
  Write("wrong", mask);
  ExpectRefused(absl::StrCat("--labels=", File("wrong")), kExitData, "holds 7 at byte 7");
}

TEST_F(FineTuning, PackedDocuments) {
  for (const char* model : {"--model=gpt2",
                            "--model=llama --model_config=num_hidden_layers=2,hidden_size=16,"
                            "intermediate_size=24,num_attention_heads=2,vocab_size=256"}) {
    const auto apart = Metrics(2, absl::StrCat(model, " --steps=2 --document_separator=59"), "loss");  // ';'
    ASSERT_EQ(apart.size(), 2U);
    EXPECT_NE(apart, Metrics(2, absl::StrCat(model, " --steps=2"), "loss"));
    // Of a separator that never comes, a window is one document: attention and positions are as without.
    EXPECT_EQ(Metrics(2, absl::StrCat(model, " --steps=2 --document_separator=255"), "loss"),
              Metrics(2, absl::StrCat(model, " --steps=2"), "loss"));
    EXPECT_EQ(Metrics(2, absl::StrCat(model, " --steps=2 --document_separator=59 --checkpoint=all"), "loss"), apart);
  }
  ExpectRefused("--document_separator=256", kExitConfiguration, "is beyond the vocabulary");
  ExpectRefused("--document_separator=-2", kExitConfiguration, "--document_separator");
}

}  // namespace
}  // namespace reprise::testing

// Bad input: one sentence that names the thing and the mend, once, and the exit code of the interface.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/launch/small_job.h"
#include "tests/runtime/train/token_data.h"

namespace reprise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kConfiguration = 2, kData = 3, kNoPlan = 4;

class BadInput : public SmallJob {
 protected:
  void Expect(const std::string& command, int code, const std::vector<std::string>& words) const {
    const Outcome outcome = Shell(command);
    EXPECT_EQ(outcome.exit_code, code) << command << "\n" << outcome.errors;
    const std::vector<std::string> lines = ErrorLines(outcome);
    ASSERT_EQ(lines.size(), 1U) << command << "\n" << outcome.errors;
    for (const std::string& word : words) EXPECT_THAT(lines[0], HasSubstr(word)) << command;
  }
  // On one rank.
  void Refused(const std::string& flags, int code, const std::vector<std::string>& words) const {
    Expect(Train(Flags(flags)), code, words);
  }

  static std::string Model(const std::string& settings) { return absl::StrCat("--model_config=", settings); }

  // A copy of the GPT-2 of the fixtures that may be spoiled.
  std::string ModelFolder() const {
    std::filesystem::remove_all(File("model"));
    std::filesystem::copy(FixturePath("gpt2"), File("model"));
    return absl::StrCat("--init=", File("model"), " --model_config= --sequence_length=8 --data=", File("low.bin"));
  }
};

TEST_F(BadInput, NamesThatAreNotKnown) {
  Refused("--stpes=3", kConfiguration, {"--stpes", "did you mean 'steps'"});
  Refused("--model=gpt3", kConfiguration, {"gpt3", "gpt2"});
  Refused("--data_format=csv", kConfiguration, {"--data_format", "csv", "llmc"});
  Refused("--optimizer=adam", kConfiguration, {"--optimizer", "adam", "adamw"});
  Refused("--decay=step", kConfiguration, {"--decay", "step", "cosine"});
  Refused("--precision=fp16", kConfiguration, {"--precision", "fp16", "bf16"});
  Refused("--sharding=half", kConfiguration, {"--sharding", "half", "gradients"});
  Refused("--checkpoint=every", kConfiguration, {"--checkpoint", "every:4"});
  Refused("--checkpoint=every:0", kConfiguration, {"--checkpoint", "every"});
  Refused("--offload=everything --checkpoint=all", kConfiguration, {"--offload", "everything", "activations"});
  Refused("--device=tpu", kConfiguration, {"--device", "tpu", "cpu"});
  Refused("--stream_order=random:x", kConfiguration, {"--stream_order", "x"});
  // Not the default n_head, which would not divide the width either.
  Refused(Model("n_layer=2,n_embd=16,n_heads=2"), kConfiguration, {"\"n_heads\"", "did you mean 'n_head'"});
}

TEST_F(BadInput, NumbersThatCannotBe) {
  for (const char* flag : {"seed",
                           "dropout",
                           "validation_every",
                           "validation_windows",
                           "micro_batch",
                           "sequence_length",
                           "accumulation",
                           "steps",
                           "epochs",
                           "learning_rate",
                           "warmup_steps",
                           "min_learning_rate",
                           "weight_decay",
                           "beta1",
                           "beta2",
                           "epsilon",
                           "clip_norm",
                           "replicas",
                           "memory_budget",
                           "host_budget",
                           "prefetch",
                           "threads",
                           "deadline"}) {
    for (const char* value : {"-1", "nan", "inf", "", "1x", "1e999"}) {
      Refused(absl::StrCat("--", flag, "=", value), kConfiguration, {absl::StrCat("--", flag, " ")});
    }
  }
  for (const char* flag : {"micro_batch", "accumulation", "epsilon", "replicas", "deadline", "steps"}) {
    Refused(absl::StrCat("--", flag, "=0"), kConfiguration, {absl::StrCat("--", flag, " ")});
  }
  Refused("--epsilon=1e-50", kConfiguration, {"--epsilon", "smallest float32"});
  Refused("--dropout=1", kConfiguration, {"--dropout", "below 1"});
  Refused("--micro_batch=99999999999999999999", kConfiguration, {"--micro_batch"});
  Refused("--micro_batch=1048576 --sequence_length=1048576", kConfiguration, {"--micro_batch", "--sequence_length"});
  Refused("--steps=3 --epochs=1", kConfiguration, {"--steps", "--epochs"});
  Refused("--warmup_steps=2", kConfiguration, {"--warmup_steps"});
  Refused("--min_learning_rate=1", kConfiguration, {"--min_learning_rate", "--learning_rate"});
}

TEST_F(BadInput, SizesOfTheModel) {
  Refused(Model("n_layer=2,n_embd=16,n_head=3"), kConfiguration, {"n_head=3", "n_embd=16"});
  Refused(Model("n_layer=0"), kConfiguration, {"n_layer", "from 1"});
  Refused(Model("n_embd=-16"), kConfiguration, {"n_embd", "from 1"});
  Refused(Model("n_head=two"), kConfiguration, {"n_head", "two"});
  Refused(Model("n_layer"), kData, {"n_layer", "check the path"});  // read as a path
  Refused(Model("layer_norm_epsilon=nan"), kConfiguration, {"layer_norm_epsilon"});
  Refused(absl::StrCat(Model("n_layer=1,n_embd=8,n_head=1,n_positions=1024"), " --sequence_length=1025"),
          kConfiguration, {"sequence_length=1025", "n_positions=1024"});
}

TEST_F(BadInput, DataFiles) {
  Write("empty.txt", "");
  Write("short.txt", "0123456789abcdef");
  Write("odd.bin", "abc");
  std::filesystem::create_directory(File("folder"));
  Refused(absl::StrCat("--data=", File("missing")), kData, {"missing", "check the path"});
  Refused(absl::StrCat("--data=", File("empty.txt")), kData, {"empty.txt is empty"});
  Refused(absl::StrCat("--data=", File("folder")), kData, {"folder", "holds no files"});
  Refused(absl::StrCat("--data=", File("odd.bin")), kData, {"odd.bin", "3 bytes"});
  Refused(absl::StrCat("--data=", File("short.txt"), " --micro_batch=1"), kData, {"16 tokens", "0 windows"});
  Refused("--micro_batch=250", kData, {"249 windows", "--micro_batch=250"});
  Refused(absl::StrCat("--validation_data=", File("missing")), kData, {"missing"});
  Refused(absl::StrCat("--validation_data=", File("short.txt")), kData, {"short.txt", "at least one"});
  Refused("--data=/dev/null", kData, {"/dev/null", "not a regular file"});
}

TEST_F(BadInput, IdsBeyondTheVocabulary) {
  std::vector<uint16_t> tokens(200, 7);
  tokens[123] = 50;
  WriteU16("tokens.bin", tokens);
  const std::string data = absl::StrCat("--data=", File("tokens.bin"), " ");
  const std::string sizes = "n_layer=1,n_embd=8,n_head=1,n_positions=16,vocab_size=";
  Refused(data + Model(sizes + "50"), kData, {"tokens.bin", "token 50", "byte 246", "vocabulary is 50"});
  EXPECT_EQ(Shell(Train(Flags(data + Model(sizes + "51")))).exit_code, 0);
  // In 16 bits, 119546 would be 54010.
  Refused(data + Model(sizes + "70000"), kData, {"16 bits", "70000", "32-bit"});
  std::vector<uint32_t> wide(200, 7);
  wide[123] = 119546;
  Write("wide.bin", Llmc<uint32_t>(20240801, 7, wide));
  const std::string wide_data = absl::StrCat("--data=", File("wide.bin"), " ");
  Refused(wide_data + Model(sizes + "119546"), kData, {"token 119546", "byte 1516"});
  EXPECT_EQ(Shell(Train(Flags(wide_data + Model(sizes + "119547")))).exit_code, 0);
}

TEST_F(BadInput, LlmcFiles) {
  const std::vector<uint16_t> tokens(100, 7);
  const std::string flags = absl::StrCat("--data_format=llmc --data=", File("data.bin"));
  const auto refused = [&](const std::string& bytes, const std::vector<std::string>& words) {
    Write("data.bin", bytes);
    Refused(flags, kData, words);
  };
  const std::string good = Llmc<uint16_t>(20240520, 1, tokens);
  refused(good.substr(0, good.size() - 1), {"data.bin", "1223 bytes", "100 tokens", "1224 bytes"});
  refused(Llmc<uint16_t>(20240520, 1, tokens, 101), {"101 tokens", "1226 bytes"});
  refused(Llmc<uint16_t>(20240521, 1, tokens), {"begins with 20240521", "20240520"});
  refused(Llmc<uint16_t>(20240520, 2, tokens), {"version 2"});
  refused(good.substr(0, 6), {"data.bin"});
  Write("data.bin", good);
  Refused(absl::StrCat("--data_format=u16 --data=", File("data.bin")), kData, {"llm.c", "--data_format=llmc"});
  EXPECT_EQ(Shell(Train(Flags(flags))).exit_code, 0);
}

constexpr char kPointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";

// Sizes that are each allowed and together are beyond any machine: refused before their products wrap.
TEST_F(BadInput, AbsurdSizes) {
  const std::string llama = "--model=llama --model_config=hidden_size=64,num_attention_heads=4,num_hidden_layers=1,";
  Refused(Model("n_embd=2147483648,n_head=1"), kConfiguration, {"n_inner=8589934592"});
  Refused(Model("n_embd=268435456,n_head=1,n_layer=10000"), kConfiguration, {"parameters", "2^48"});
  Refused(Model("n_layer=10001"), kConfiguration, {"n_layer", "from 1 to 10000"});
  Refused(llama + "head_dim=2147483648", kConfiguration, {"heads of size 2147483648", "65536"});
  Refused("--model=llama --model_config=hidden_size=2147483648,num_attention_heads=2147483648,head_dim=65536",
          kConfiguration, {"parameters", "2^48"});
  Refused("--model=llama --model_config=intermediate_size=2147483648,vocab_size=2147483648,hidden_size=65536",
          kConfiguration, {"parameters", "2^48"});
}

TEST_F(BadInput, ModelFolders) {
  WriteU16("low.bin", std::vector<uint16_t>(400, 3));
  const std::string flags = ModelFolder();
  EXPECT_EQ(Shell(Train(Flags(flags))).exit_code, 0);

  const std::string weights = Contents(File("model/model.safetensors"));
  const auto spoiled = [&](const std::string& file, const std::string& bytes, int code,
                           const std::vector<std::string>& words) {
    ModelFolder();
    Write(absl::StrCat("model/", file), bytes);
    Refused(flags, code, words);
  };
  spoiled("model.safetensors", weights.substr(0, weights.size() - 10), kData, {"model.safetensors", "10 bytes"});
  spoiled("model.safetensors", weights.substr(0, 1000), kData, {"model.safetensors", "cut short"});
  spoiled("model.safetensors", "", kData, {"model.safetensors", "cut short"});
  spoiled("model.safetensors", std::string(1000, '\x7f'), kData, {"model.safetensors"});
  spoiled("config.json", "{\"n_layer\": 2,", kData, {"config.json", "not JSON"});
  spoiled("config.json", "", kData, {"config.json", "not JSON"});
  spoiled("config.json", "{\"n_layer\": \"two\"}", kData, {"n_layer", "two", "config.json"});
  spoiled("config.json", "{\"activation_function\": \"relu\"}", kConfiguration, {"activation_function", "be gelu_new"});
  spoiled("config.json", "{\"model_type\": \"mixtral\"}", kConfiguration, {"model_type", "gpt2, llama, qwen2"});
  spoiled("config.json", "{\"n_layer\": [2]}", kData, {"n_layer", "one value"});
  spoiled("config.json", "{\"n_layer\": {}}", kData, {"n_layer", "whole number"});
  spoiled("config.json", "{\"n_layer\": -3}", kData, {"n_layer is -3", "whole number from 1"});
  spoiled("config.json", "{\"n_embd\": 99999999999999999999}", kData, {"n_embd is 1e+20"});
  spoiled("config.json", "{\"n_embd\": NaN}", kData, {"config.json", "not JSON"});
  spoiled("config.json", "{\"layer_norm_epsilon\": 1e999}", kData, {"config.json", "not JSON"});
  spoiled("config.json", "{\"a\": " + std::string(100000, '['), kData, {"config.json", "deep"});
  spoiled("config.json", "{\"n_head\": 5}", kConfiguration, {"n_head=5", "divide"});
  spoiled("config.json", kPointer, kData, {"config.json is a Git LFS pointer"});
  spoiled("model.safetensors", kPointer, kData, {"model.safetensors is a Git LFS pointer", "git lfs pull"});
  Write("low.bin", kPointer);
  ModelFolder();
  Refused(flags, kData, {"low.bin is a Git LFS pointer"});
  WriteU16("low.bin", std::vector<uint16_t>(400, 3));

  ModelFolder();
  Refused(absl::StrCat(flags, " ", Model("n_layer=2,n_embd=16,n_head=2,vocab_size=97,n_positions=16")), kData,
          {"does not fit the model", "wte.weight", "[97, 36]", "[97, 16]"});
  std::filesystem::remove(File("model/config.json"));
  Refused(flags, kData, {"config.json", "check the path"});
  ModelFolder();
  std::filesystem::remove(File("model/model.safetensors"));
  Refused(flags, kData, {"model", "neither model.safetensors nor"});
  Refused("--init=/absent --model_config=", kData, {"/absent"});
}

TEST_F(BadInput, ConfigurationFiles) {
  const auto refused = [&](const std::string& text, const std::vector<std::string>& words) {
    Write("run.toml", text);
    Refused(absl::StrCat("--config=", File("run.toml")), kConfiguration, words);
  };
  refused("seed = 3\nstpes = 3\n", {"run.toml:2", "stpes", "did you mean 'steps'"});
  refused("seed = \"three\"\n", {"run.toml:1", "seed", "an integer"});
  refused("seed = \n", {"run.toml:1", "not TOML"});
  refused("[train]\nseed = 3\n", {"run.toml:1", "train"});
  refused(std::string("\0\0", 2), {"run.toml"});
  refused("micro_batch = -1\naccumulation = 0\n", {"--accumulation", "from 1"});
  Refused("--config=/absent", kConfiguration, {"/absent"});
  Refused(absl::StrCat("--config=", folder_.path()), kConfiguration, {folder_.path()});
}

// The number that the message names is the smallest that will do.
TEST_F(BadInput, MemoryBudget) {
  for (const char* policy : {"--checkpoint=none", "--checkpoint=all --precision=bf16 --accumulation=2"}) {
    const Outcome outcome = Shell(Train(Flags(absl::StrCat(policy, " --memory_budget=1KiB"))));
    EXPECT_EQ(outcome.exit_code, kNoPlan) << outcome.errors;
    ASSERT_EQ(ErrorLines(outcome).size(), 1U) << outcome.errors;
    const std::string line = ErrorLines(outcome)[0];
    EXPECT_THAT(line, AllOf(HasSubstr("1024 bytes"), HasSubstr("largest: "), HasSubstr("raise the budget")));
    const size_t at = line.find("needs ");
    ASSERT_NE(at, std::string::npos) << line;
    const int64_t needed = std::stoll(line.substr(at + 6));
    Refused(absl::StrCat(policy, " --memory_budget=", needed - 1), kNoPlan, {absl::StrCat(needed, " bytes")});
    EXPECT_EQ(Shell(Train(Flags(absl::StrCat(policy, " --memory_budget=", needed)))).exit_code, 0);
  }
}

TEST_F(BadInput, HostBudget) {
  const std::string flags = "--checkpoint=all --offload=activations --host_budget=";
  Refused(flags + "2047", kNoPlan, {"host_budget=", "2048 bytes"});  // 2 x 16 x 16 floats
  EXPECT_EQ(Shell(Train(Flags(flags + "2048"))).exit_code, 0);
  Refused("--host_budget=1MiB", kConfiguration, {"--host_budget", "--offload"});
}

TEST_F(BadInput, OutputsThatCannotBeWritten) {
  for (const char* flag : {"--metrics=", "--dump_gradients=", "--trace=", "--report="}) {
    Refused(absl::StrCat(flag, File("text.txt/x")), kConfiguration, {"text.txt/x", "check the path"});
    Refused(absl::StrCat(flag, "/proc/absent"), kConfiguration, {"/proc/absent"});
    Refused(absl::StrCat(flag, folder_.path()), kConfiguration, {folder_.path(), "not a folder"});
  }
  Refused("--metrics=/dev/full", kConfiguration, {"/dev/full", "space"});
  ASSERT_EQ(Shell(absl::StrCat("mkfifo ", File("pipe"))).exit_code, 0);
  Refused(absl::StrCat("--dump_gradients=", File("pipe")), kConfiguration, {"pipe", "not a regular file"});
}

TEST_F(BadInput, WhatIsNotBuiltYet) {
  for (const char* flags :
       {"--resume=snapshot", "--snapshot_dir=x", "--snapshot_every=4", "--offload=parameters", "--offload=optimizer",
        "--checkpoint=all --offload=activations --offload_file=x", "--replicas=2"}) {
    Refused(flags, kConfiguration, {"is not built yet"});
  }
}

// Whether or not the CUDA part was built.
TEST_F(BadInput, NoCudaDevice) {
  Expect(absl::StrCat("CUDA_VISIBLE_DEVICES= ", Train(Flags("--device=cuda"))), kConfiguration,
         {"device=cuda", "use device=cpu"});
  Expect(absl::StrCat("REPRISE_CUDA_LIBRARY=/absent.so ", Train(Flags("--device=cuda"))), kConfiguration,
         {"/absent.so", "use device=cpu"});
  Refused("--device=cuda --stream_order=random:1", kConfiguration, {"--stream_order=random:1", "--device=cpu"});
}

// oneDNN would leave parts of a product unwritten.
TEST_F(BadInput, MoreThreadsThanOpenMpAllows) {
  Expect(absl::StrCat("OMP_THREAD_LIMIT=1 ", Train(Flags("--threads=2"))), kConfiguration,
         {"threads=2", "OMP_THREAD_LIMIT=1"});
}

TEST_F(BadInput, NumbersThatAreNotFinite) {
  Refused("--learning_rate=1e30 --steps=3", 6, {"step 2", "not finite", "--learning_rate"});
}

// Under mpirun: one rank speaks, whichever it is that knows, and all end.
class BadInputOnRanks : public BadInput {
 protected:
  std::string Two(const std::string& first, const std::string& second) const {
    return absl::StrCat(kMpirun, " -np 1 ", Train(Flags(first)), " : -np 1 ", Train(Flags(second)));
  }
};

TEST_F(BadInputOnRanks, TheSameOnBoth) {
  Expect(TrainOn(2, Flags("--nonsense=1")), kConfiguration, {"--nonsense"});
  Expect(TrainOn(2, Flags(absl::StrCat("--data=", File("missing")))), kData, {"missing"});
  Expect(TrainOn(2, Flags("--micro_batch=125")), kData, {"249 windows", "2 ranks x --micro_batch=125 need 250"});
  Expect(TrainOn(2, Flags("--memory_budget=1KiB")), kNoPlan, {"memory_budget=1024"});
  Expect(TrainOn(2, Flags(absl::StrCat("--metrics=", File("text.txt/x")))), kConfiguration, {"text.txt/x"});
  Expect(TrainOn(2, Flags("--metrics=/dev/full")), kConfiguration, {"/dev/full"});
  Expect(TrainOn(2, Flags("--learning_rate=1e30 --steps=3")), 6, {"step 2", "not finite"});
}

TEST_F(BadInputOnRanks, OtherSettings) {
  Expect(Two("--seed=1", "--seed=2"), kConfiguration, {"--seed differs between ranks", "2 on rank 1"});
  Expect(Two("", "--seeds=2"), kConfiguration, {"--seeds", "on rank 1"});
  Expect(Two("--steps=-1", ""), kConfiguration, {"--steps"});
}

TEST_F(BadInputOnRanks, OtherData) {
  const auto with = [&](const std::string& bytes) {
    for (const char* name : {"one", "two"}) std::filesystem::create_directory(File(name));
    Write("one/data", std::string(1000, 'a'));
    Write("two/data", bytes);
    const std::string flags = Train(Flags("--data=data"));
    return absl::StrCat(kMpirun, " -np 1 -wdir ", File("one"), " ", flags, " : -np 1 -wdir ", File("two"), " ", flags);
  };
  EXPECT_EQ(Shell(with(std::string(1000, 'a'))).exit_code, 0);
  Expect(with(std::string(900, 'a')), kData, {"--data=data differs between ranks", "1000 tokens", "900 tokens"});
  Expect(with(std::string(1000, 'b')), kData, {"--data=data differs between ranks", "rank 1"});
  std::filesystem::remove(File("two/data"));
  Expect(Two("", absl::StrCat("--data=", File("two/data"))), kConfiguration, {"--data differs between ranks"});
}

TEST_F(BadInputOnRanks, OtherCheckpoint) {
  const std::string flags =
      Train(absl::StrCat("--init=model --data=", File("low.bin"), " --sequence_length=8 --micro_batch=2 --steps=1 ",
                         "--data_format=text --threads=1"));
  for (const char* host : {"one", "two"}) {
    std::filesystem::create_directory(File(host));
    std::filesystem::copy(FixturePath("gpt2"), File(absl::StrCat(host, "/model")));
  }
  Write("low.bin", std::string(1000, '\1'));
  const std::string run =
      absl::StrCat(kMpirun, " -np 1 -wdir ", File("one"), " ", flags, " : -np 1 -wdir ", File("two"), " ", flags);
  EXPECT_EQ(Shell(run).exit_code, 0);
  // Behind the header, whose length stands in the first eight bytes, the first number of the first tensor.
  std::fstream file(File("two/model/model.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  const float other = 1.5F;
  file.seekp(static_cast<std::streamoff>(sizeof(header) + header));
  file.write(reinterpret_cast<const char*>(&other), sizeof(other));
  file.close();
  Expect(run, kData, {"--init=model differs between ranks", "rank 1"});
}

// llm.c's reader refuses what does not give each rank a window.
TEST_F(BadInputOnRanks, AWindowForEachRank) {
  const std::string flags =
      absl::StrCat("--data_format=llmc --micro_batch=1 --sequence_length=4 --data=", File("data.bin"));
  Write("data.bin", Llmc<uint16_t>(20240520, 1, std::vector<uint16_t>(16, 7)));
  Expect(TrainOn(4, Flags(flags)), kData, {"3 windows of 4", "need 4"});
  Write("data.bin", Llmc<uint16_t>(20240520, 1, std::vector<uint16_t>(17, 7)));
  EXPECT_EQ(Shell(TrainOn(4, Flags(flags))).exit_code, 0);
}

}  // namespace
}  // namespace reprise::testing

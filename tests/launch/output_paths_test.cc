// Outputs: none may be an input or another output, and a job that is refused leaves them as they were.
#include "launch/output_paths.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "launch/flags.h"
#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- The rule -------------------------------------------------------------------------------------------------------

class OutputPaths : public SmallJob {
 protected:
  OutputPaths() {
    fs::create_directory(File("folder"));
    fs::create_directory(File("folder/inner"));
    Write("folder/part", "part");
    Write("folder/.hidden", "hidden");
    Write("folder/inner/deep", "deep");
  }
  void OneFile(const std::string& output, const std::string& input) const {
    const absl::Status status = CheckOutputPaths({{"--out", output}}, {{"--in", input}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << output << " " << input;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(absl::StrCat("--out=", output)), HasSubstr(absl::StrCat("--in=", input))));
    if (fs::is_directory(input)) return;
    const absl::Status two = CheckOutputPaths({{"--out", output}, {"--in", input}}, {});
    EXPECT_EQ(two.code(), absl::StatusCode::kInvalidArgument) << output << " " << input;
    EXPECT_THAT(std::string(two.message()),
                AllOf(HasSubstr(absl::StrCat("--out=", output)), HasSubstr(absl::StrCat("--in=", input))));
  }
  static void OtherFile(const std::string& output, const std::string& input) {
    EXPECT_EQ(CheckOutputPaths({{"--out", output}}, {{"--in", input}}), absl::OkStatus()) << output << " " << input;
  }
};

TEST_F(OutputPaths, AFileThatIsThere) {
  const std::string text = File("text.txt");
  OneFile(text, text);
  OneFile(File("./folder/../text.txt"), text);
  OneFile(fs::relative(text).string(), text);
  fs::create_symlink("text.txt", File("soft"));
  fs::create_symlink("soft", File("softer"));
  fs::create_symlink(".", File("here"));
  fs::create_hard_link(text, File("hard"));
  for (const char* name : {"soft", "softer", "here/text.txt", "here/here/soft", "hard"}) {
    OneFile(File(name), text);
    OneFile(text, File(name));
  }
  Write("copy.txt", Contents(text));
  OtherFile(File("copy.txt"), text);
}

TEST_F(OutputPaths, AFileThatIsNotThere) {
  OneFile(File("new"), File("new"));
  OneFile(File("folder/../new"), File("./new"));
  OneFile(fs::relative(File("new")).string(), File("new"));
  OneFile("new", "./new");
  OneFile("/absent/a/../new", "/absent/new");
  fs::create_symlink("folder", File("to_folder"));
  OneFile(File("to_folder/new"), File("folder/new"));
  fs::create_symlink("folder/new", File("to_new"));
  fs::create_symlink("to_new", File("to_to_new"));
  OneFile(File("to_new"), File("folder/new"));
  OneFile(File("to_to_new"), File("to_folder/new"));
  OtherFile(File("new"), File("folder/new"));
  OtherFile(File("new"), File("newer"));
  OtherFile("/absent/new", "/missing/new");
  fs::create_symlink("loop", File("loop"));
  OtherFile(File("loop"), File("new"));
}

TEST_F(OutputPaths, AFileOfAFolderThatIsRead) {
  OneFile(File("folder/part"), File("folder"));
  OneFile(File("folder/inner/../part"), File("folder/"));
  fs::create_symlink("folder/part", File("soft"));
  fs::create_hard_link(File("folder/part"), File("hard"));
  OneFile(File("soft"), File("folder"));
  OneFile(File("hard"), File("folder"));
  // As the parts of a model in the cache of Hugging Face, and one that is not there yet.
  fs::create_symlink(File("text.txt"), File("folder/link"));
  OneFile(File("text.txt"), File("folder"));
  fs::create_symlink(File("blob"), File("folder/to_nothing"));
  OneFile(File("blob"), File("folder"));
  OneFile(File("folder/to_nothing"), File("folder"));
  OtherFile(File("folder/new"), File("folder"));
  OtherFile(File("folder/.hidden"), File("folder"));
  OtherFile(File("folder/inner/deep"), File("folder"));
  OtherFile(File("part"), File("folder"));
}

TEST_F(OutputPaths, FlagsThatAreNotGivenAreNone) {
  OtherFile("", "");
  EXPECT_EQ(CheckOutputPaths({{"--a", ""}, {"--b", ""}}, {{"--c", ""}}), absl::OkStatus());
  EXPECT_EQ(CheckOutputPaths({}, {{"--c", File("text.txt")}}), absl::OkStatus());
}

TEST_F(OutputPaths, NoneStandsAmongTheFilesOfAnExport) {
  const FlagPath folder{"--export", File("export")};
  EXPECT_TRUE(CheckNotInFolder({{"--report", File("report.html")}}, folder).ok());
  EXPECT_TRUE(CheckNotInFolder({{"--report", File("export.html")}, {"--trace", ""}}, folder).ok());
  EXPECT_TRUE(CheckNotInFolder({{"--report", File("export/report.html")}}, {"--export", ""}).ok());
  for (const char* path : {"export/report.html", "export/../export/model.safetensors", "./export//x"}) {
    const absl::Status status = CheckNotInFolder({{"--report", File(path)}}, folder);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--report="), HasSubstr("--export=")));
  }
}

// A file of images is read with its labels, whatever it is that they are called.
TEST_F(OutputPaths, LabelsBesideImagesAreRead) {
  Write("train-images-idx3-ubyte", "x");
  Write("train-labels-idx1-ubyte", "y");
  TrainConfiguration c;
  c.data = File("train-images-idx3-ubyte");
  EXPECT_FALSE(CheckOutputPaths({{"--metrics", File("train-labels-idx1-ubyte")}}, InputPathsOf(c)).ok());
  EXPECT_TRUE(CheckOutputPaths({{"--metrics", File("metrics.jsonl")}}, InputPathsOf(c)).ok());
}

TEST_F(OutputPaths, EverySettingThatIsReadCounts) {
  TrainConfiguration c;
  c.data = "data";
  c.validation_data = "validation_data";
  c.init = "init";
  c.model_config = "model_config";
  c.adapter = "adapter";
  c.labels = "labels";
  c.validation_labels = "validation_labels";
  c.plugin = {"plugin"};
  ASSERT_TRUE(SetFlag({"config", "config", "--config"}).ok());
  std::vector<std::string> paths;
  for (const FlagPath& input : InputPathsOf(c)) {
    EXPECT_EQ(input.flag, absl::StrCat("--", input.path));
    paths.push_back(input.path);
  }
  EXPECT_THAT(paths, ::testing::UnorderedElementsAre("data", "validation_data", "init", "model_config", "config",
                                                     "adapter", "labels", "validation_labels", "plugin"));
  ResetFlags();
}

// --- The program ----------------------------------------------------------------------------------------------------

class Outputs : public SmallJob {
 protected:
  // Exit 2, one line that holds `words`, and every file as before.
  void Refused(const std::string& command, const std::vector<std::string>& words, int code = 2) const {
    const std::map<std::string, std::string> before = Files();
    const Outcome outcome = Shell(command);
    EXPECT_EQ(outcome.exit_code, code) << command << "\n" << outcome.errors;
    ASSERT_EQ(ErrorLines(outcome).size(), 1U) << command << "\n" << outcome.errors;
    for (const std::string& word : words) EXPECT_THAT(ErrorLines(outcome)[0], HasSubstr(word)) << command;
    EXPECT_EQ(Files(), before) << command;
  }
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) files[entry.path().string()] = Contents(entry.path().string());
    }
    return files;
  }
  std::string At(const std::string& flag, const std::string& name) const {
    return absl::StrCat(" --", flag, "=", File(name));
  }
  static std::string Reprise(const std::string& arguments) {
    return absl::StrCat(ProgramPath("reprise"), " ", arguments);
  }
  static std::string Plan(const std::string& flags) { return Reprise(absl::StrCat("plan ", kSmallModel, " ", flags)); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename().string());
    return names;
  }
};

constexpr const char* kTrainOutputs[] = {"metrics", "trace", "report", "dump_gradients"};

TEST_F(Outputs, OfTrainAreNoInputs) {
  fs::copy(FixturePath("gpt2"), File("model"));
  Write("low.bin", std::string(1000, '\1'));
  fs::create_directory(File("corpus"));
  Write("corpus/one.txt", Contents(File("text.txt")));
  Write("run.toml", "seed = 3\n");
  fs::create_symlink(File("text.txt"), File("soft"));
  fs::create_hard_link(File("text.txt"), File("hard"));
  const std::string init = Train(absl::StrCat("--sequence_length=8 --micro_batch=2 --steps=1 --threads=1",
                                              At("init", "model"), At("data", "low.bin"), " --data_format=text"));
  for (const std::string flag : kTrainOutputs) {
    const std::string named = absl::StrCat("--", flag, "=");
    Refused(Train(Flags(At(flag, "text.txt"))), {named, "--data="});
    Refused(init + At(flag, "model/model.safetensors"), {named, "--init="});
  }
  for (const char* name : {"soft", "hard", "corpus/../text.txt"}) {
    Refused(Train(Flags(At("metrics", name))), {"--metrics=", "--data="});
  }
  const auto refused = [&](const std::string& input, const std::string& name, const std::string& output) {
    Refused(Train(Flags(At(input, name) + At("metrics", output))), {"--metrics=", absl::StrCat("--", input, "=")});
  };
  refused("data", "corpus", "corpus/one.txt");
  refused("validation_data", "corpus", "corpus/one.txt");
  refused("config", "run.toml", "run.toml");
  refused("model_config", "model/config.json", "model/config.json");
  Refused(TrainOn(2, Flags(At("trace", "text.txt"))), {"--trace=", "--data="});
  // Beside what is read there is room.
  EXPECT_EQ(Shell(init + At("metrics", "model/metrics.jsonl")).exit_code, 0);
}

TEST_F(Outputs, OfTrainAreDifferentFiles) {
  for (const std::string other : kTrainOutputs) {
    const std::string one = other == "metrics" ? "trace" : "metrics";
    Refused(Train(Flags(At(one, "new") + At(other, "./new"))),
            {absl::StrCat("--", one, "="), absl::StrCat("--", other, "=")});
  }
  EXPECT_EQ(Names(), std::vector<std::string>{"text.txt"});
}

TEST_F(Outputs, OfReportAreNoInputs) {
  ASSERT_EQ(Shell(Train(Flags(At("metrics", "metrics") + At("trace", "trace")))).exit_code, 0);
  fs::create_hard_link(File("metrics"), File("hard"));
  const std::string report = Reprise(absl::StrCat("report", At("metrics", "metrics"), At("trace", "trace")));
  Refused(report + At("output", "metrics"), {"--output=", "--metrics="});
  Refused(report + At("output", "hard"), {"--output=", "--metrics="});
  Refused(report + At("output", "trace"), {"--output=", "--trace="});
  EXPECT_EQ(Shell(report + At("output", "page.html")).exit_code, 0);
}

TEST_F(Outputs, OfPlanAreNoInputs) {
  fs::copy(FixturePath("gpt2"), File("model"));
  fs::copy_file(absl::StrCat(REPRISE_SOURCE_DIR, "/hardware/h100-sxm.toml"), File("mine.toml"));
  const std::string plan = Plan(At("hardware", "mine.toml"));
  for (const std::string flag : {"trace", "save_profile"}) {
    const std::string named = absl::StrCat("--", flag, "=");
    Refused(plan + At(flag, "mine.toml"), {named, "--hardware="});
    Refused(plan + At("data", "text.txt") + At(flag, "text.txt"), {named, "--data="});
    Refused(plan + At("init", "model") + At(flag, "model/model.safetensors"), {named, "--init="});
  }
  Refused(plan + At("trace", "new") + At("save_profile", "new"), {"--trace=", "--save_profile="});
  EXPECT_EQ(Shell(plan + At("trace", "new") + At("save_profile", "profile")).exit_code, 0);
  Refused(Reprise(absl::StrCat("plan", At("profile", "profile"), At("trace", "profile"))), {"--trace", "--profile"});
  Refused(Reprise(absl::StrCat("plan", At("profile", "profile"), At("save_profile", "profile"))),
          {"--save_profile", "--profile"});
}

TEST_F(Outputs, OfARefusedJobAreAsTheyWere) {
  for (const std::string flag : kTrainOutputs) {
    Write("keep", "an earlier run\n");
    const std::string keeps = At(flag, "keep");
    Refused(Train(Flags(keeps + " --memory_budget=1")), {"memory_budget"}, 4);
    for (const std::string other : kTrainOutputs) {
      if (other == flag || (flag != "metrics" && other != "dump_gradients")) continue;
      Refused(Train(Flags(absl::StrCat(keeps, " --", other, "=/absent/x"))), {"/absent/x"});
    }
    EXPECT_EQ(Shell(Train(Flags(keeps))).exit_code, 0);
    EXPECT_THAT(Contents(File("keep")), ::testing::Not(HasSubstr("an earlier run")));
  }
}

TEST_F(Outputs, APipeThatNoOneReadsIsRefused) {
  ASSERT_EQ(Shell(absl::StrCat("mkfifo ", File("pipe"))).exit_code, 0);
  for (const std::string flag : kTrainOutputs) {
    const Outcome outcome = Shell(absl::StrCat("timeout 20 ", Train(Flags(At(flag, "pipe")))));
    EXPECT_EQ(outcome.exit_code, 2) << flag << outcome.errors;
    ASSERT_EQ(ErrorLines(outcome).size(), 1U) << outcome.errors;
    EXPECT_THAT(ErrorLines(outcome)[0], AllOf(HasSubstr("pipe"), HasSubstr("not a regular file; name another path")));
  }
}

TEST_F(Outputs, AStoppedRunLeavesNoneHalfWritten) {
  const int nameless = open(folder_.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless < 0) GTEST_SKIP() << "this file system has no files without names";
  close(nameless);
  const std::string flags = At("metrics", "metrics") + At("trace", "trace") + At("report", "report") +
                            At("dump_gradients", "gradients") + " --steps=100000000";
  const Outcome outcome =
      Shell(absl::StrCat(Train(Flags(flags)), " & run=$!; for i in $(seq 300); do [ $(cat ", File("metrics"),
                         " 2>/dev/null | wc -l) -gt 2 ] && break; sleep 0.1; done; kill -s TERM $run; wait $run"));
  EXPECT_EQ(outcome.exit_code, 143) << outcome.errors;
  EXPECT_EQ(MetricsOf(File("metrics"), "step").empty(), false);
  EXPECT_THAT(Names(), ::testing::UnorderedElementsAre("text.txt", "metrics"));
}

TEST_F(Outputs, MetricsGoToWhoeverReads) {
  EXPECT_EQ(Shell(Train(Flags("--metrics=/dev/null"))).exit_code, 0);
  const Outcome piped = Shell(absl::StrCat(Train(Flags("--metrics=/dev/stdout")), " | cat"));
  EXPECT_THAT(piped.output, AllOf(HasSubstr("{\"run\":"), HasSubstr("{\"step\":1,")));
}

}  // namespace
}  // namespace reprise::testing

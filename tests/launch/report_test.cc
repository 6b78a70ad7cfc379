// The report: what it reads, what it warns of, and that nothing in a file can become part of the page.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"
#include "launch/report_data.h"
#include "launch/report_page.h"
#include "launch/report_warnings.h"
#include "tests/launch/small_job.h"

namespace reprise::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

StepMetrics Step(int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.loss = loss;
  m.gradient_norm = 1;
  m.tokens = 100;
  m.step_seconds = 0.5;
  m.peak_device_bytes = m.predicted_peak_device_bytes = 1000;
  return m;
}

ReportData Steps(int64_t count, const std::function<double(int64_t)>& loss) {
  ReportData data;
  for (int64_t step = 1; step <= count; ++step) data.steps.Add(Step(step, loss(step)));
  return data;
}

double Falling(int64_t step) { return 5 - 0.001 * static_cast<double>(step); }

// --- Steps ----------------------------------------------------------------------------------------------------------

TEST(StepSeriesTest, ManyStepsBecomeFewPointsAndLoseNothing) {
  constexpr int64_t kSteps = 10'007;
  StepSeries series;
  for (int64_t step = 1; step <= kSteps; ++step) series.Add(Step(step, static_cast<double>(step)));
  EXPECT_LE(series.points().size(), StepSeries::kMostPoints);
  EXPECT_GE(series.points().size(), StepSeries::kMostPoints / 2);
  const StepPoint total = series.Total();
  EXPECT_EQ(total.steps, kSteps);
  EXPECT_EQ(total.first_step, 1);
  EXPECT_EQ(total.last_step, kSteps);
  EXPECT_DOUBLE_EQ(*total.loss(), (kSteps + 1) / 2.0);
  EXPECT_DOUBLE_EQ(total.seconds, 0.5 * kSteps);
  EXPECT_DOUBLE_EQ(series.MedianTokensPerSecond(), 200);
  int64_t next = 1;
  for (const StepPoint& point : series.points()) {
    EXPECT_EQ(point.first_step, next);
    EXPECT_EQ(point.last_step - point.first_step + 1, point.steps);
    next = point.last_step + 1;
  }
}

TEST(StepSeriesTest, AResumedRunTakesThePlaceOfWhatItRepeats) {
  StepSeries series;
  for (int64_t step = 1; step <= 6; ++step) {
    StepMetrics m = Step(step, 1);
    m.validation_loss = 1;
    series.Add(m);
  }
  for (int64_t step = 4; step <= 5; ++step) series.Add(Step(step, 2));
  EXPECT_EQ(series.Total().steps, 5);
  EXPECT_EQ(series.last().step, 5);
  EXPECT_DOUBLE_EQ(series.Total().loss_sum, 1 + 1 + 1 + 2 + 2);
  EXPECT_EQ(series.validation_losses().size(), 3U);
}

// --- Files ----------------------------------------------------------------------------------------------------------

TEST(ReportDataTest, ReadsWhatARunWrites) {
  ReportData data;
  StepMetrics m = Step(1, 5.5);
  m.validation_loss = 5.25;
  const std::string run =
      JsonObject()
          .Add("ranks", 3)
          .Add("configuration", "memory_budget = 4096\nmodel = \"gpt2\"\n")
          .Add("plan", JsonObject().Add("blocks",
                                        std::vector<JsonObject>{JsonObject().Add("name", "first").Add("keep", "set")}))
          .text();
  const std::string text = absl::StrCat("{\"run\":", run, "}\n", FormatStep(m), "\n", FormatStep(Step(2, NAN)), "\n");
  ASSERT_TRUE(ReadMetricsText(text, "m", &data).ok());
  EXPECT_EQ(data.run.ranks, 3);
  EXPECT_EQ(data.run.Setting("memory_budget"), "4096");
  EXPECT_EQ(data.run.Setting("model"), "gpt2");
  EXPECT_EQ(data.run.Setting("budget"), "");
  ASSERT_EQ(data.run.blocks.size(), 1U);
  EXPECT_EQ(data.run.blocks[0].keep, "set");
  EXPECT_EQ(data.steps.Total().steps, 2);
  EXPECT_EQ(data.steps.Total().not_finite, 1);
  EXPECT_EQ(*data.steps.points()[0].loss(), 5.5);
  EXPECT_FALSE(data.steps.points()[1].loss().has_value());
  EXPECT_THAT(data.steps.validation_losses(), ElementsAre(std::pair<int64_t, double>(1, 5.25)));
}

TEST(ReportDataTest, ALastLineThatWasCutIsLeftOut) {
  ReportData data;
  const std::string line = FormatStep(Step(1, 5));
  ASSERT_TRUE(ReadMetricsText(absl::StrCat(line, "\n", line.substr(0, 20)), "m", &data).ok());
  EXPECT_EQ(data.steps.Total().steps, 1);
}

TEST(ReportDataTest, RefusesWhatIsNoMetricsFile) {
  const auto message = [](const std::string& text) {
    ReportData data;
    const absl::Status status = ReadMetricsText(text, "run.jsonl", &data);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(message(""), HasSubstr("no step"));
  EXPECT_THAT(message("{\"run\":{}}\n"), HasSubstr("no step"));
  EXPECT_THAT(message("hello"), HasSubstr("run.jsonl:1"));
  EXPECT_THAT(message("{\"step\":1}\n[]\n"), HasSubstr("run.jsonl:2"));
  EXPECT_THAT(message("{\"step\":-4}\n"), HasSubstr("run.jsonl:1"));
  EXPECT_THAT(message("{\"step\":\"1\"}\n"), HasSubstr("neither"));
  EXPECT_THAT(message(std::string("\0\xff\n", 3)), HasSubstr("run.jsonl:1"));
}

TEST(ReportDataTest, RefusesWhatIsNoTrace) {
  for (const char* text : {"", "[]", "{}", "{\"traceEvents\":[]}", "{\"traceEvents\":[],\"otherData\":{}}",
                           "{\"traceEvents\":{},\"otherData\":{\"time_by_cause_ns\":{}}}"}) {
    ReportData data;
    const absl::Status status = ReadTraceText(text, "trace.json", &data);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("trace.json"));
    EXPECT_FALSE(data.trace.has_value());
  }
}

TEST(ReportDataTest, ThinsALongMemoryCurveAndKeepsItsPeak) {
  Json json = {{"otherData", {{"time_by_cause_ns", {{"compute", 5}}}}}, {"traceEvents", Json::array()}};
  for (int i = 0; i < 5000; ++i) {
    json["traceEvents"].push_back({{"ph", "C"},
                                   {"name", "device memory by kind"},
                                   {"ts", i},
                                   {"args", {{"state", 10}, {"transient", i == 3333 ? 99 : i % 7}}}});
  }
  ReportData data;
  ASSERT_TRUE(ReadTraceText(json.dump(), "t", &data).ok());
  EXPECT_LE(data.trace->memory.size(), StepSeries::kMostPoints);
  int64_t most = 0;
  for (const ReportMemoryPoint& point : data.trace->memory) {
    int64_t sum = 0;
    for (const int64_t bytes : point.bytes) sum += bytes;
    most = std::max(most, sum);
  }
  EXPECT_EQ(most, 109);
}

// --- Warnings -------------------------------------------------------------------------------------------------------

TEST(ReportWarningsTest, NothingToWarnOf) { EXPECT_THAT(WarningsOf(Steps(100, Falling)), IsEmpty()); }

TEST(ReportWarningsTest, LossThatRises) {
  const auto rising = [](int64_t step) { return 3 + 0.01 * std::abs(static_cast<double>(step) - 50); };
  EXPECT_THAT(WarningsOf(Steps(100, rising)), ElementsAre(HasSubstr("training loss rises")));
  const auto noise = [](int64_t step) { return 3 + 0.01 * static_cast<double>(step * 7 % 5); };
  EXPECT_THAT(WarningsOf(Steps(100, noise)), IsEmpty());
}

TEST(ReportWarningsTest, LossThatIsNoNumber) {
  const auto loss = [](int64_t step) { return step == 60 ? std::numeric_limits<double>::infinity() : Falling(step); };
  EXPECT_THAT(WarningsOf(Steps(100, loss)),
              ElementsAre(AllOf(HasSubstr("1 of 100 steps"), HasSubstr("step 60"), HasSubstr("not a finite"))));
}

TEST(ReportWarningsTest, ValidationLossThatRises) {
  ReportData data = Steps(100, Falling);
  for (const auto& [step, loss] : {std::pair(101, 4.0), std::pair(102, 3.0), std::pair(103, 3.5)}) {
    StepMetrics m = Step(step, 4.8);
    m.validation_loss = loss;
    data.steps.Add(m);
  }
  EXPECT_THAT(WarningsOf(data), ElementsAre(AllOf(HasSubstr("validation loss rises"), HasSubstr("step 102"))));
}

TEST(ReportWarningsTest, MemoryAndTheBudget) {
  ReportData data = Steps(3, Falling);
  data.run.configuration = "memory_budget = 1040\n";
  EXPECT_THAT(WarningsOf(data), ElementsAre(HasSubstr("within 5 % of the budget")));
  data.run.configuration = "memory_budget = 999\n";
  EXPECT_THAT(WarningsOf(data), ElementsAre(HasSubstr("beyond the budget")));
  data.run.configuration = "memory_budget = 2000\n";
  EXPECT_THAT(WarningsOf(data), IsEmpty());
  StepMetrics m = Step(4, 4);
  m.peak_device_bytes = 1001;
  data.steps.Add(m);
  EXPECT_THAT(WarningsOf(data), ElementsAre(HasSubstr("above the predicted")));
}

TEST(ReportWarningsTest, ExposedCommunicationAndTransfer) {
  ReportData data;
  StepMetrics m = Step(1, 5);
  m.exposed_communication_seconds = 0.2;
  m.exposed_transfer_seconds = 0.1;
  data.steps.Add(m);
  EXPECT_THAT(WarningsOf(data), ElementsAre(AllOf(HasSubstr("communication"), HasSubstr("40 %")),
                                            AllOf(HasSubstr("offloaded"), HasSubstr("20 %"))));
}

TEST(ReportWarningsTest, SlowerStepsShortRunsAndWhatTheRunSaid) {
  ReportData data = Steps(90, Falling);
  for (int64_t step = 91; step <= 100; ++step) {
    StepMetrics m = Step(step, 4.8);
    m.step_seconds = 2;
    data.steps.Add(m);
  }
  data.run.configuration = "steps = 300\n";
  data.run.warnings = {"4 threads on a share of 2 cores"};
  EXPECT_THAT(WarningsOf(data),
              ElementsAre(HasSubstr("50 tokens/s"), HasSubstr("step 100 of 300"), HasSubstr("4 threads")));
}

// --- Page -----------------------------------------------------------------------------------------------------------

// Text that would break out of where it stands.
constexpr char kEvil[] = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;";

TEST(ReportPageTest, TextOfFilesIsEscaped) {
  ReportData data = Steps(3, Falling);
  data.run.ranks = data.run.parameters = 1;
  data.run.version = data.run.device = data.run.policy = kEvil;
  data.run.configuration = absl::StrCat("model = \"", kEvil, "\"\n", kEvil, " = ", kEvil, "\n");
  data.run.hosts = data.run.warnings = {kEvil};
  data.run.blocks = {{kEvil, kEvil, kEvil, kEvil}};
  ReportTrace trace;
  trace.source = trace.peak_instruction = kEvil;
  trace.causes = {{kEvil, 5}};
  trace.kinds = {kEvil};
  trace.memory = {{0, {1}}, {1, {2}}};
  data.trace = trace;
  const std::string page = ReportPage(data, "chart_library();");
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror=alert(1)&gt;&amp;amp;"));
  // The three of the page itself.
  size_t scripts = 0;
  for (size_t at = page.find("</script"); at != std::string::npos; at = page.find("</script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 3U);
  EXPECT_EQ(EscapeHtml("<a href=\"x\" title='y'>&</a>"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;&lt;/a&gt;");
}

TEST(ReportPageTest, NeedsNothingFromElsewhere) {
  const std::string page = ReportPage(Steps(3, Falling), "");
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* outside : {"http:", "https:", " src=", " href=", "url(", "@import", "fetch("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(ReportPageTest, ALibraryCannotEndItsElement) {
  EXPECT_THAT(ReportPage(Steps(1, Falling), "x = '</script>';"), HasSubstr("x = '<\\/script>';"));
}

TEST(ReportPageTest, ChartDataIsJsonWithNullsForWhatIsNoNumber) {
  ReportData data = Steps(3, [](int64_t step) { return step == 2 ? NAN : 5.0; });
  const Json json = Json::parse(ReportChartData(data), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["loss"], (Json{5.0, nullptr, 5.0}));
  EXPECT_EQ(json["step"], (Json{1, 2, 3}));
  EXPECT_FALSE(json.contains("memory"));
}

// 30 blocks of a chain that is no transformer, each kept in its own way; no trace, no settings.
TEST(ReportPageTest, AnyChainOfBlocks) {
  ReportData data = Steps(2, Falling);
  const char* const keeps[] = {"everything", "set", "boundary", "nothing"};
  for (int b = 0; b < 30; ++b) {
    data.run.blocks.push_back({absl::StrCat("part ", b, " of a chain"), keeps[b % 4], b % 3 == 0 ? "host" : "device",
                               b % 5 == 0 ? "gathered" : "sharded"});
  }
  data.run.blocks.push_back({"part 30 of a chain", "boundary", "host", "sharded"});
  data.run.blocks.push_back({"part 31 of a chain", "boundary", "host", "sharded"});
  const std::string page = ReportPage(data, "");
  EXPECT_THAT(page, HasSubstr("<td>part 17 of a chain</td><td>set</td><td>device</td><td>sharded</td>"));
  EXPECT_THAT(page, HasSubstr("part 30 of a chain … part 31 of a chain (2 blocks)"));
  EXPECT_THAT(page, HasSubstr("offloaded to the host"));
}

// --- Program --------------------------------------------------------------------------------------------------------

class Report : public SmallJob {
 protected:
  static std::string Command(const std::string& flags) {
    return absl::StrCat(ProgramPath("reprise"), " report ", flags);
  }
  static void Refused(const std::string& command, int code, const std::string& part) {
    const Outcome outcome = Shell(command);
    EXPECT_EQ(outcome.exit_code, code) << command << outcome.errors;
    EXPECT_THAT(ErrorLines(outcome), ElementsAre(HasSubstr(part))) << command;
  }
};

TEST_F(Report, OfARunIsThatOfItsFiles) {
  const std::string files = absl::StrCat("--metrics=", File("m.jsonl"), " --trace=", File("t.json"));
  const Outcome outcome = Shell(TrainOn(2, Flags(absl::StrCat("--steps=3 --checkpoint=all --offload=activations ",
                                                              files, " --report=", File("a.html")))));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr(absl::StrCat("report: ", File("a.html"))));
  const Json trace = Json::parse(Contents(File("t.json")), nullptr, false);
  ASSERT_FALSE(trace.is_discarded());
  EXPECT_EQ(trace["otherData"]["step"], 3);
  EXPECT_EQ(trace["otherData"]["predicted_peak_device_bytes"],
            MetricsOf(File("m.jsonl"), "predicted_peak_device_bytes").at(0));
  const Outcome again = Shell(Command(absl::StrCat(files, " --output=", File("b.html"))));
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  const std::string page = Contents(File("a.html"));
  EXPECT_EQ(page, Contents(File("b.html")));
  EXPECT_THAT(page, AllOf(StartsWith("<!doctype html>"), HasSubstr("Chart.js"), HasSubstr("layer 1"),
                          HasSubstr("exposed gather"), HasSubstr("offloaded to the host")));
  const Outcome short_one = Shell(Command(absl::StrCat("--metrics=", File("m.jsonl"), " --output=", File("c.html"))));
  EXPECT_EQ(short_one.exit_code, 0) << short_one.errors;
  EXPECT_THAT(Contents(File("c.html")), HasSubstr("exposed communication"));
}

TEST_F(Report, OfAPlanThatWasNotRunThereIsATrace) {
  const Outcome outcome = Shell(absl::StrCat(ProgramPath("reprise"), " plan ", kSmallModel,
                                             " --hardware=cpu-2-cores --checkpoint=all --trace=", File("t.json")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const Json trace = Json::parse(Contents(File("t.json")), nullptr, false);
  ASSERT_FALSE(trace.is_discarded());
  EXPECT_EQ(trace["otherData"]["source"], "simulated");
  EXPECT_GT(trace["otherData"]["step_ns"].get<int64_t>(), 0);
  Refused(absl::StrCat(ProgramPath("reprise"), " plan ", kSmallModel, " --trace=", File("text.txt/x")), 2,
          "check the path");
}

TEST_F(Report, BadInput) {
  const std::string output = absl::StrCat(" --output=", File("x.html"));
  Write("bad", "hello\n");
  Write("good", FormatStep(Step(1, 5)) + "\n");
  Refused(Command(""), 2, "--metrics");
  Refused(Command(absl::StrCat("--metrics=", File("good"))), 2, "--output");
  Refused(Command("--metrcs=x"), 2, "'metrics'");
  Refused(Command(absl::StrCat("--metrics=", File("absent"), output)), 3, "absent");
  Refused(Command(absl::StrCat("--metrics=", File("bad"), output)), 3, "bad:1");
  Refused(Command(absl::StrCat("--metrics=", File("good"), " --trace=", File("bad"), output)), 3, "--trace");
  Refused(Command(absl::StrCat("--metrics=", File("good"), " --output=", File("text.txt/x"))), 2, "check the path");
  EXPECT_EQ(Contents(File("x.html")), "");
  EXPECT_THAT(Shell(Command("--help")).output, HasSubstr("--output"));
}

}  // namespace
}  // namespace reprise::testing

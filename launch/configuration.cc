#include "launch/configuration.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "launch/command_line.h"
#include "launch/flags.h"
#include "launch/toml_file.h"
#include "launch/validation.h"

namespace reprise {
namespace {

void AppendFlagHelp(const std::string& name, std::string* text) {
  const std::string value = FlagDefault(name);
  absl::StrAppend(text, absl::StrFormat("  --%-20s %s", name, FlagHelp(name)));
  if (!value.empty()) absl::StrAppend(text, " [", value, "]");
  absl::StrAppend(text, "\n");
}

std::string ReportHelp() {
  std::string text = "reprise report --metrics=FILE [--trace=FILE] --output=FILE\n\n";
  for (const std::string& name : FlagNames(Subcommand::kReport)) AppendFlagHelp(name, &text);
  return text;
}

}  // namespace

absl::StatusOr<TrainConfiguration> Resolve(Subcommand subcommand, absl::Span<const std::string> arguments) {
  ASSIGN_OR_RETURN(const std::vector<Assignment> assignments, ParseArguments(subcommand, arguments));
  ResetFlags();
  std::string file;
  for (const Assignment& assignment : assignments) {
    if (assignment.name == "config") file = assignment.value;
  }
  if (!file.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Assignment> from_file, ReadTomlFile(subcommand, file));
    for (const Assignment& assignment : from_file) RETURN_IF_ERROR(SetFlag(assignment));
  }
  for (const Assignment& assignment : assignments) RETURN_IF_ERROR(SetFlag(assignment));

  TrainConfiguration configuration = ReadFlags();
  RETURN_IF_ERROR(Validate(subcommand, &configuration));
  RETURN_IF_ERROR(RefuseNotBuilt(configuration));
  return configuration;
}

absl::StatusOr<PlanRequest> ResolvePlanRequest(const TrainConfiguration& configuration) {
  PlanRequest request = ReadPlanFlags();
  RETURN_IF_ERROR(ValidatePlan(configuration, request));
  return request;
}

std::string HelpText(Subcommand subcommand) {
  if (subcommand == Subcommand::kReport) return ReportHelp();
  std::string text = subcommand == Subcommand::kTrain
                         ? "launch/run -np R train --data=FILE --steps=N [--flag=value ...]\n"
                         : "reprise plan [--flag=value ...]\n";
  std::string group;
  for (const Setting& setting : Settings()) {
    if (setting.group != group) {
      group = setting.group;
      absl::StrAppend(&text, "\n", group, "\n");
    }
    AppendFlagHelp(setting.name, &text);
  }
  if (subcommand == Subcommand::kPlan) {
    absl::StrAppend(&text, "\nPlan\n");
    for (const char* name : PlanFlags()) AppendFlagHelp(name, &text);
  }
  absl::StrAppend(&text, "\nAnd\n");
  AppendFlagHelp("config", &text);
  absl::StrAppend(&text,
                  absl::StrFormat("  --%-20s %s\n  --%-20s %s\n", "help", "this text", "version", "the version"));
  return text;
}

}  // namespace reprise

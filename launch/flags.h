// The flags of the command line: their names in groups, their types, and the way into a TrainConfiguration.
//
//   for (const Setting& setting : Settings()) std::cout << setting.name << "\n";
//   RETURN_IF_ERROR(SetFlag({"steps", "300", "--steps"}));
//   TrainConfiguration configuration = ReadFlags();
//
// The flags are Abseil's: global state, so one thread at a time.
#ifndef REPRISE_LAUNCH_FLAGS_H_
#define REPRISE_LAUNCH_FLAGS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launch/configuration.h"

namespace reprise {

// One flag that is a member of TrainConfiguration. The order of Settings() is that of --help, ToToml and ToJson.
struct Setting {
  using Member = std::variant<int64_t TrainConfiguration::*, double TrainConfiguration::*,
                              std::string TrainConfiguration::*, std::vector<std::string> TrainConfiguration::*,
                              ByteCount TrainConfiguration::*, MicroBatch TrainConfiguration::*>;
  const char* name;
  const char* group;
  Member member;
};
absl::Span<const Setting> Settings();

// Flags of `plan` that are no settings of the run.
absl::Span<const char* const> PlanFlags();

// Every name that `subcommand` takes, --config included.
std::vector<std::string> FlagNames(Subcommand subcommand);

enum class FlagKind : uint8_t { kInteger, kNumber, kText, kList, kBytes, kCount, kBoolean };
FlagKind KindOf(absl::string_view name);  // of a name in FlagNames
const char* KindWords(FlagKind kind);     // "an integer"
std::string FlagHelp(absl::string_view name);
std::string FlagDefault(absl::string_view name);
std::string FlagValue(absl::string_view name);

// A value for a flag, and how a sentence names the place it came from: "--steps" or "run.toml:3: steps".
struct Assignment {
  std::string name;
  std::string value;
  std::string origin;
};

// InvalidArgument where the text is no value of the flag's type.
absl::Status SetFlag(const Assignment& assignment);
void ResetFlags();  // every flag back to its default

TrainConfiguration ReadFlags();
PlanRequest ReadPlanFlags();

}  // namespace reprise

#endif  // REPRISE_LAUNCH_FLAGS_H_

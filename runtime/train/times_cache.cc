#include "runtime/train/times_cache.h"

#include <xxhash.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "runtime/train/backend.h"

namespace reprise {
namespace {

constexpr int64_t kMostBytes = 16 << 20;
constexpr char kFormat[] = "reprise times 1\n";
constexpr char kEnd[] = "end\n";

std::string KeyOf(const Model& model, const JobOptions& o, const MachineOptions& machine, const std::string& device,
                  int ranks, const Communicator& communicator) {
  const BatchShape shape{o.micro_batch, o.sequence_length, o.dtype, /*training=*/true};
  const std::string program = TraceModel(OneLayerOfEach(model, shape), shape).ToString();
  return absl::StrCat(device, "; ", machine.threads, " threads; ", ranks, " ranks planned, ", communicator.size(),
                      " at work, ", communicator.local_size(), " on a host; ", ShardingName(o.sharding), "; optimizer ",
                      static_cast<int>(o.optimizer.kind), "; program ",
                      absl::Hex(XXH3_64bits(program.data(), program.size()), absl::kZeroPad16), "\n");
}

}  // namespace

std::string TimesCache::PathOf(const std::string& key) const {
  return JoinPath(folder_, absl::StrCat("times-", absl::Hex(XXH3_64bits(key.data(), key.size()), absl::kZeroPad16)));
}

std::optional<MachineTimes> TimesCache::Load(const std::string& key) const {
  if (folder_.empty() || !storage_.Exists(PathOf(key))) return std::nullopt;
  const absl::StatusOr<std::string> text = ReadWholeFile(storage_, PathOf(key), kMostBytes);
  if (!text.ok()) return std::nullopt;
  absl::string_view rest = *text;
  const bool whole =
      absl::ConsumePrefix(&rest, kFormat) && absl::ConsumePrefix(&rest, key) && absl::ConsumeSuffix(&rest, kEnd);
  if (!whole) return std::nullopt;
  absl::StatusOr<MachineTimes> times = MachineTimes::FromText(rest);
  if (!times.ok()) return std::nullopt;
  return *std::move(times);
}

absl::Status TimesCache::Save(const std::string& key, const MachineTimes& times) const {
  if (folder_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(storage_.CreateFolder(folder_));
  return WriteWholeFile(storage_, PathOf(key), absl::StrCat(kFormat, key, times.ToText(), kEnd));
}

absl::StatusOr<MachineTimes> CachedMachineTimes(const TimesCache& cache, const Model& model, const JobOptions& options,
                                                const MachineOptions& machine, int ranks, Communicator& communicator) {
  const bool first = communicator.rank() == 0;
  const absl::StatusOr<const Backend*> backend = FindBackend(machine.device);
  RETURN_IF_ERROR(Agree(communicator, backend.status()));
  const std::string key = KeyOf(model, options, machine, (*backend)->DeviceName(), ranks, communicator);
  std::optional<MachineTimes> known;
  if (first) known = cache.Load(key);
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   AllGatherText(communicator, known.has_value() ? known->ToText() : std::string()));
  if (!texts[0].empty()) return MachineTimes::FromText(texts[0]);
  ASSIGN_OR_RETURN(MachineTimes times, TimeMachine(model, options, machine, ranks, communicator));
  // Only time is lost where the folder can't be written.
  if (first) cache.Save(key, times).IgnoreError();
  return times;
}

}  // namespace reprise

#include "runtime/plan/machine_times.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace reprise {
namespace {

constexpr int64_t kPicosecondsPerNanosecond = 1000;
constexpr char kKernel[] = "kernel ";

// The numbers that are not of a kernel, by name.
std::vector<std::pair<std::string, int64_t*>> NumbersOf(MachineTimes* times) {
  std::vector<std::pair<std::string, int64_t*>> numbers;
  for (const Stream stream : kAllStreams) {
    if (stream == Stream::kCompute) continue;
    const auto s = static_cast<size_t>(stream);
    const std::string name = StreamName(stream);
    numbers.emplace_back(name + "_latency_ns", &times->transfer[s].latency_ns);
    numbers.emplace_back(name + "_picoseconds_per_byte", &times->transfer[s].picoseconds_per_byte);
    numbers.emplace_back(name + "_interference_millionths", &times->interference_millionths[s]);
  }
  numbers.emplace_back("update_picoseconds_per_element", &times->update_picoseconds_per_element);
  numbers.emplace_back("scalars_ns", &times->scalars_ns);
  return numbers;
}

}  // namespace

int64_t TransferTime::Nanoseconds(int64_t bytes) const {
  // 10^13 bytes at the slowest rate that is taken are beyond 64 bits of picoseconds.
  __extension__ using Wide = __int128;
  const Wide picoseconds = static_cast<Wide>(bytes) * picoseconds_per_byte;
  const Wide nanoseconds = latency_ns + (picoseconds + kPicosecondsPerNanosecond - 1) / kPicosecondsPerNanosecond;
  return static_cast<int64_t>(std::min<Wide>(nanoseconds, INT64_MAX));
}

std::string MachineTimes::ToText() const {
  MachineTimes copy = *this;
  std::string text;
  for (const auto& [name, number] : NumbersOf(&copy)) absl::StrAppend(&text, name, " ", *number, "\n");
  for (const auto& [spec, ns] : kernel_ns) absl::StrAppend(&text, kKernel, ns, " ", spec, "\n");
  return text;
}

absl::StatusOr<MachineTimes> MachineTimes::FromText(absl::string_view text) {
  MachineTimes times;
  const std::vector<std::pair<std::string, int64_t*>> numbers = NumbersOf(&times);
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    const bool kernel = words[0] == "kernel" && words.size() == 3;
    const auto found = std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return n.first == words[0]; });
    int64_t value = -1;
    const bool known = kernel || (words.size() == 2 && found != numbers.end());
    if (!known || !absl::SimpleAtoi(words[1], &value) || value < 0) {
      return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" is not a time of this version"));
    }
    if (kernel) {
      times.kernel_ns[std::string(words[2])] = value;
    } else {
      *found->second = value;
    }
  }
  return times;
}

void MachineTimes::TakeSlower(const MachineTimes& other) {
  MachineTimes theirs = other;
  const auto ours = NumbersOf(this);
  const auto numbers = NumbersOf(&theirs);
  for (size_t i = 0; i < ours.size(); ++i) *ours[i].second = std::max(*ours[i].second, *numbers[i].second);
  for (const auto& [spec, ns] : other.kernel_ns) {
    int64_t& mine = kernel_ns[spec];
    mine = std::max(mine, ns);
  }
}

}  // namespace reprise

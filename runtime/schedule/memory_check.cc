#include "runtime/schedule/memory_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/status_macros.h"
#include "runtime/schedule/check_text.h"

namespace reprise {
namespace {

// By stream: the first and the last instruction that uses an item. -1: none.
struct Uses {
  std::array<int32_t, kStreamCount> first = {-1, -1, -1, -1, -1};
  std::array<int32_t, kStreamCount> last = {-1, -1, -1, -1, -1};
  bool any = false;
};

std::vector<Uses> UsesOf(const Schedule& schedule) {
  std::vector<Uses> uses(schedule.items.size());
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    const auto stream = static_cast<size_t>(schedule.instructions[i].stream);
    for (const Access& access : schedule.instructions[i].accesses) {
      Uses& use = uses[static_cast<size_t>(access.item)];
      use.any = true;
      if (use.first[stream] < 0) use.first[stream] = static_cast<int32_t>(i);
      use.last[stream] = static_cast<int32_t>(i);
    }
  }
  return uses;
}

// Who holds which bytes of one memory, as items come and go. Only the last holder of each byte is kept: it comes after
// those before it, so who comes after it comes after them.
class Occupancy {
 public:
  Occupancy(const Schedule& schedule, const HappensBefore& order, const std::vector<Uses>& uses)
      : schedule_(schedule), order_(order), uses_(uses) {}

  absl::Status Take(int32_t index) {
    const Item& item = schedule_.items[static_cast<size_t>(index)];
    if (item.bytes <= 0) return absl::OkStatus();
    const int64_t end = item.offset + item.bytes;
    SplitAt(item.offset);
    SplitAt(end);
    const auto from = holders_.lower_bound(item.offset);
    auto it = from;
    for (; it != holders_.end() && it->first < end; ++it) RETURN_IF_ERROR(CheckHandover(it->second.item, index));
    holders_.erase(from, it);
    holders_[item.offset] = {end, index};
    return absl::OkStatus();
  }

 private:
  struct Holder {
    int64_t end = 0;
    int32_t item = -1;
  };

  void SplitAt(int64_t offset) {
    auto it = holders_.upper_bound(offset);
    if (it == holders_.begin()) return;
    --it;
    if (it->first == offset || it->second.end <= offset) return;
    holders_[offset] = it->second;
    it->second.end = offset;
  }

  absl::Status CheckHandover(int32_t earlier, int32_t later) const {
    const Item& a = schedule_.items[static_cast<size_t>(earlier)];
    const Item& b = schedule_.items[static_cast<size_t>(later)];
    if (a.persistent() || a.last >= b.first) {
      return absl::InternalError(absl::StrCat(NameItem(schedule_, earlier), " and ", NameItem(schedule_, later),
                                              " share bytes and are live at the same time, at tick ",
                                              std::max<int64_t>(b.first, 0)));
    }
    for (const int32_t last : uses_[static_cast<size_t>(earlier)].last) {
      for (const int32_t first : uses_[static_cast<size_t>(later)].first) {
        // Within one instruction the calls come one after the other, and the lifetimes are apart.
        if (last < 0 || first < 0 || last == first || order_(last, first)) continue;
        return absl::InternalError(absl::StrCat(NameInstruction(schedule_, first), " uses ", NameItem(schedule_, later),
                                                ", which takes over bytes of ", NameItem(schedule_, earlier),
                                                " before ", NameInstruction(schedule_, last), " is known to be over"));
      }
    }
    return absl::OkStatus();
  }

  const Schedule& schedule_;
  const HappensBefore& order_;
  const std::vector<Uses>& uses_;
  std::map<int64_t, Holder> holders_;  // by first byte
};

absl::Status CheckBounds(const Schedule& schedule, int32_t index) {
  const Item& item = schedule.items[static_cast<size_t>(index)];
  const bool device = item.memory == Memory::kDevice;
  const int64_t limit = device ? schedule.device_bytes : schedule.host_bytes;
  if (item.offset >= 0 && item.bytes >= 0 && item.offset <= limit && item.bytes <= limit - item.offset) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(NameItem(schedule, index), " of ", item.bytes, " bytes at ", item.offset,
                                          " reaches beyond the ", limit, " bytes of ", device ? "device" : "host",
                                          " memory"));
}

}  // namespace

absl::Status CheckMemory(const Schedule& schedule, const HappensBefore& order) {
  const std::vector<Uses> uses = UsesOf(schedule);
  std::vector<int32_t> by_first;
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    if (!schedule.items[i].persistent() && !uses[i].any) continue;
    by_first.push_back(static_cast<int32_t>(i));
    RETURN_IF_ERROR(CheckBounds(schedule, by_first.back()));
  }
  // Persistent items first: they hold their bytes all the time.
  std::stable_sort(by_first.begin(), by_first.end(), [&](int32_t x, int32_t y) {
    const Item& a = schedule.items[static_cast<size_t>(x)];
    const Item& b = schedule.items[static_cast<size_t>(y)];
    if (a.persistent() != b.persistent()) return a.persistent();
    return !a.persistent() && a.first < b.first;
  });
  std::array<Occupancy, 2> memories = {Occupancy(schedule, order, uses), Occupancy(schedule, order, uses)};
  for (const int32_t i : by_first) {
    RETURN_IF_ERROR(memories[static_cast<size_t>(schedule.items[static_cast<size_t>(i)].memory)].Take(i));
  }
  return absl::OkStatus();
}

}  // namespace reprise

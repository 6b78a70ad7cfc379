// CheckAcrossRanks: schedules of all ranks, run together without data.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/schedule/check_text.h"
#include "runtime/schedule/checker.h"

namespace reprise {
namespace {

bool IsCollective(const Instruction& i) { return i.stream == Stream::kGather || i.stream == Stream::kReduce; }

std::vector<int32_t> OnStream(const Schedule& schedule, Stream stream) {
  std::vector<int32_t> indices;
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    if (schedule.instructions[i].stream == stream) indices.push_back(static_cast<int32_t>(i));
  }
  return indices;
}

absl::Status CompareSequences(const std::vector<const Schedule*>& ranks, Stream stream) {
  const std::vector<int32_t> ours = OnStream(*ranks[0], stream);
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::vector<int32_t> theirs = OnStream(*ranks[rank], stream);
    for (size_t n = 0; n < std::max(ours.size(), theirs.size()); ++n) {
      const auto name = [n](const Schedule& schedule, const std::vector<int32_t>& list) {
        return n < list.size() ? NameInstruction(schedule, list[n]) : std::string("nothing");
      };
      if (n < ours.size() && n < theirs.size()) {
        const Instruction& a = ranks[0]->instructions[static_cast<size_t>(ours[n])];
        const Instruction& b = ranks[rank]->instructions[static_cast<size_t>(theirs[n])];
        if (a.kind == b.kind && a.unit == b.unit && a.count == b.count) continue;
      }
      return absl::InternalError(absl::StrCat("collective ", n, " of stream ", StreamName(stream), " is ",
                                              name(*ranks[0], ours), " on rank 0 and ", name(*ranks[rank], theirs),
                                              " on rank ", rank));
    }
  }
  return absl::OkStatus();
}

// One rank's streams, each at some place of its list.
struct RankState {
  const Schedule* schedule;
  std::array<std::vector<int32_t>, kStreamCount> lists;
  std::array<size_t, kStreamCount> done = {};
  std::vector<bool> over;  // by instruction

  explicit RankState(const Schedule& s) : schedule(&s), over(s.instructions.size(), false) {
    for (const Stream stream : kAllStreams) lists[static_cast<size_t>(stream)] = OnStream(s, stream);
  }
  bool empty(size_t stream) const { return done[stream] == lists[stream].size(); }
  int32_t front(size_t stream) const { return lists[stream][done[stream]]; }
  const Instruction& front_instruction(size_t stream) const {
    return schedule->instructions[static_cast<size_t>(front(stream))];
  }
  bool MayStart(size_t stream) const {
    if (empty(stream)) return false;
    for (const int32_t wait : front_instruction(stream).waits) {
      if (!over[static_cast<size_t>(wait)]) return false;
    }
    return true;
  }
  void FinishFront(size_t stream) {
    over[static_cast<size_t>(front(stream))] = true;
    ++done[stream];
  }
};

// Runs what can run on `stream` of every rank. Whether anything did.
bool Advance(size_t stream, std::vector<RankState>* ranks) {
  bool moved = false;
  for (RankState& rank : *ranks) {
    for (; rank.MayStart(stream) && !IsCollective(rank.front_instruction(stream)); moved = true) {
      rank.FinishFront(stream);
    }
  }
  const auto all_at_collective = [&] {
    for (const RankState& rank : *ranks) {
      if (!rank.MayStart(stream) || !IsCollective(rank.front_instruction(stream))) return false;
    }
    return true;
  };
  for (; all_at_collective(); moved = true) {
    for (RankState& rank : *ranks) rank.FinishFront(stream);
  }
  return moved;
}

}  // namespace

absl::Status CheckAcrossRanks(const std::vector<const Schedule*>& ranks) {
  if (ranks.empty()) return absl::OkStatus();
  for (const Schedule* schedule : ranks) RETURN_IF_ERROR(HappensBefore::Of(*schedule).status());
  for (const Stream stream : {Stream::kGather, Stream::kReduce}) RETURN_IF_ERROR(CompareSequences(ranks, stream));
  std::vector<RankState> states;
  for (const Schedule* schedule : ranks) states.emplace_back(*schedule);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stream = 0; stream < kStreamCount; ++stream) moved = Advance(stream, &states) || moved;
  }
  std::vector<std::string> stuck;
  for (size_t rank = 0; rank < states.size(); ++rank) {
    for (size_t stream = 0; stream < kStreamCount; ++stream) {
      if (states[rank].empty(stream)) continue;
      stuck.push_back(absl::StrCat("rank ", rank, " at ", NameInstruction(*ranks[rank], states[rank].front(stream)),
                                   states[rank].MayStart(stream) ? ", started" : ""));
    }
  }
  if (stuck.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the ranks wait for each other for ever: ", absl::StrJoin(stuck, "; ")));
}

}  // namespace reprise

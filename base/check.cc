#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace reprise {
namespace {

std::atomic<int>& RankSlot() {
  static std::atomic<int> rank{-1};
  return rank;
}

}  // namespace

void SetProcessRank(int rank) { RankSlot().store(rank, std::memory_order_relaxed); }
int ProcessRank() { return RankSlot().load(std::memory_order_relaxed); }

namespace internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << "reprise: " << file << ":" << line << ": ";
  if (const int rank = ProcessRank(); rank >= 0) stream_ << "rank " << rank << ": ";
  stream_ << "broken invariant: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  stream_ << "\n";
  std::fputs(stream_.str().c_str(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace reprise

#include "collectives/operation.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "xxhash.h"

namespace reprise {
namespace {

const char* KindName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "all-gather";
    case CollectiveKind::kReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::kAllReduce:
      return "all-reduce";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

const char* SequenceName(Sequence sequence) { return sequence == Sequence::kGather ? "gather" : "reduce"; }

void CheckPart(int64_t count, int64_t unit_bytes, int ranks, const char* label) {
  REPRISE_CHECK(count >= 0 && count <= std::numeric_limits<int64_t>::max() / unit_bytes / ranks)
      << "a shard of " << count << " units of " << unit_bytes << " bytes for '" << label << "'";
}

}  // namespace

OperationHeader HeaderOf(const Operation& operation) {
  OperationHeader header;
  header.number = operation.number;
  header.bytes = operation.bytes;
  header.kind = operation.kind;
  header.root = operation.root;
  const size_t length = std::strlen(operation.label);
  header.label_hash = XXH3_64bits(operation.label, length);
  std::memcpy(header.label.data(), operation.label, std::min(length, header.label.size() - 1));
  return header;
}

bool Matches(const OperationHeader& a, const OperationHeader& b) {
  return a.number == b.number && a.bytes == b.bytes && a.label_hash == b.label_hash && a.kind == b.kind &&
         a.root == b.root;
}

std::string Describe(const OperationHeader& header) {
  std::string text = KindName(header.kind);
  if (header.kind == CollectiveKind::kBarrier) return text;
  const size_t length = strnlen(header.label.data(), header.label.size());
  absl::StrAppend(&text, " of '", absl::string_view(header.label.data(), length), "' (", header.bytes, " bytes");
  const bool sharded = header.kind == CollectiveKind::kAllGather || header.kind == CollectiveKind::kReduceScatter;
  if (sharded) absl::StrAppend(&text, " a rank");
  if (header.kind == CollectiveKind::kBroadcast) absl::StrAppend(&text, " from rank ", header.root);
  return text + ")";
}

std::string DescribeInSequence(const Operation& operation) {
  return absl::StrCat(Describe(HeaderOf(operation)), ", number ", operation.number, " of the ",
                      SequenceName(operation.sequence), " sequence");
}

absl::Status MismatchError(Sequence sequence, int rank, const OperationHeader& mine, int peer,
                           const OperationHeader& theirs) {
  return absl::AbortedError(absl::StrCat("ranks started different collectives: rank ", rank, " ", Describe(mine),
                                         ", rank ", peer, " ", Describe(theirs), ", both as number ", mine.number,
                                         " of the ", SequenceName(sequence), " sequence"));
}

std::string NameRanks(absl::Span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    absl::StrAppend(&text, ranks[i]);
  }
  return text;
}

absl::Status TooManyPendingError(int rank, const Operation& operation) {
  return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", DescribeInSequence(operation), " would be more than ",
                                             kMaximumPending, " collectives in flight; wait for earlier ones first"));
}

void OperationCommunicator::AllGather(Sequence sequence, const AllGatherArguments& arguments, Completion* done) {
  CheckPart(arguments.shard_bytes, 1, size(), arguments.label);
  Operation operation;
  operation.kind = CollectiveKind::kAllGather;
  operation.sequence = sequence;
  operation.label = arguments.label;
  operation.bytes = arguments.shard_bytes;
  operation.data = arguments.whole;
  operation.done = done;
  Submit(operation);
}

void OperationCommunicator::ReduceScatter(Sequence sequence, const ReduceScatterArguments& arguments,
                                          Completion* done) {
  CheckPart(arguments.shard_elements, sizeof(float), size(), arguments.label);
  Operation operation;
  operation.kind = CollectiveKind::kReduceScatter;
  operation.sequence = sequence;
  operation.label = arguments.label;
  operation.bytes = arguments.shard_elements * static_cast<int64_t>(sizeof(float));
  operation.accumulate = arguments.accumulate;
  operation.whole = arguments.whole;
  operation.shard = arguments.shard;
  operation.done = done;
  Submit(operation);
}

void OperationCommunicator::AllReduce(Sequence sequence, const char* label, absl::Span<double> values,
                                      Completion* done) {
  Operation operation;
  operation.kind = CollectiveKind::kAllReduce;
  operation.sequence = sequence;
  operation.label = label;
  operation.bytes = static_cast<int64_t>(values.size() * sizeof(double));
  operation.data = reinterpret_cast<std::byte*>(values.data());
  operation.done = done;
  Submit(operation);
}

void OperationCommunicator::Broadcast(Sequence sequence, const char* label, absl::Span<std::byte> bytes, int root,
                                      Completion* done) {
  REPRISE_CHECK(root >= 0 && root < size()) << "broadcast of '" << label << "' from rank " << root;
  Operation operation;
  operation.kind = CollectiveKind::kBroadcast;
  operation.sequence = sequence;
  operation.label = label;
  operation.bytes = static_cast<int64_t>(bytes.size());
  operation.root = root;
  operation.data = bytes.data();
  operation.done = done;
  Submit(operation);
}

void OperationCommunicator::Barrier(Sequence sequence, Completion* done) {
  Operation operation;
  operation.sequence = sequence;
  operation.label = "barrier";
  operation.done = done;
  Submit(operation);
}

}  // namespace reprise

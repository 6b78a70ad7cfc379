#include "collectives/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace reprise {
namespace {

// One number of each rank, on every rank.
absl::StatusOr<std::vector<double>> GatherNumber(Communicator& communicator, const char* label, double mine) {
  std::vector<double> values(static_cast<size_t>(communicator.size()), 0.0);
  values[static_cast<size_t>(communicator.rank())] = mine;
  RETURN_IF_ERROR(AllReduce(communicator, label, absl::MakeSpan(values)));
  return values;
}

absl::Span<std::byte> BytesOf(std::string& text) {
  return absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size());
}

}  // namespace

absl::Status Barrier(Communicator& communicator) {
  Completion done;
  communicator.Barrier(Sequence::kGather, &done);
  return done.Wait();
}

absl::Status AllReduce(Communicator& communicator, const char* label, absl::Span<double> values) {
  Completion done;
  communicator.AllReduce(Sequence::kGather, label, values, &done);
  return done.Wait();
}

absl::Status Broadcast(Communicator& communicator, const char* label, absl::Span<std::byte> bytes, int root) {
  Completion done;
  communicator.Broadcast(Sequence::kGather, label, bytes, root, &done);
  return done.Wait();
}

absl::StatusOr<std::vector<std::string>> AllGatherText(Communicator& communicator, const std::string& text) {
  ASSIGN_OR_RETURN(const std::vector<double> lengths,
                   GatherNumber(communicator, "lengths of texts", static_cast<double>(text.size())));
  // Shards are equal, so each text takes the room of the longest.
  const auto room = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string whole(room * lengths.size(), '\0');
  std::copy(text.begin(), text.end(), whole.begin() + static_cast<int64_t>(room) * communicator.rank());
  Completion done;
  communicator.AllGather(Sequence::kGather, {"texts", BytesOf(whole).data(), static_cast<int64_t>(room)}, &done);
  RETURN_IF_ERROR(done.Wait());
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.push_back(whole.substr(rank * room, static_cast<size_t>(lengths[rank])));
  }
  return texts;
}

absl::Status Agree(Communicator& communicator, const absl::Status& status) {
  const absl::StatusOr<std::vector<double>> codes =
      GatherNumber(communicator, "outcomes", static_cast<double>(status.raw_code()));
  // A rank's own error says more than that the others could not be told of it.
  if (!codes.ok()) return status.ok() ? codes.status() : status;
  const auto failed = std::find_if(codes->begin(), codes->end(), [](double code) { return code != 0; });
  if (failed == codes->end()) return absl::OkStatus();
  const int root = static_cast<int>(failed - codes->begin());
  const bool mine = root == communicator.rank();
  const absl::StatusOr<std::vector<double>> lengths =
      GatherNumber(communicator, "length of an error", mine ? static_cast<double>(status.message().size()) : 0.0);
  if (!lengths.ok()) return status.ok() ? lengths.status() : status;
  std::string message(static_cast<size_t>((*lengths)[static_cast<size_t>(root)]), '\0');
  if (mine) message = std::string(status.message());
  const absl::Status told = Broadcast(communicator, "an error", BytesOf(message), root);
  if (!told.ok()) return status.ok() ? told : status;
  return absl::Status(static_cast<absl::StatusCode>(static_cast<int>(*failed)), message);
}

}  // namespace reprise

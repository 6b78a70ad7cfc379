// The `local` backend: ranks as threads of one process, for tests.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "collectives/communicator.h"
#include "collectives/local/hub.h"
#include "collectives/operation.h"

namespace reprise {
namespace {

class LocalCommunicator : public OperationCommunicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~LocalCommunicator() override { hub_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return hub_->size(); }

  std::vector<std::string> hosts() const override {
    std::array<char, 256> name = {};
    if (gethostname(name.data(), name.size() - 1) != 0) return {"localhost"};
    return {name.data()};
  }

  // The hub is shared: each rank carries its part of it.
  int64_t overhead_bytes() const override { return hub_->overhead_bytes() / hub_->size(); }

  [[noreturn]] void Abort(int exit_code) override { std::_Exit(exit_code); }

 protected:
  void Submit(const Operation& operation) override { hub_->Submit(rank_, operation); }

 private:
  const std::shared_ptr<LocalHub> hub_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeLocalCommunicators(int size, const CommunicatorOptions& options) {
  REPRISE_CHECK(size > 0) << "a local communicator of " << size << " ranks";
  const auto hub = std::make_shared<LocalHub>(size, options.deadline_seconds);
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) communicators.push_back(std::make_unique<LocalCommunicator>(hub, rank));
  return communicators;
}

}  // namespace reprise

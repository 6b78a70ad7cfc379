// A communicator of other memory for ranks that already have one: who they are is that one's to say.
//
//   class OnDevices : public OverRanks { ... void Submit(const Operation& operation) override; ... };
#ifndef REPRISE_COLLECTIVES_OVER_RANKS_H_
#define REPRISE_COLLECTIVES_OVER_RANKS_H_

#include <string>
#include <vector>

#include "collectives/operation.h"

namespace reprise {

class OverRanks : public OperationCommunicator {
 public:
  // `ranks` must outlive it.
  explicit OverRanks(Communicator& ranks) : ranks_(ranks) {}

  int rank() const final { return ranks_.rank(); }
  int size() const final { return ranks_.size(); }
  int local_rank() const final { return ranks_.local_rank(); }
  int local_size() const final { return ranks_.local_size(); }
  std::vector<std::string> hosts() const final { return ranks_.hosts(); }
  int64_t overhead_bytes() const final { return ranks_.overhead_bytes() + own_bytes(); }
  void Abort(int exit_code) final { ranks_.Abort(exit_code); }

 protected:
  Communicator& ranks() const { return ranks_; }
  virtual int64_t own_bytes() const = 0;  // that this one holds itself

 private:
  Communicator& ranks_;
};

}  // namespace reprise

#endif  // REPRISE_COLLECTIVES_OVER_RANKS_H_

// The largest micro-batch, sequence length, image or number of layers whose step fits a memory budget.
//
//   ASSIGN_OR_RETURN(int64_t sequences, Maximize("micro_batch", configuration, ranks, kernels));
#ifndef REPRISE_LAUNCH_MAXIMIZE_H_
#define REPRISE_LAUNCH_MAXIMIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "launch/configuration.h"
#include "runtime/tensor/kernel_set.h"

namespace reprise {

// `what` is micro_batch, sequence_length, image_size (in whole patches) or n_layer; the others stay as configured.
// Finds it by doubling and halving: what fits at one size is taken to fit at all smaller ones. Bytes do not depend on
// times, so nothing is measured. Not above `most`, where that is positive. ResourceExhausted where not even one fits.
absl::StatusOr<int64_t> Maximize(const std::string& what, const TrainConfiguration& configuration, int ranks,
                                 KernelSet& kernels, int64_t most = 0);

// The configuration with `what` set to `value`; n_layer is added to --model_config.
absl::StatusOr<TrainConfiguration> WithValue(const TrainConfiguration& configuration, const std::string& what,
                                             int64_t value);

}  // namespace reprise

#endif  // REPRISE_LAUNCH_MAXIMIZE_H_

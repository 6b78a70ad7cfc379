// Machine timing: measures what a plan's time is made of, on the machine at hand, with every rank at work.
//
//   ASSIGN_OR_RETURN(MachineTimes times, TimeMachine(model, options, machine, ranks, communicator));
//
// Kernels are timed on a probe: the model with one layer of each kind, compiled as the job would be, its calls run in
// order (kernel_timing.h). Transfers are timed alone, on the streams and the communicator of the job, and beside
// compute, which tells how much they slow each other where they share cores. Collective: all ranks call it, and all get
// the same times, the slowest of any rank.
#ifndef REPRISE_RUNTIME_TRAIN_MACHINE_TIMING_H_
#define REPRISE_RUNTIME_TRAIN_MACHINE_TIMING_H_

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "runtime/model/block.h"
#include "runtime/plan/machine_times.h"
#include "runtime/train/job_plan.h"
#include "runtime/train/training_job.h"

namespace reprise {

// The model with the first of each kind of layer. Shares the blocks, and so the parameters, of `model`.
Model OneLayerOfEach(const Model& model, const BatchShape& shape);

// `ranks` is the number for which the job is compiled: the communicator's, or that of a job which is only planned.
// Takes memory for the probe, a few seconds, and gives all back. Errors of MakeJobPlan and of the device.
absl::StatusOr<MachineTimes> TimeMachine(const Model& model, const JobOptions& options, const MachineOptions& machine,
                                         int ranks, Communicator& communicator);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_MACHINE_TIMING_H_

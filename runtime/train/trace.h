// The trace of one step: Chrome's trace JSON, for Perfetto (ui.perfetto.dev) or chrome://tracing.
//
//   TraceDetails details = {.program = "reprise 0.1.0", .source = "measured", .step = 300};
//   RETURN_IF_ERROR(WriteWholeFile(storage, "run.json", TraceJson(job->plan(), job->timeline(), details)));
//
// One process for the rank, a thread for each stream; for each instruction one complete event, named after what it does
// ("forward layer 3"), with the instruction's label, its waits, the bytes it moves (or reads and writes) and its
// floating-point operations; an arrow for each wait; two counters, bytes of live device memory by kind, and the highest
// address in use, whose maximum is the predicted peak (memory_curve.h). Time by cause, the predicted peak and what
// `details` say stand under "otherData".
#ifndef REPRISE_RUNTIME_TRAIN_TRACE_H_
#define REPRISE_RUNTIME_TRAIN_TRACE_H_

#include <cstdint>
#include <string>

#include "runtime/schedule/timeline.h"
#include "runtime/train/job_plan.h"

namespace reprise {

struct TraceDetails {
  std::string program = "reprise";
  std::string source = "measured";  // measured, simulated
  int rank = 0;
  int64_t step = 0;  // from 1; 0: none in particular
};

std::string TraceJson(const JobPlan& job, const Timeline& timeline, const TraceDetails& details);

// "forward layer 3", "gather layer 3", "update root", and the micro-batch where there are several.
std::string InstructionName(const JobPlan& job, int32_t instruction);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_TRACE_H_

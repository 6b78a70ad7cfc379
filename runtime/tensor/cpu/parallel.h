// Loops over the threads that a kernel may use.
//
//   ParallelFor(threads, rows, 1, [&](int64_t begin, int64_t end) { for (int64_t r = begin; r < end; ++r) ...; });
#ifndef REPRISE_RUNTIME_TENSOR_CPU_PARALLEL_H_
#define REPRISE_RUNTIME_TENSOR_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

namespace reprise {

// Calls function(begin, end) for at most `threads` ranges that together are [0, count). Every range but the last begins
// and ends at a multiple of `grain` (>= 1), so that a thread has at least one grain of work. With one range it is a
// plain call: no OpenMP. Allocates nothing; the ranges depend on (threads, count, grain) only.
template <typename Function>
void ParallelFor(int threads, int64_t count, int64_t grain, const Function& function) {
  if (count <= 0) return;
  const int64_t grains = (count - 1) / grain + 1;
  const int64_t parts = std::min<int64_t>(threads, grains);
  if (parts <= 1) {
    function(int64_t{0}, count);
    return;
  }
  // Always the same team size: OpenMP ends and starts threads where it changes from loop to loop.
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = grains * part / parts * grain;
    const int64_t end = std::min(count, grains * (part + 1) / parts * grain);
    function(begin, end);
  }
}

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_PARALLEL_H_

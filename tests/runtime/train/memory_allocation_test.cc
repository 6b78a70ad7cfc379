// Nothing is allocated inside a step, by any thread of a rank. malloc and its kin are replaced for the whole test
// program; what oneDNN takes for itself is not counted. Not under sanitizers, which own malloc.
#include <gtest/gtest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/tensor/cpu/library_scope.h"
#include "tests/tools/memory_job.h"
#include "tests/tools/ranks.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
std::array<void*, 24> first_stack;  // of the first allocation counted
int first_depth = 0;

// oneDNN's own, also in the threads that OpenMP lends it.
bool IsLibrary(const std::array<void*, 24>& stack, int depth) {
  for (int i = 0; i < depth; ++i) {
    Dl_info info;
    if (dladdr(stack[static_cast<size_t>(i)], &info) == 0 || info.dli_fname == nullptr) continue;
    if (std::strstr(info.dli_fname, "libdnnl") != nullptr) return true;
  }
  return false;
}

void Count() {
  if (!counting.load(std::memory_order_relaxed) || reprise::LibraryScope::active()) return;
  thread_local bool inside = false;
  if (inside) return;
  inside = true;
  std::array<void*, 24> stack;
  const int depth = backtrace(stack.data(), static_cast<int>(stack.size()));
  if (!IsLibrary(stack, depth) && allocations.fetch_add(1) == 0) {
    first_stack = stack;
    first_depth = depth;
  }
  inside = false;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, size_t bytes);       // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  Count();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  Count();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  Count();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  Count();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace reprise {
namespace {

using ::reprise::testing::FillRandomBatch;
using ::reprise::testing::MemoryJob;
using ::reprise::testing::RunRanks;

void StartCounting() {
  std::array<void*, 1> warm;
  backtrace(warm.data(), 1);  // its first call loads a library
  allocations = 0;
  counting = true;
}

int StopCounting() {
  counting = false;
  if (allocations > 0) backtrace_symbols_fd(first_stack.data(), first_depth, STDERR_FILENO);
  return allocations;
}

struct AllocationCase {
  std::string name;
  MemoryJob job;
  MachineOptions machine;
};

AllocationCase Case(const std::string& name, int ranks, Sharding sharding, const std::string& checkpoint, DType dtype,
                    int threads, bool random_order) {
  AllocationCase c{name, {}, {.threads = threads, .stream_order = {.random = random_order, .seed = 5}}};
  c.job.ranks = ranks;
  c.job.model = {
      .vocab_size = 300, .n_positions = 32, .n_embd = 48, .n_layer = 4, .n_head = 4, .dropout = ranks == 2 ? 0.1 : 0};
  c.job.options.micro_batch = 2;
  c.job.options.sequence_length = 32;
  c.job.options.accumulation = 2;
  c.job.options.dtype = dtype;
  c.job.options.sharding = sharding;
  c.job.options.checkpoint = checkpoint;
  c.job.options.offload_activations = checkpoint != "none";
  return c;
}

std::vector<AllocationCase> Cases() {
  return {
      Case("OneRank", 1, Sharding::kNone, "none", DType::kFloat32, 1, false),
      Case("TwoThreads", 1, Sharding::kFull, "all", DType::kFloat32, 2, false),
      Case("FullOffload", 2, Sharding::kFull, "all", DType::kFloat32, 1, false),
      Case("FullBf16", 3, Sharding::kFull, "every:2", DType::kBFloat16, 1, false),
      Case("Gradients", 2, Sharding::kGradients, "sqrt", DType::kFloat32, 1, false),
      Case("Optimizer", 2, Sharding::kOptimizer, "all", DType::kBFloat16, 1, false),
      Case("None", 2, Sharding::kNone, "every:3", DType::kBFloat16, 1, false),
      Case("RandomOrder", 1, Sharding::kFull, "all", DType::kFloat32, 1, true),
  };
}

class StepAllocationTest : public ::testing::TestWithParam<AllocationCase> {};

TEST_P(StepAllocationTest, NoneInsideAStep) {
  const AllocationCase& c = GetParam();
  const Model model = Gpt2(c.job.model);
  RunRanks(c.job.ranks, [&](Communicator& communicator) {
    auto created = TrainingJob::Create(model, c.job.options, c.machine, communicator);
    ASSERT_TRUE(created.ok()) << created.status();
    TrainingJob& job = **created;
    ASSERT_TRUE(job.SetParameters(RandomParameters(1)).ok());
    const int64_t counted = FillRandomBatch(c.job, 3, job);
    StepInput input{.seed = 1, .step = 0, .learning_rate = 1e-3, .counted_labels = counted};
    for (; input.step < 2; ++input.step) {  // a thread's first wait, and OpenMP's first team, set something up
      ASSERT_TRUE(job.Step(input).ok());
    }
    ASSERT_TRUE(Barrier(communicator).ok());
    if (communicator.rank() == 0) StartCounting();
    ASSERT_TRUE(Barrier(communicator).ok());
    for (; input.step < 5; ++input.step) {
      const bool ok = job.Step(input).ok();
      if (!ok) FAIL() << "step " << input.step;
    }
    // Between the barriers nothing but steps: no rank asserts, and so allocates, while another counts.
    if (!Barrier(communicator).ok()) FAIL();
    if (communicator.rank() == 0) {
      EXPECT_EQ(StopCounting(), 0);
    }
  });
}

std::string CaseName(const ::testing::TestParamInfo<AllocationCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Plans, StepAllocationTest, ::testing::ValuesIn(Cases()), CaseName);

TEST(StepAllocation, TheCounterCounts) {
  StartCounting();
  const std::string text(100, 'x');
  counting = false;
  EXPECT_EQ(text.size(), 100u);
  EXPECT_GT(allocations, 0);
}

}  // namespace
}  // namespace reprise

#endif

// Opens the CUDA part before any test runs, so that its kernels are registered.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/train/backend.h"

namespace reprise {
namespace {

class OpenBackend : public ::testing::Environment {
 public:
  void SetUp() override {
    setenv("REPRISE_TEST_DEVICE", "cuda", 1);
    const absl::StatusOr<const Backend*> backend = FindBackend("cuda");
    ASSERT_TRUE(backend.ok()) << backend.status();
    const absl::Status usable = (*backend)->Check();
    ASSERT_TRUE(usable.ok()) << usable;
  }
};

[[maybe_unused]] const auto* const added = ::testing::AddGlobalTestEnvironment(new OpenBackend);

}  // namespace
}  // namespace reprise

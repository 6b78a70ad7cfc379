// What is said where there is no NCCL, and the real one where it is: it makes an id without a GPU or a driver.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/cuda/nccl.h"

namespace reprise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NcclLibrary, MissingIsOneSentenceWithTheMend) {
  const absl::Status status = IdOfLibrary("libnccl_that_is_not_there.so.2").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("libnccl_that_is_not_there.so.2"),
                                                   HasSubstr("install libnccl2"), HasSubstr("LD_LIBRARY_PATH")));
}

TEST(NcclLibrary, AnotherLibraryIsNotTakenForIt) {
  const absl::Status status = IdOfLibrary("libm.so.6").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("ncclGetVersion"), HasSubstr("install libnccl2")));
}

TEST(NcclLibrary, MakesIdsWithoutADriver) {
  std::string file = "libnccl.so.2";
  if (dlopen(file.c_str(), RTLD_LAZY) == nullptr) file = "/usr/local/cuda/lib/" + file;
  if (dlopen(file.c_str(), RTLD_LAZY) == nullptr) GTEST_SKIP() << "NCCL is not installed (libnccl.so.2)";
  const absl::StatusOr<std::string> first = IdOfLibrary(file);
  ASSERT_EQ(first.status(), absl::OkStatus());
  const absl::StatusOr<std::string> second = IdOfLibrary(file);
  ASSERT_EQ(second.status(), absl::OkStatus());
  EXPECT_EQ(first->size(), 128U);
  EXPECT_NE(*first, *second);
  EXPECT_NE(*first, std::string(128, '\0'));
}

}  // namespace
}  // namespace reprise::testing

#include "tests/tools/mpi_main.h"

#include <cstdio>
#include <memory>

#include "base/check.h"
#include "gtest/gtest.h"

namespace reprise::testing {
namespace {

std::unique_ptr<Communicator>& World() {
  static auto* const world = new std::unique_ptr<Communicator>();
  return *world;
}

}  // namespace

Communicator& MpiWorld() {
  REPRISE_CHECK(World() != nullptr) << "outside RunMpiTests";
  return *World();
}

int RunMpiTests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  CommunicatorOptions options;
  options.deadline_seconds = 60;
  auto world = MakeMpiCommunicator(options);
  if (!world.ok()) {
    std::fprintf(stderr, "reprise: %s\n", std::string(world.status().message()).c_str());
    return 5;
  }
  World() = std::move(*world);
  const bool passed = RUN_ALL_TESTS() == 0;
  const absl::Status all = Agree(MpiWorld(), passed ? absl::OkStatus() : absl::InternalError("tests failed"));
  World().reset();
  return all.ok() ? 0 : 1;
}

}  // namespace reprise::testing

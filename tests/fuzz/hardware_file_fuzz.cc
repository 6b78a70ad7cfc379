// The description of a machine: what is accepted has numbers that the planner can count with.
#include "launch/hardware_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  auto hardware = ReadHardware(WriteInput(TextOf(data, size), ".toml"));
  if (!hardware.ok()) return CheckRefusal(hardware.status(), absl::StatusCode::kInvalidArgument), 0;
  for (const auto& [name, number] : NumbersOf(&*hardware)) REPRISE_CHECK(*number >= 0 && *number <= 1e21) << name;
  (void)EstimateTimes(*hardware, {}, /*ranks=*/8);
  return 0;
}

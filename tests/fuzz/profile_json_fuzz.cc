// A saved profile: what is accepted is written and read as the same.
#include "runtime/plan/profile_json.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  const auto profile = ProfileFromJson(TextOf(data, size));
  if (!profile.ok()) return CheckRefusal(profile.status(), absl::StatusCode::kInvalidArgument), 0;
  const std::string text = ProfileToJson(*profile);
  const auto again = ProfileFromJson(text);
  REPRISE_CHECK(again.ok() && ProfileToJson(*again) == text) << text;
  return 0;
}

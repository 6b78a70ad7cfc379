// The file of --config: what is accepted is written and read as the same settings.
#include "launch/configuration.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  const auto resolve = [](absl::string_view text) {
    return Resolve(Subcommand::kTrain, {"--config=" + WriteInput(text, ".toml")});
  };
  const auto configuration = resolve(TextOf(data, size));
  if (!configuration.ok()) return CheckRefusal(configuration.status(), absl::StatusCode::kInvalidArgument), 0;
  const std::string text = ToToml(*configuration);
  const auto again = resolve(text);
  REPRISE_CHECK(again.ok()) << again.status().ToString() << text;
  REPRISE_CHECK(ToToml(*again) == text) << text;
  REPRISE_CHECK(!ToJson(*configuration).empty());
  return 0;
}

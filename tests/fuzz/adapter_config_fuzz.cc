// PEFT's adapter_config.json: what is read of it is written and read again as it was.
#include "runtime/snapshot/adapter_config.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tools/fault_storage.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  MemoryStorage storage;
  storage.Put("f/adapter_config.json", std::string(TextOf(data, size)));
  const auto config = ReadAdapterConfig(storage, "f");
  if (!config.ok()) return CheckRefusal(config.status(), absl::StatusCode::kDataLoss), 0;
  REPRISE_CHECK(config->options.rank > 0 && config->options.alpha > 0 && !config->options.targets.empty());
  storage.Put("g/adapter_config.json", ToJson(*config));
  const auto again = ReadAdapterConfig(storage, "g");
  REPRISE_CHECK(again.ok()) << again.status().ToString();
  REPRISE_CHECK(again->options.rank == config->options.rank && again->options.alpha == config->options.alpha);
  return 0;
}

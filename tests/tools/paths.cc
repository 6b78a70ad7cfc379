#include "tests/tools/paths.h"

#include <cstdlib>
#include <filesystem>

#include "base/check.h"

namespace reprise::testing {

std::string FixturePath(const std::string& relative) {
  return std::string(REPRISE_SOURCE_DIR) + "/tests/fixtures/" + relative;
}

std::string ProgramPath(const std::string& program) { return std::string(REPRISE_BINARY_DIR) + "/bin/" + program; }

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "reprise-test-XXXXXX").string();
  REPRISE_CHECK(mkdtemp(pattern.data()) != nullptr) << "cannot make a folder like " << pattern;
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace reprise::testing

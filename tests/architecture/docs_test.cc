// Code that the documentation shows is code that is built: each block of C++ stands in an example, word for word.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> CodeOf(const std::string& page) {
  constexpr char kBegin[] = "```cpp\n", kEnd[] = "```\n";
  std::vector<std::string> blocks;
  for (size_t at = page.find(kBegin); at != std::string::npos; at = page.find(kBegin, at)) {
    at += sizeof(kBegin) - 1;
    const size_t end = page.find(kEnd, at);
    blocks.push_back(page.substr(at, end - at));
    at = end;
  }
  return blocks;
}

TEST(Docs, CodeStandsInAnExample) {
  const fs::path root = REPRISE_SOURCE_DIR;
  std::string examples;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "examples")) {
    if (entry.path().extension() == ".cc") examples += Contents(entry.path());
  }
  const std::vector<std::string> blocks = CodeOf(Contents(root / "docs/models.md"));
  ASSERT_FALSE(blocks.empty());
  for (const std::string& block : blocks) {
    EXPECT_NE(examples.find(block), std::string::npos) << "stands in no example:\n" << block;
  }
}

TEST(Docs, AModelFitsInSixtyLines) {
  const std::string model = Contents(fs::path(REPRISE_SOURCE_DIR) / "examples/model/bigram.cc");
  const auto lines = std::count(model.begin(), model.end(), '\n');
  EXPECT_GT(lines, 20);
  EXPECT_LT(lines, 60);
}

}  // namespace
}  // namespace reprise

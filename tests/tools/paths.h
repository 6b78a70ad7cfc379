// Where tests find their fixtures, the built programs and room for files.
//
//   const std::string config = FixturePath("gpt2/config.json");
#ifndef REPRISE_TESTS_TOOLS_PATHS_H_
#define REPRISE_TESTS_TOOLS_PATHS_H_

#include <string>

namespace reprise::testing {

// tests/fixtures/<relative> in the source tree.
std::string FixturePath(const std::string& relative);

// build/bin/<program>.
std::string ProgramPath(const std::string& program);

// A fresh folder that is removed, with what is in it, when the object goes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_PATHS_H_

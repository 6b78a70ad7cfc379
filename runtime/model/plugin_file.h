// A plug-in's file as data: whether it is a whole shared library for this machine, and what its note says. Nothing in
// it is run.
//
//   ASSIGN_OR_RETURN(PluginFile file, PluginFile::Open(path));
//   ASSIGN_OR_RETURN(std::string built_for, file.BuiltFor());
#ifndef REPRISE_RUNTIME_MODEL_PLUGIN_FILE_H_
#define REPRISE_RUNTIME_MODEL_PLUGIN_FILE_H_

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace reprise {

// Move-only; holds the file open. Every error is DataLoss and names the path.
class PluginFile {
 public:
  // Refuses what is no regular file, no ELF shared library of this machine's kind, or shorter than its headers say.
  static absl::StatusOr<PluginFile> Open(const std::string& path);
  ~PluginFile();
  PluginFile(PluginFile&& other) noexcept;
  PluginFile& operator=(PluginFile&&) = delete;

  absl::StatusOr<std::string> BuiltFor() const;  // the text of REPRISE_PLUGIN()'s note
  absl::StatusOr<std::string> Checksum() const;  // of all its bytes

 private:
  PluginFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  absl::Status Refuse(absl::string_view what) const;
  absl::Status CheckHeaders();
  bool Holds(uint64_t offset, uint64_t bytes) const { return offset <= bytes_ && bytes <= bytes_ - offset; }
  absl::Status Read(uint64_t offset, void* to, size_t bytes) const;

  std::string path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
  std::vector<Elf64_Phdr> segments_;
};

// The text of the first note of that name and type in a PT_NOTE segment, up to its NUL; empty where there is none.
std::string FindPluginNote(absl::string_view notes, uint64_t alignment);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_MODEL_PLUGIN_FILE_H_

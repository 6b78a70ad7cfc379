// Storage for tests: in memory, and one that fails the n-th write.
//
//   MemoryStorage memory;
//   memory.Put("data/a.bin", bytes);
//   FaultStorage faulty(&memory);
//   faulty.FailFrom(3);                      // the third write and all later ones fail, as on a full disk
//   EXPECT_FALSE(Save(faulty).ok());
//   EXPECT_FALSE(memory.Exists("model.safetensors"));
#ifndef REPRISE_TESTS_TOOLS_FAULT_STORAGE_H_
#define REPRISE_TESTS_TOOLS_FAULT_STORAGE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/snapshot/storage.h"

namespace reprise::testing {

// Files in memory. One thread at a time. Folders are there as soon as a file in them is, or by CreateFolder.
class MemoryStorage : public Storage {
 public:
  void Put(const std::string& path, std::string bytes) {
    files_[path] = std::make_shared<std::string>(std::move(bytes));
  }
  // Content of a file that must be there.
  const std::string& Get(const std::string& path) const;
  // Paths of all files.
  std::vector<std::string> Paths() const;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<LineStream>> OpenLines(const std::string& path, LineStreamMode mode) override;
  bool Exists(const std::string& path) override;
  bool IsFolder(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status CreateFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;

 private:
  std::map<std::string, std::shared_ptr<std::string>> files_;
  std::set<std::string> folders_;
};

// Passes everything on to another storage, except writes that are to fail. A write is any call that changes something:
// Create, OpenLines, Append, Finish, WriteLine, CreateFolder, Remove, Rename; counted from 1.
class FaultStorage : public Storage {
 public:
  explicit FaultStorage(Storage* base) : base_(base) {}

  void FailFrom(int64_t write) { first_ = write, last_ = std::numeric_limits<int64_t>::max(); }
  void FailOnly(int64_t write) { first_ = last_ = write; }
  int64_t writes() const { return writes_; }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) override { return base_->Open(path); }
  absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<LineStream>> OpenLines(const std::string& path, LineStreamMode mode) override;
  bool Exists(const std::string& path) override { return base_->Exists(path); }
  bool IsFolder(const std::string& path) override { return base_->IsFolder(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override { return base_->List(folder); }
  absl::Status CreateFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;

  // Counts one write to `path`; the error if it is one that fails. For the files this storage opened.
  absl::Status CountWrite(const std::string& path);

 private:
  Storage* const base_;
  int64_t writes_ = 0;
  int64_t first_ = std::numeric_limits<int64_t>::max();
  int64_t last_ = 0;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TOOLS_FAULT_STORAGE_H_

#include "tests/tools/fault_storage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace reprise::testing {
namespace {

class MemoryFile : public RandomAccessFile {
 public:
  MemoryFile(std::string path, std::shared_ptr<const std::string> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)), size_(static_cast<int64_t>(bytes_->size())) {}

  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  absl::Status ReadAt(int64_t offset, absl::Span<std::byte> out) const override {
    const auto wanted = static_cast<int64_t>(out.size());
    if (offset < 0 || offset > size_ || wanted > size_ - offset) {
      return absl::DataLossError(absl::StrCat(path_, " ends at byte ", size_));
    }
    if (wanted > 0) std::memcpy(out.data(), bytes_->data() + offset, out.size());
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const std::shared_ptr<const std::string> bytes_;
  const int64_t size_;
};

class MemoryAtomicFile : public AtomicFile {
 public:
  MemoryAtomicFile(MemoryStorage* storage, std::string path) : storage_(storage), path_(std::move(path)) {}
  absl::Status Append(absl::Span<const std::byte> bytes) override {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    storage_->Put(path_, std::move(bytes_));
    return absl::OkStatus();
  }

 private:
  MemoryStorage* const storage_;
  const std::string path_;
  std::string bytes_;
};

class MemoryLineStream : public LineStream {
 public:
  MemoryLineStream(std::shared_ptr<std::string> bytes, LineStreamMode mode)
      : bytes_(std::move(bytes)), empties_(mode == LineStreamMode::kReplace) {}
  absl::Status WriteLine(absl::string_view line) override {
    if (std::exchange(empties_, false)) bytes_->clear();
    absl::StrAppend(bytes_.get(), line, "\n");
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<std::string> bytes_;
  bool empties_;
};

class FaultAtomicFile : public AtomicFile {
 public:
  FaultAtomicFile(FaultStorage* storage, std::string path, std::unique_ptr<AtomicFile> base)
      : storage_(storage), path_(std::move(path)), base_(std::move(base)) {}
  absl::Status Append(absl::Span<const std::byte> bytes) override {
    RETURN_IF_ERROR(storage_->CountWrite(path_));
    return base_->Append(bytes);
  }
  absl::Status Finish() override {
    RETURN_IF_ERROR(storage_->CountWrite(path_));
    return base_->Finish();
  }

 private:
  FaultStorage* const storage_;
  const std::string path_;
  const std::unique_ptr<AtomicFile> base_;
};

class FaultLineStream : public LineStream {
 public:
  FaultLineStream(FaultStorage* storage, std::string path, std::unique_ptr<LineStream> base)
      : storage_(storage), path_(std::move(path)), base_(std::move(base)) {}
  absl::Status WriteLine(absl::string_view line) override {
    RETURN_IF_ERROR(storage_->CountWrite(path_));
    return base_->WriteLine(line);
  }

 private:
  FaultStorage* const storage_;
  const std::string path_;
  const std::unique_ptr<LineStream> base_;
};

std::string Prefix(const std::string& folder) { return JoinPath(folder, ""); }

}  // namespace

const std::string& MemoryStorage::Get(const std::string& path) const {
  const auto found = files_.find(path);
  REPRISE_CHECK(found != files_.end()) << "no file " << path;
  return *found->second;
}

std::vector<std::string> MemoryStorage::Paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, bytes] : files_) paths.push_back(path);
  return paths;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> MemoryStorage::Open(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) return absl::DataLossError(absl::StrCat("cannot open ", path, ": no such file"));
  return std::make_unique<MemoryFile>(path, found->second);
}

absl::StatusOr<std::unique_ptr<AtomicFile>> MemoryStorage::Create(const std::string& path) {
  return std::make_unique<MemoryAtomicFile>(this, path);
}

absl::StatusOr<std::unique_ptr<LineStream>> MemoryStorage::OpenLines(const std::string& path, LineStreamMode mode) {
  std::shared_ptr<std::string>& bytes = files_[path];
  if (bytes == nullptr) bytes = std::make_shared<std::string>();
  return std::make_unique<MemoryLineStream>(bytes, mode);
}

bool MemoryStorage::Exists(const std::string& path) { return files_.count(path) > 0 || IsFolder(path); }

bool MemoryStorage::IsFolder(const std::string& path) {
  if (folders_.count(path) > 0) return true;
  return std::any_of(files_.begin(), files_.end(),
                     [&](const auto& file) { return absl::StartsWith(file.first, Prefix(path)); });
}

absl::StatusOr<std::vector<std::string>> MemoryStorage::List(const std::string& folder) {
  if (!IsFolder(folder)) return absl::DataLossError(absl::StrCat("cannot list ", folder, ": no such folder"));
  const std::string prefix = Prefix(folder);
  std::set<std::string> names;
  const auto add = [&](const std::string& path) {
    if (path.size() > prefix.size() && absl::StartsWith(path, prefix)) {
      names.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
    }
  };
  for (const auto& [path, bytes] : files_) add(path);
  for (const std::string& path : folders_) add(path);
  return std::vector<std::string>(names.begin(), names.end());
}

absl::Status MemoryStorage::CreateFolder(const std::string& path) {
  folders_.insert(path);
  return absl::OkStatus();
}

absl::Status MemoryStorage::Remove(const std::string& path) {
  files_.erase(path);
  folders_.erase(path);
  return absl::OkStatus();
}

absl::Status MemoryStorage::Rename(const std::string& from, const std::string& to) {
  if (!Exists(from)) return absl::InvalidArgumentError(absl::StrCat("cannot rename ", from, ": no such file"));
  const auto renamed = [&](const std::string& path) -> std::string {
    if (path == from) return to;
    return absl::StartsWith(path, Prefix(from)) ? to + path.substr(from.size()) : path;
  };
  std::map<std::string, std::shared_ptr<std::string>> files;
  for (const auto& [path, bytes] : files_) {
    if (path != to) files[renamed(path)] = bytes;
  }
  std::set<std::string> folders;
  for (const std::string& path : folders_) folders.insert(renamed(path));
  files_ = std::move(files);
  folders_ = std::move(folders);
  return absl::OkStatus();
}

absl::Status FaultStorage::CountWrite(const std::string& path) {
  ++writes_;
  if (writes_ < first_ || writes_ > last_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": write ", writes_, " is made to fail"));
}

absl::StatusOr<std::unique_ptr<AtomicFile>> FaultStorage::Create(const std::string& path) {
  RETURN_IF_ERROR(CountWrite(path));
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, base_->Create(path));
  return std::make_unique<FaultAtomicFile>(this, path, std::move(file));
}

absl::StatusOr<std::unique_ptr<LineStream>> FaultStorage::OpenLines(const std::string& path, LineStreamMode mode) {
  RETURN_IF_ERROR(CountWrite(path));
  ASSIGN_OR_RETURN(std::unique_ptr<LineStream> stream, base_->OpenLines(path, mode));
  return std::make_unique<FaultLineStream>(this, path, std::move(stream));
}

absl::Status FaultStorage::CreateFolder(const std::string& path) {
  RETURN_IF_ERROR(CountWrite(path));
  return base_->CreateFolder(path);
}

absl::Status FaultStorage::Remove(const std::string& path) {
  RETURN_IF_ERROR(CountWrite(path));
  return base_->Remove(path);
}

absl::Status FaultStorage::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(CountWrite(from));
  return base_->Rename(from, to);
}

}  // namespace reprise::testing

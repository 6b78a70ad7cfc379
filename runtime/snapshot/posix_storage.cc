#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/snapshot/storage.h"

namespace reprise {
namespace {

// What the person at the keyboard can do about it.
const char* Mend(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
      return "change its permissions or choose another place";
    case EROFS:
      return "choose a place that can be written";
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another disk";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EISDIR:
      return "name a file, not a folder";
    case ENOTEMPTY:
    case EEXIST:
      return "remove what is there or choose another name";
    default:
      return "check the disk and the path";
  }
}

std::string Sentence(absl::string_view what, const std::string& path, int error) {
  return absl::StrCat("cannot ", what, " ", path, ": ", std::generic_category().message(error), "; ", Mend(error));
}

absl::Status ReadError(absl::string_view what, const std::string& path, int error) {
  return absl::DataLossError(Sentence(what, path, error));
}

absl::Status WriteError(absl::string_view what, const std::string& path, int error) {
  return absl::InvalidArgumentError(Sentence(what, path, error));
}

absl::Status NotRegular(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": not a regular file; name another path"));
}

std::string ParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { Close(); }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Close() { return fd_ < 0 ? 0 : close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// errno of the first failed write, 0 if all is written.
int WriteAll(int fd, const std::byte* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(fd, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return 0;
}

class PosixFile : public RandomAccessFile {
 public:
  PosixFile(std::string path, Descriptor fd, int64_t size) : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }

  absl::Status ReadAt(int64_t offset, absl::Span<std::byte> out) const override {
    const auto wanted = static_cast<int64_t>(out.size());
    if (offset < 0 || offset > size_ || wanted > size_ - offset) return Ended(offset, wanted, size_);
    int64_t done = 0;
    while (done < wanted) {
      const ssize_t count = pread(fd_.get(), out.data() + done, static_cast<size_t>(wanted - done), offset + done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return ReadError("read", path_, errno);
      if (count == 0) {
        struct stat info = {};
        return Ended(offset, wanted, fstat(fd_.get(), &info) == 0 ? info.st_size : offset + done);
      }
      done += count;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Ended(int64_t offset, int64_t wanted, int64_t end) const {
    return absl::DataLossError(absl::StrCat("cannot read ", wanted, " bytes at byte ", offset, " of ", path_,
                                            ": it ends at byte ", end, "; was it cut while in use?"));
  }

  const std::string path_;
  const Descriptor fd_;
  const int64_t size_;
};

// A name beside `path` for a file that is not yet complete; a new one at each call.
std::string TemporaryName(const std::string& path) {
  static std::atomic<int> serial = 0;
  return absl::StrCat(path, ".partial-", getpid(), "-", serial++);
}

// By which a file without a name can be given one.
std::string DescriptorPath(int fd) { return absl::StrCat("/proc/self/fd/", fd); }

// A file without a name in `folder`: it is gone with the process, however that ends. Not ok where the file system has
// no such files, or they could not be named later.
Descriptor OpenNameless(const std::string& folder) {
  Descriptor fd(open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  return fd.ok() && access(DescriptorPath(fd.get()).c_str(), F_OK) == 0 ? std::move(fd) : Descriptor(-1);
}

class PosixAtomicFile : public AtomicFile {
 public:
  // `temporary`: the name that the file has until it is finished; empty for a file without a name.
  PosixAtomicFile(std::string path, std::string temporary, Descriptor fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}
  PosixAtomicFile(const PosixAtomicFile&) = delete;
  PosixAtomicFile& operator=(const PosixAtomicFile&) = delete;
  ~PosixAtomicFile() override {
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    REPRISE_CHECK(fd_.ok()) << path_ << " is finished";
    const int error = WriteAll(fd_.get(), bytes.data(), bytes.size());
    return error == 0 ? absl::OkStatus() : WriteError("write", path_, error);
  }

  absl::Status Finish() override {
    REPRISE_CHECK(fd_.ok()) << path_ << " is finished";
    if (fsync(fd_.get()) != 0) return WriteError("write", path_, errno);
    if (temporary_.empty()) RETURN_IF_ERROR(NameTemporarily());
    if (fd_.Close() != 0) return WriteError("write", path_, errno);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) return WriteError("write", path_, errno);
    temporary_.clear();
    // The new name has to survive a power cut too. Some network file systems cannot sync a folder: not an error.
    const Descriptor folder(open(ParentFolder(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.ok()) fsync(folder.get());
    return absl::OkStatus();
  }

 private:
  // A file gets its first name by a link, and a link replaces nothing; a rename does.
  absl::Status NameTemporarily() {
    const std::string nameless = DescriptorPath(fd_.get());
    for (;;) {
      std::string name = TemporaryName(path_);
      if (linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        temporary_ = std::move(name);
        return absl::OkStatus();
      }
      if (errno != EEXIST) return WriteError("write", path_, errno);
    }
  }

  const std::string path_;
  std::string temporary_;
  Descriptor fd_;
};

class PosixLineStream : public LineStream {
 public:
  // `empties`: what is in the file goes when the first line comes.
  PosixLineStream(std::string path, Descriptor fd, bool empties)
      : path_(std::move(path)), fd_(std::move(fd)), empties_(empties) {}

  absl::Status WriteLine(absl::string_view line) override {
    if (std::exchange(empties_, false) && ftruncate(fd_.get(), 0) != 0) return WriteError("write", path_, errno);
    buffer_.assign(line.data(), line.size());
    buffer_.push_back('\n');
    const int error = WriteAll(fd_.get(), reinterpret_cast<const std::byte*>(buffer_.data()), buffer_.size());
    return error == 0 ? absl::OkStatus() : WriteError("write", path_, error);
  }

 private:
  const std::string path_;
  const Descriptor fd_;
  bool empties_;
  std::string buffer_;
};

class PosixStorageImpl : public Storage {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) override {
    // Non-blocking, so that a pipe is refused below instead of waiting for a writer.
    Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.ok()) return ReadError("open", path, errno);
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0) return ReadError("open", path, errno);
    if (S_ISDIR(info.st_mode)) return ReadError("open", path, EISDIR);
    if (!S_ISREG(info.st_mode)) {
      return absl::DataLossError(absl::StrCat("cannot open ", path, ": not a regular file; copy its content into one"));
    }
    return std::make_unique<PosixFile>(path, std::move(fd), static_cast<int64_t>(info.st_size));
  }

  absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path) override {
    if (IsFolder(path)) return WriteError("write", path, EISDIR);
    // The rename at the end would put a file in the place of a device or a pipe.
    struct stat info = {};
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return NotRegular(path);
    if (Descriptor fd = OpenNameless(ParentFolder(path)); fd.ok()) {
      // A name that is too long must not show at the end only.
      if (lstat(TemporaryName(path).c_str(), &info) != 0 && errno != ENOENT) return WriteError("write", path, errno);
      return std::make_unique<PosixAtomicFile>(path, "", std::move(fd));
    }
    for (;;) {
      std::string temporary = TemporaryName(path);
      Descriptor fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (fd.ok()) return std::make_unique<PosixAtomicFile>(path, std::move(temporary), std::move(fd));
      // A killed process of the same number may have left one behind.
      if (errno != EEXIST) return WriteError("write", path, errno);
    }
  }

  absl::StatusOr<std::unique_ptr<LineStream>> OpenLines(const std::string& path, LineStreamMode mode) override {
    // Non-blocking, so that a pipe that no one reads is refused (ENXIO, which a socket gives too) instead of waited
    // for.
    Descriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
    if (!fd.ok()) return errno == ENXIO ? NotRegular(path) : WriteError("write", path, errno);
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0) return WriteError("write", path, errno);
    if (S_ISBLK(info.st_mode)) return NotRegular(path);
    // A slow reader of a pipe or terminal is waited for.
    if (fcntl(fd.get(), F_SETFL, O_APPEND) != 0) return WriteError("write", path, errno);
    const bool empties = mode == LineStreamMode::kReplace && S_ISREG(info.st_mode);
    return std::make_unique<PosixLineStream>(path, std::move(fd), empties);
  }

  bool Exists(const std::string& path) override { return access(path.c_str(), F_OK) == 0; }

  bool IsFolder(const std::string& path) override {
    struct stat info = {};
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> handle(opendir(folder.c_str()), closedir);
    if (handle == nullptr) return ReadError("list", folder, errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(handle.get());
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return ReadError("list", folder, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status CreateFolder(const std::string& path) override {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      if (mkdir(part.c_str(), 0777) != 0 && !(errno == EEXIST && IsFolder(part))) {
        return WriteError("make folder", part, errno);
      }
      if (end == std::string::npos) return absl::OkStatus();
    }
  }

  absl::Status Remove(const std::string& path) override {
    if (remove(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
    return WriteError("remove", path, errno);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return WriteError("rename", absl::StrCat(from, " to ", to), errno);
  }
};

}  // namespace

Storage& PosixStorage() {
  static PosixStorageImpl storage;
  return storage;
}

}  // namespace reprise

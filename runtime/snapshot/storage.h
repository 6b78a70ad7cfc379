// Storage: the seam to the file system. Model, data, snapshot, export and metrics files go through it, so that a test
// can keep them in memory and fail any write.
//
//   Storage& storage = PosixStorage();
//   ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> in, storage.Open("model.safetensors"));
//   RETURN_IF_ERROR(in->ReadAt(8, header));
//   ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> out, storage.Create("export/config.json"));
//   RETURN_IF_ERROR(out->Append(bytes));
//   RETURN_IF_ERROR(out->Finish());  // only now is there anything under that name
//
// Errors are one sentence with the path, the system's reason and the mend: DataLoss for what is read (exit 3),
// InvalidArgument for what is written, a full disk included (exit 2).
// A Storage may be used by several threads at once, a RandomAccessFile too; the two writers by one thread at a time.
// Files do not outlive the Storage that opened them.
#ifndef REPRISE_RUNTIME_SNAPSHOT_STORAGE_H_
#define REPRISE_RUNTIME_SNAPSHOT_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace reprise {

// A regular file, open for reading.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  virtual const std::string& path() const = 0;
  virtual int64_t size() const = 0;  // bytes, when it was opened

  // Fills all of `out` from byte `offset`. DataLoss where the file ends earlier, also if it was cut since it was
  // opened.
  virtual absl::Status ReadAt(int64_t offset, absl::Span<std::byte> out) const = 0;
};

// A file that appears under its name complete or not at all. Dropped without Finish, it leaves no trace; nor does a
// process that is killed, where the file system has files without names (O_TMPFILE), else it leaves
// NAME.partial-PROCESS-NUMBER.
class AtomicFile {
 public:
  virtual ~AtomicFile() = default;
  virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;

  // Makes the bytes durable and gives the file its name, replacing what had it. Nothing may be called afterwards.
  virtual absl::Status Finish() = 0;
};

// A file that grows by whole lines, for whoever follows along. A pipe that has a reader, or a terminal, will do.
class LineStream {
 public:
  virtual ~LineStream() = default;

  // Adds `line` and a newline in one write; visible to readers on return.
  virtual absl::Status WriteLine(absl::string_view line) = 0;
};

// kReplace: what the file held goes when the first line is written, not before.
enum class LineStreamMode : uint8_t { kReplace, kAppend };

class Storage {
 public:
  virtual ~Storage() = default;
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<LineStream>> OpenLines(const std::string& path, LineStreamMode mode) = 0;

  virtual bool Exists(const std::string& path) = 0;
  virtual bool IsFolder(const std::string& path) = 0;
  // Names (not paths) of what is in the folder, sorted by their bytes.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;

  virtual absl::Status CreateFolder(const std::string& path) = 0;  // with its parents; fine if it is there already
  virtual absl::Status Remove(const std::string& path) = 0;        // a file or an empty folder; fine if there is none
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;  // atomic; replaces a file
};

// The real one.
Storage& PosixStorage();

// The whole of a small file as text. DataLoss if it is longer than `limit_bytes`, nothing being taken before that is
// known, or a Git LFS pointer in place of the file.
absl::StatusOr<std::string> ReadWholeFile(Storage& storage, const std::string& path, int64_t limit_bytes);

// `text` under `path`, complete or not at all.
absl::Status WriteWholeFile(Storage& storage, const std::string& path, absl::string_view text);

// "folder/name", whether or not the folder ends with a slash.
std::string JoinPath(const std::string& folder, absl::string_view name);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_STORAGE_H_

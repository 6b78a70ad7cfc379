#include "runtime/snapshot/storage.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/snapshot/git_lfs.h"

namespace reprise {

absl::StatusOr<std::string> ReadWholeFile(Storage& storage, const std::string& path, int64_t limit_bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, storage.Open(path));
  RETURN_IF_ERROR(RefuseGitLfsPointer(*file));
  if (file->size() > limit_bytes) {
    return absl::DataLossError(absl::StrCat(path, " holds ", file->size(), " bytes where at most ", limit_bytes,
                                            " are expected: check that it is the right file"));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

absl::Status WriteWholeFile(Storage& storage, const std::string& path, absl::string_view text) {
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, storage.Create(path));
  RETURN_IF_ERROR(file->Append(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size())));
  return file->Finish();
}

std::string JoinPath(const std::string& folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", name);
}

}  // namespace reprise

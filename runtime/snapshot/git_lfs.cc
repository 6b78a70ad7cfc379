#include "runtime/snapshot/git_lfs.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

constexpr absl::string_view kFirstWords = "version https://git-lfs.github.com/spec/";
constexpr int64_t kLargestPointerBytes = 1024;  // the specification's: what is larger is data that begins so

}  // namespace

absl::Status RefuseGitLfsPointer(const RandomAccessFile& file) {
  if (file.size() < static_cast<int64_t>(kFirstWords.size()) || file.size() > kLargestPointerBytes) {
    return absl::OkStatus();
  }
  std::array<char, kFirstWords.size()> beginning;
  RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(beginning.data()), beginning.size())));
  if (absl::string_view(beginning.data(), beginning.size()) != kFirstWords) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file.path(),
                                          " is a Git LFS pointer in place of the file itself; install git-lfs and run "
                                          "'git lfs pull' in its folder"));
}

}  // namespace reprise

// A clone without Git LFS holds a few lines of text in place of each large file. It is named, whatever was to be read.
//
//   RETURN_IF_ERROR(RefuseGitLfsPointer(*file));
#ifndef REPRISE_RUNTIME_SNAPSHOT_GIT_LFS_H_
#define REPRISE_RUNTIME_SNAPSHOT_GIT_LFS_H_

#include "absl/status/status.h"
#include "runtime/snapshot/storage.h"

namespace reprise {

// DataLoss, with how to get the file itself, where `file` is such a pointer
// (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
absl::Status RefuseGitLfsPointer(const RandomAccessFile& file);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_SNAPSHOT_GIT_LFS_H_

#include "runtime/model/plugin_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/model/plugin.h"

namespace reprise {
namespace {

constexpr uint64_t kMostNoteBytes = 1 << 20;
constexpr size_t kPieceBytes = 1 << 20;

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "say here which ELF machine this is"
#endif

bool IsSharedLibraryOfThisMachine(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_DYN && header.e_machine == kMachine &&
         header.e_phentsize == sizeof(Elf64_Phdr);
}

uint64_t RoundUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace

absl::Status PluginFile::Refuse(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat("plug-in ", path_, " ", what));
}

absl::StatusOr<PluginFile> PluginFile::Open(const std::string& path) {
  // Not blocked by a pipe that nobody writes.
  PluginFile file(path, open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.descriptor_ < 0) return file.Refuse(absl::StrCat("cannot be opened: ", std::strerror(errno)));
  struct stat info = {};
  if (fstat(file.descriptor_, &info) != 0) return file.Refuse(absl::StrCat("cannot be read: ", std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return file.Refuse("is not a file; give the path of a shared library");
  file.bytes_ = static_cast<uint64_t>(info.st_size);
  RETURN_IF_ERROR(file.CheckHeaders());
  return file;
}

PluginFile::PluginFile(PluginFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      segments_(std::move(other.segments_)) {}

PluginFile::~PluginFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status PluginFile::Read(uint64_t offset, void* to, size_t bytes) const {
  auto* place = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = pread(descriptor_, place, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Refuse(count < 0 ? absl::StrCat("cannot be read: ", std::strerror(errno)) : "is cut short");
    place += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

// The loader maps segments without looking at the file's end: pages beyond it would end the process when touched.
absl::Status PluginFile::CheckHeaders() {
  constexpr char kNoLibrary[] = "is no shared library for this machine; build it with add_library(... MODULE ...)";
  Elf64_Ehdr header = {};
  if (!Holds(0, sizeof(header))) return Refuse(kNoLibrary);
  RETURN_IF_ERROR(Read(0, &header, sizeof(header)));
  if (!IsSharedLibraryOfThisMachine(header)) return Refuse(kNoLibrary);
  if (!Holds(header.e_phoff, sizeof(Elf64_Phdr) * header.e_phnum)) return Refuse("is cut short; copy it again");
  segments_.resize(header.e_phnum);
  RETURN_IF_ERROR(Read(header.e_phoff, segments_.data(), sizeof(Elf64_Phdr) * segments_.size()));
  for (const Elf64_Phdr& segment : segments_) {
    if (!Holds(segment.p_offset, segment.p_filesz)) return Refuse("is cut short; copy it again");
    if (segment.p_type == PT_LOAD && segment.p_filesz > segment.p_memsz) return Refuse(kNoLibrary);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PluginFile::BuiltFor() const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_NOTE) continue;
    std::string notes(std::min<uint64_t>(segment.p_filesz, kMostNoteBytes), '\0');
    RETURN_IF_ERROR(Read(segment.p_offset, notes.data(), notes.size()));
    std::string text = FindPluginNote(notes, segment.p_align);
    if (!text.empty()) return text;
  }
  return Refuse("is a shared library but no plug-in of Reprise; it lacks REPRISE_PLUGIN()");
}

absl::StatusOr<std::string> PluginFile::Checksum() const {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::string piece(kPieceBytes, '\0');
  for (uint64_t offset = 0; offset < bytes_; offset += kPieceBytes) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kPieceBytes, bytes_ - offset));
    RETURN_IF_ERROR(Read(offset, piece.data(), count));
    XXH3_64bits_update(state.get(), piece.data(), count);
  }
  return absl::StrCat(bytes_, " bytes, checksum ", absl::Hex(XXH3_64bits_digest(state.get()), absl::kZeroPad16));
}

std::string FindPluginNote(absl::string_view notes, uint64_t alignment) {
  alignment = alignment == 8 ? 8 : 4;
  const absl::string_view wanted(kPluginNoteName, sizeof(kPluginNoteName));
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header = {};
    std::memcpy(&header, notes.data(), sizeof(header));
    const uint64_t text = RoundUp(sizeof(header) + uint64_t{header.n_namesz}, alignment);
    const uint64_t end = text + header.n_descsz;
    if (end > notes.size()) return "";
    if (header.n_type == kPluginNoteType && notes.substr(sizeof(header), header.n_namesz) == wanted) {
      const absl::string_view padded = notes.substr(text, header.n_descsz);
      return std::string(padded.substr(0, padded.find('\0')));
    }
    notes.remove_prefix(std::min<uint64_t>(RoundUp(end, alignment), notes.size()));
  }
  return "";
}

}  // namespace reprise

// A plug-in's file. The first byte says whether the rest begins with what every ELF shared library of this machine
// begins with; an input by hand could not.
#include <elf.h>

#include <cstring>

#include "runtime/model/plugin_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  using namespace reprise::testing;
  if (size == 0) return 0;
  std::string bytes(TextOf(data + 1, size - 1));
  if ((data[0] & 1) != 0 && bytes.size() >= sizeof(Elf64_Ehdr)) {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phentsize = sizeof(Elf64_Phdr);
    std::memcpy(bytes.data(), &header, sizeof(header));
  }
  const auto file = PluginFile::Open(WriteInput(bytes, ".so"));
  if (!file.ok()) return CheckRefusal(file.status(), absl::StatusCode::kDataLoss), 0;
  const auto built_for = file->BuiltFor();
  if (!built_for.ok()) CheckRefusal(built_for.status(), absl::StatusCode::kDataLoss);
  REPRISE_CHECK(file->Checksum().ok());
  return 0;
}

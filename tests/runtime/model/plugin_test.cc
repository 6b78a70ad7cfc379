// Plug-ins as files: what is refused before it is loaded, in one sentence, and that nothing of it runs.
#include "runtime/model/plugin.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/model/plugin_file.h"
#include "runtime/model/registry.h"
#include "tests/tools/paths.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

std::string PathOf(const std::string& name) { return absl::StrCat(REPRISE_BINARY_DIR, "/plugins/", name, ".so"); }

std::string Contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void ExpectRefused(const std::string& path, const std::string& words) {
  const auto loaded = LoadPlugin(path);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << path;
  EXPECT_THAT(loaded.status().message(), HasSubstr(words)) << path;
  EXPECT_THAT(loaded.status().message(), HasSubstr(path));
}

class SpoiltPlugin : public ::testing::Test {
 protected:
  std::string Write(const std::string& bytes) const {
    const std::string path = folder_.File(absl::StrCat("spoilt", number_++, ".so"));
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  testing::TemporaryFolder folder_;
  mutable int number_ = 0;
};

TEST(Plugin, BringsItsModelAndIsLoadedOnce) {
  EXPECT_EQ(FindModel("bigram"), nullptr);
  const auto first = LoadPlugin(PathOf("bigram"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE(FindModel("bigram"), nullptr);
  const auto again = LoadPlugin(PathOf("../plugins/bigram"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*first, *again);
  ExpectRefused(PathOf("second_bigram"), "registers model bigram, which Reprise or another plug-in has already");
}

TEST(Plugin, FilesThatAreNone) {
  ExpectRefused("/nowhere/at/all.so", "cannot be opened: No such file or directory");
  ExpectRefused("/tmp", "is not a file");
  ExpectRefused("/dev/null", "is not a file");
  ExpectRefused(PathOf("no_note"), "lacks REPRISE_PLUGIN()");
  ExpectRefused(PathOf("other_version"), "was built for reprise 0.0.1");
  ExpectRefused(PathOf("missing_symbol"), "NobodyHasThis");
  ExpectRefused(PathOf("taken_model"), "registers model gpt2");
  ExpectRefused(PathOf("taken_operation"), "registers operation add");
}

TEST_F(SpoiltPlugin, OneThatIsCutShortIsNeverLoaded) {
  const std::string whole = Contents(PathOf("mixer"));
  ASSERT_GT(whole.size(), size_t{4096});
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof(header));
  uint64_t end = 0;  // what stands behind the last segment is not loaded
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, whole.data() + header.e_phoff + static_cast<uint64_t>(i) * sizeof(segment), sizeof(segment));
    end = std::max<uint64_t>(end, segment.p_offset + segment.p_filesz);
  }
  for (size_t bytes = 0; bytes < end; bytes += bytes < 2048 ? 7 : 1021) {
    const auto loaded = LoadPlugin(Write(whole.substr(0, bytes)));
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << bytes;
  }
}

TEST_F(SpoiltPlugin, HeadersThatPointAnywhere) {
  const std::string whole = Contents(PathOf("mixer"));
  const auto with = [&](size_t place, auto value) {
    std::string spoilt = whole;
    std::memcpy(spoilt.data() + place, &value, sizeof(value));
    return Write(spoilt);
  };
  ExpectRefused(Write("#!/bin/sh\necho no library\n"), "is no shared library");
  ExpectRefused(Write(std::string(100000, '\x7f')), "is no shared library");
  ExpectRefused(with(EI_CLASS, char{ELFCLASS32}), "is no shared library");
  ExpectRefused(with(offsetof(Elf64_Ehdr, e_machine), Elf64_Half{EM_MIPS}), "is no shared library");
  ExpectRefused(with(offsetof(Elf64_Ehdr, e_type), Elf64_Half{ET_EXEC}), "is no shared library");
  ExpectRefused(with(offsetof(Elf64_Ehdr, e_phoff), ~Elf64_Off{0} - 7), "is cut short");
  ExpectRefused(with(offsetof(Elf64_Ehdr, e_phnum), Elf64_Half{0xffff}), "is cut short");
  ExpectRefused(with(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_offset), ~Elf64_Off{0} - 7), "is cut short");
  ExpectRefused(with(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), ~Elf64_Xword{0}), "is cut short");
}

std::string Note(uint32_t name_bytes, uint32_t text_bytes, uint32_t type, const std::string& rest) {
  const uint32_t words[] = {name_bytes, text_bytes, type};
  std::string note(sizeof(words), '\0');
  std::memcpy(note.data(), words, sizeof(words));
  return note + rest;
}

TEST(PluginNote, IsFoundBehindOthersAndNeverReadBeyondItsEnd) {
  const std::string name("Reprise\0", 8);
  const std::string other = Note(4, 5, 3, std::string("GNU\0hello\0\0\0", 12));
  const std::string ours = Note(8, 5, 1, name + std::string("1.0\0\0\0\0\0", 8));
  EXPECT_EQ(FindPluginNote(ours, 4), "1.0");
  EXPECT_EQ(FindPluginNote(other + ours, 4), "1.0");
  EXPECT_EQ(FindPluginNote(other, 4), "");
  EXPECT_EQ(FindPluginNote(Note(8, 5, 2, name + "1.0"), 4), "");  // another type
  EXPECT_EQ(FindPluginNote(Note(8, 9, 1, name + "1.0"), 4), "");
  EXPECT_EQ(FindPluginNote(Note(0xffffffff, 0xffffffff, 1, name), 4), "");
  EXPECT_EQ(FindPluginNote(Note(0xffffffff, 0xffffffff, 1, name), 8), "");
  for (size_t bytes = 0; bytes < ours.size() - 3; ++bytes) EXPECT_EQ(FindPluginNote(ours.substr(0, bytes), 4), "");
}

}  // namespace
}  // namespace reprise

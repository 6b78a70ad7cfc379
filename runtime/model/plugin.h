// Plug-ins: shared libraries that bring models (registry.h) and operations of one's own to a program that was built
// without them. Part of the public API.
//
//   // bigram.cc, made into libbigram.so
//   #include "reprise/model.h"
//   ...
//   REPRISE_REGISTER_MODEL("bigram", BuildBigram);
//   REPRISE_PLUGIN();                              // once in each library
//
//   $ reprise train --plugin=./libbigram.so --model=bigram ...
//
// REPRISE_PLUGIN() leaves a note in the file that says which Reprise it was built for. The note is read, and the file
// checked, before the library is loaded: code built for another version never runs.
#ifndef REPRISE_RUNTIME_MODEL_PLUGIN_H_
#define REPRISE_RUNTIME_MODEL_PLUGIN_H_

#include <cstdint>
#include <string>

#include "absl/base/config.h"
#include "absl/status/statusor.h"
#include "reprise/version.h"

// What must be equal between a plug-in and the library: version, public headers, and the ABI of what they speak in.
#define REPRISE_TEXT_OF(value) #value
#define REPRISE_VALUE_TEXT(value) REPRISE_TEXT_OF(value)
#ifdef _GLIBCXX_USE_CXX11_ABI
#define REPRISE_LIBRARY_ABI "libstdc++ cxx11=" REPRISE_VALUE_TEXT(_GLIBCXX_USE_CXX11_ABI)
#else
#define REPRISE_LIBRARY_ABI "another C++ library than libstdc++"
#endif
#define REPRISE_ABI                                       \
  "reprise " REPRISE_VERSION " (headers " REPRISE_HEADERS \
  ", Abseil " REPRISE_VALUE_TEXT(ABSL_LTS_RELEASE_VERSION) ", " REPRISE_LIBRARY_ABI ")"

namespace reprise {

// An ELF note (System V ABI, "Note Section"): name and text, each padded to 4 bytes.
inline constexpr char kPluginNoteName[8] = "Reprise";
inline constexpr uint32_t kPluginNoteType = 1;

struct PluginNote {
  uint32_t name_bytes;
  uint32_t text_bytes;
  uint32_t type;
  char name[8];
  char text[256];  // up to its NUL
};

// Loads the plug-in at `path`, for good, and returns a checksum of the file, to compare between ranks. One that was
// loaded before is not loaded again. DataLoss, in one sentence, for a file that cannot be read, is no whole shared
// library for this machine, has no note, was built for another version, lacks symbols, or registers a name that is
// taken; after the last of these some of its other names may be registered. For one thread, before models are built.
absl::StatusOr<std::string> LoadPlugin(const std::string& path);

}  // namespace reprise

#define REPRISE_PLUGIN() REPRISE_PLUGIN_FOR(REPRISE_ABI)
#define REPRISE_PLUGIN_FOR(abi)                                                                                       \
  extern "C" {                                                                                                        \
  extern const ::reprise::PluginNote reprise_plugin_note;                                                             \
  [[gnu::used, gnu::section(".note.reprise"), gnu::aligned(4)]] const ::reprise::PluginNote reprise_plugin_note = {   \
      sizeof(::reprise::kPluginNoteName), sizeof(::reprise::PluginNote::text), ::reprise::kPluginNoteType, "Reprise", \
      abi};                                                                                                           \
  }                                                                                                                   \
  static_assert(sizeof(abi) <= sizeof(::reprise::PluginNote::text))

#endif  // REPRISE_RUNTIME_MODEL_PLUGIN_H_

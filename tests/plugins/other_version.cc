// A plug-in that was built for another version. Its code must not run: it may expect anything.
#include <cstdlib>

#include "runtime/model/plugin.h"

namespace {

[[gnu::constructor]] void Run() { std::_Exit(77); }

}  // namespace

REPRISE_PLUGIN_FOR("reprise 0.0.1 (headers 0, Abseil 0, libstdc++ cxx11=1)");

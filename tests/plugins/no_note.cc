// A shared library that is no plug-in, and says so if its code is run.
#include <cstdlib>

namespace {

[[gnu::constructor]] void Run() { std::_Exit(77); }

}  // namespace

// A plug-in that needs a function that nobody has.
#include "runtime/model/plugin.h"

namespace reprise_test {

int NobodyHasThis();

}  // namespace reprise_test

[[maybe_unused]] extern const int kNeeded;
const int kNeeded = reprise_test::NobodyHasThis();

REPRISE_PLUGIN();

#include "base/registration.h"

#include "base/check.h"

namespace reprise {
namespace {

RegistrationScope*& Current() {
  static RegistrationScope* current = nullptr;
  return current;
}

}  // namespace

RegistrationScope::RegistrationScope() {
  REPRISE_CHECK(Current() == nullptr) << "one plug-in is loaded at a time";
  Current() = this;
}

RegistrationScope::~RegistrationScope() { Current() = nullptr; }

bool AcceptRegistration(bool is_new, const std::string& what) {
  if (is_new) return true;
  REPRISE_CHECK(Current() != nullptr) << what << " is registered twice";
  Current()->refusals_.push_back(what);
  return false;
}

}  // namespace reprise

#include "runtime/tensor/operation.h"

#include <map>
#include <utility>

#include "base/check.h"
#include "base/registration.h"

namespace reprise {
namespace {

std::map<std::string, Operation>& Registry() {
  static auto* registry = new std::map<std::string, Operation>();
  return *registry;
}

}  // namespace

bool RegisterOperation(Operation operation) {
  const std::string name = operation.name;
  return AcceptRegistration(Registry().emplace(name, std::move(operation)).second, "operation " + name);
}

const Operation& GetOperation(const std::string& name) {
  const auto it = Registry().find(name);
  REPRISE_CHECK(it != Registry().end()) << "no operation " << name;
  return it->second;
}

}  // namespace reprise

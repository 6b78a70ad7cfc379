#include "runtime/model/registry.h"

#include <map>
#include <utility>

#include "base/registration.h"

namespace reprise {
namespace {

std::map<std::string, ModelEntry>& Registry() {
  static auto* registry = new std::map<std::string, ModelEntry>();
  return *registry;
}

}  // namespace

bool RegisterModel(const std::string& name, ModelBuilder build, const std::string& architecture) {
  const bool is_new = Registry().emplace(name, ModelEntry{std::move(build), architecture}).second;
  return AcceptRegistration(is_new, "model " + name);
}

const ModelEntry* FindModel(const std::string& name) {
  const auto found = Registry().find(name);
  return found == Registry().end() ? nullptr : &found->second;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : Registry()) names.push_back(name);
  return names;
}

}  // namespace reprise

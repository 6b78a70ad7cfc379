#include "runtime/tensor/attributes.h"

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace reprise {

Attributes& Attributes::Set(const std::string& name, int64_t value) {
  values_[name] = value;
  return *this;
}

Attributes& Attributes::Set(const std::string& name, double value) {
  values_[name] = value;
  return *this;
}

int64_t Attributes::Int(const std::string& name) const {
  const auto it = values_.find(name);
  REPRISE_CHECK(it != values_.end() && std::holds_alternative<int64_t>(it->second)) << "no integer attribute " << name;
  return std::get<int64_t>(it->second);
}

double Attributes::Real(const std::string& name) const {
  const auto it = values_.find(name);
  REPRISE_CHECK(it != values_.end() && std::holds_alternative<double>(it->second)) << "no real attribute " << name;
  return std::get<double>(it->second);
}

std::string Attributes::ToString() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    if (!text.empty()) text += ' ';
    text += name + '=';
    text += std::holds_alternative<int64_t>(value) ? absl::StrFormat("%d", std::get<int64_t>(value))
                                                   : absl::StrFormat("%.17g", std::get<double>(value));
  }
  return text;
}

}  // namespace reprise

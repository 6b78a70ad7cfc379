// Attributes: the constants of an operation, by name. Two nodes with equal types and attributes share one kernel.
//
//   Attributes a = Attributes().Set("heads", 12).Set("dropout", 0.1);
//   a.Int("heads");          // 12; a missing name or another type is a broken invariant
#ifndef REPRISE_RUNTIME_TENSOR_ATTRIBUTES_H_
#define REPRISE_RUNTIME_TENSOR_ATTRIBUTES_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace reprise {

class Attributes {
 public:
  Attributes& Set(const std::string& name, int64_t value);
  Attributes& Set(const std::string& name, int value) { return Set(name, static_cast<int64_t>(value)); }
  Attributes& Set(const std::string& name, double value);

  int64_t Int(const std::string& name) const;
  double Real(const std::string& name) const;
  bool Has(const std::string& name) const { return values_.count(name) != 0; }
  std::string ToString() const;  // "dropout=0.1 heads=12", exact: equal strings mean equal attributes

  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::map<std::string, std::variant<int64_t, double>> values_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_ATTRIBUTES_H_

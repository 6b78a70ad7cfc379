#include "runtime/tensor/operations/rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace reprise {

void CheckTypes(const char* operation, const OperationTypes& types, bool fit) {
  if (fit) return;
  std::string given;
  for (const TensorType& type : types) absl::StrAppend(&given, " ", type.ToString());
  REPRISE_CHECK(fit) << "operation " << operation << " cannot take" << given;
}

bool IsFloatMatrix(const TensorType& type) { return type.dtype != DType::kInt32 && type.shape.size() == 2; }

bool IsRowOf(const TensorType& vector, const TensorType& matrix) {
  return vector.dtype == matrix.dtype && vector.shape == Shape{matrix.columns()};
}

}  // namespace reprise

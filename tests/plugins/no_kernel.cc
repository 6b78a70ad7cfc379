// A plug-in whose model uses an operation that has no kernel.
#include <memory>

#include "runtime/graph/gradient.h"
#include "runtime/model/plugin.h"
#include "runtime/model/registry.h"
#include "runtime/tensor/operation.h"

namespace {

using namespace reprise;

const bool kOperation =
    RegisterOperation({.name = "unmade", .infer = [](const OperationTypes& in, const Attributes& /*a*/) {
                         return OperationTypes{in[0]};
                       }});
const bool kGradient = RegisterGradient("unmade", [](GradientBuilder& builder, const Node& node) {
  builder.Add(node.inputs[0], builder.Of(node.outputs[0]));
});

class Table : public Block {
 public:
  Table() : Block("table") {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& /*boundary*/) const override {
    return Apply("unmade", {Embedding(t.Tokens(), t.Get(rows_), t.sequence_length())});
  }
  const Parameter& rows() const { return rows_; }

 private:
  Parameter rows_{*this, "rows", {256, 8}, Initializer::Normal(1)};
};

class Head : public Block {
 public:
  explicit Head(std::shared_ptr<const Table> table) : Block("head"), table_(std::move(table)) {}
  std::vector<Tensor> Forward(BlockTrace& t, const std::vector<Tensor>& boundary) const override {
    return {LinearCrossEntropy(boundary[0], t.Get(table_->rows()), t.Labels())};
  }

 private:
  std::shared_ptr<const Table> table_;
};

absl::StatusOr<ModelSource> Build(ModelConfig& /*config*/, const ModelOptions& /*options*/) {
  const auto table = std::make_shared<Table>();
  return ModelSource{{.name = "unmade", .blocks = {table, std::make_shared<Head>(table)}, .vocabulary = 256}};
}

}  // namespace

REPRISE_REGISTER_MODEL("unmade", Build);
REPRISE_PLUGIN();

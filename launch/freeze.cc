#include "launch/freeze.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/model/program.h"

namespace reprise {
namespace {

// Each once.
std::vector<const Parameter*> ParametersOf(const Model& model) {
  std::vector<const Parameter*> parameters;
  const Program program = TraceModel(model, {.sequences = 1, .sequence_length = 1, .training = false});
  for (const ProgramBlock& block : program.blocks) {
    for (const Parameter* parameter : block.parameters) {
      if (std::find(parameters.begin(), parameters.end(), parameter) == parameters.end()) {
        parameters.push_back(parameter);
      }
    }
  }
  return parameters;
}

}  // namespace

absl::Status Freeze(const std::string& expression, Model* model) {
  if (expression.empty()) return absl::OkStatus();
  RE2::Options options;
  options.set_log_errors(false);
  const auto pattern = std::make_shared<RE2>(expression, options);
  if (!pattern->ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("freeze=\"", expression, "\" is not a regular expression: ", pattern->error()));
  }
  const auto matches = [pattern](const Parameter& p) { return RE2::PartialMatch(p.name(), *pattern); };
  const std::vector<const Parameter*> parameters = ParametersOf(*model);
  const auto is_trained = [&](const Parameter* p) { return !model->trained || model->trained(*p); };
  bool any_matches = false;
  bool any_trained = false;
  for (const Parameter* p : parameters) {
    any_matches |= matches(*p);
    any_trained |= is_trained(p) && !matches(*p);
  }
  if (!any_matches) {
    return absl::InvalidArgumentError(absl::StrCat("freeze=\"", expression, "\" matches no parameter of ", model->name,
                                                   "; the first is called ", parameters.front()->name()));
  }
  if (!any_trained) {
    return absl::InvalidArgumentError(
        absl::StrCat("freeze=\"", expression, "\" leaves no parameter of ", model->name, " to train; freeze fewer"));
  }
  model->trained = [before = std::move(model->trained), matches](const Parameter& p) {
    return (!before || before(p)) && !matches(p);
  };
  return absl::OkStatus();
}

}  // namespace reprise

#include "runtime/plan/by_hand.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/bytes.h"
#include "base/status_macros.h"

namespace reprise {
namespace {

Plan Every(const HandPlan& request, int64_t segment_layers) {
  Plan plan;
  plan.policy = request.policy;
  plan.prefetch = request.prefetch;
  plan.layers.resize(static_cast<size_t>(request.layers));
  for (int64_t i = 0; i < request.layers; ++i) {
    LayerPlan& layer = plan.layers[static_cast<size_t>(i)];
    layer.keep = Keep::kBoundary;
    layer.starts_segment = i % segment_layers == 0;
  }
  return plan;
}

// By layer: whether the boundary before it is retained.
std::vector<bool> Retained(const HandPlan& request, const Plan& plan) {
  std::vector<bool> retained;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    retained.push_back(layer.keep == Keep::kBoundary ? layer.starts_segment
                                                     : layer.keep == Keep::kSet && request.selective[i].reads_boundary);
  }
  return retained;
}

// The last boundary stays: backward wants it at once.
absl::Status Offload(const HandPlan& request, Plan* plan) {
  const std::vector<bool> retained = Retained(request, *plan);
  int64_t wanted = std::max<int64_t>(std::count(retained.begin(), retained.end(), true) - 1, 0);
  if (request.host_budget_bytes >= 0 && request.boundary_bytes > 0) {
    const int64_t held = request.host_budget_bytes / request.boundary_bytes;
    if (held == 0 && wanted > 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "host_budget=", FormatBytes(request.host_budget_bytes), " does not hold one boundary of ",
          FormatBytes(request.boundary_bytes), "; raise it to at least ", request.boundary_bytes, " bytes"));
    }
    wanted = std::min(wanted, held);
  }
  for (size_t i = 0; i < retained.size() && wanted > 0; ++i) {
    plan->layers[i].offload_boundary = retained[i];
    if (retained[i]) --wanted;
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> Make(const HandPlan& request, int64_t segment_layers) {
  Plan plan = Every(request, segment_layers);
  if (request.offload_activations) RETURN_IF_ERROR(Offload(request, &plan));
  return plan;
}

absl::StatusOr<Plan> Selective(const HandPlan& request) {
  Plan plan = Every(request, 1);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const int32_t set = request.selective[i].set;
    plan.layers[i].keep = set < 0 ? Keep::kEverything : Keep::kSet;
    plan.layers[i].set = set;
  }
  if (!request.offload_activations) return plan;
  const std::vector<bool> retained = Retained(request, plan);
  if (!plan.layers.empty() && std::count(retained.begin(), retained.end(), true) == 0) {
    return absl::InvalidArgumentError(
        "offload=activations moves retained checkpoints, and checkpoint=selective retains none of this model; leave "
        "offload out, or choose all, every:K or sqrt");
  }
  RETURN_IF_ERROR(Offload(request, &plan));
  return plan;
}

absl::StatusOr<Plan> Sqrt(const HandPlan& request, const PeakOf& peak_of) {
  Plan best;
  int64_t best_peak = INT64_MAX;
  for (int64_t k = 1; k <= request.layers; ++k) {
    ASSIGN_OR_RETURN(Plan plan, Make(request, k));
    ASSIGN_OR_RETURN(const int64_t peak, peak_of(plan));
    if (peak < best_peak) {
      best_peak = peak;
      best = plan;
    }
  }
  return best;
}

absl::StatusOr<Plan> WithBackward(const HandPlan& request, const PeakOf& peak_of) {
  absl::string_view policy = request.policy;
  if (policy == "none") {
    if (request.offload_activations) {
      return absl::InvalidArgumentError(
          "offload=activations moves retained checkpoints, and checkpoint=none has none; choose all, every:K, sqrt "
          "or selective");
    }
    Plan plan = Every(request, 1);
    for (LayerPlan& layer : plan.layers) layer.keep = Keep::kEverything;
    return plan;
  }
  if (policy == "all") return Make(request, 1);
  if (policy == "sqrt") return Sqrt(request, peak_of);
  if (policy == "selective" && request.selective.size() == static_cast<size_t>(request.layers)) {
    return Selective(request);
  }
  int64_t segment_layers = 0;
  if (absl::ConsumePrefix(&policy, "every:") && absl::SimpleAtoi(policy, &segment_layers) && segment_layers >= 1) {
    return Make(request, std::min(segment_layers, std::max<int64_t>(request.layers, 1)));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "checkpoint=\"", request.policy, "\" is not a policy; use none, all, every:K with K from 1, sqrt or selective"));
}

Plan Prepend(int64_t forward_only, Plan plan) {
  plan.layers.insert(plan.layers.begin(), static_cast<size_t>(forward_only), LayerPlan());
  return plan;
}

}  // namespace

absl::StatusOr<Plan> ByHand(const HandPlan& request, const PeakOf& peak_of) {
  HandPlan upper = request;
  upper.layers -= request.forward_only;
  if (!upper.selective.empty())
    upper.selective.erase(upper.selective.begin(), upper.selective.begin() + request.forward_only);
  const auto peak_of_whole = [&](const Plan& plan) { return peak_of(Prepend(request.forward_only, plan)); };
  ASSIGN_OR_RETURN(Plan plan, WithBackward(upper, peak_of_whole));
  return Prepend(request.forward_only, std::move(plan));
}

}  // namespace reprise

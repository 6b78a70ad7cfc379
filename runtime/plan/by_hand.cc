#include "runtime/plan/by_hand.h"

#include <algorithm>

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

// The last segment's boundary stays: backward wants it at once.
absl::Status Offload(const HandPlan& request, Plan* plan) {
  int64_t wanted = std::max<int64_t>(plan->segment_count() - 1, 0);
  if (request.host_budget_bytes >= 0 && request.boundary_bytes > 0) {
    const int64_t held = request.host_budget_bytes / request.boundary_bytes;
    if (held == 0 && wanted > 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "host_budget=", FormatBytes(request.host_budget_bytes), " does not hold one boundary of ",
          FormatBytes(request.boundary_bytes), "; raise it to at least ", request.boundary_bytes, " bytes"));
    }
    wanted = std::min(wanted, held);
  }
  for (LayerPlan& layer : plan->layers) {
    if (wanted > 0 && layer.keep == Keep::kBoundary && layer.starts_segment) {
      layer.offload_boundary = true;
      --wanted;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> Make(const HandPlan& request, int64_t segment_layers) {
  Plan plan = Every(request, segment_layers);
  if (request.offload_activations) RETURN_IF_ERROR(Offload(request, &plan));
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

}  // namespace

absl::StatusOr<Plan> ByHand(const HandPlan& request, const PeakOf& peak_of) {
  absl::string_view policy = request.policy;
  if (policy == "none") {
    if (request.offload_activations) {
      return absl::InvalidArgumentError(
          "offload=activations moves retained checkpoints, and checkpoint=none has none; choose all, every:K or sqrt");
    }
    Plan plan = Every(request, 1);
    for (LayerPlan& layer : plan.layers) layer.keep = Keep::kEverything;
    return plan;
  }
  if (policy == "all") return Make(request, 1);
  if (policy == "sqrt") return Sqrt(request, peak_of);
  int64_t segment_layers = 0;
  if (absl::ConsumePrefix(&policy, "every:") && absl::SimpleAtoi(policy, &segment_layers) && segment_layers >= 1) {
    return Make(request, std::min(segment_layers, std::max<int64_t>(request.layers, 1)));
  }
  return absl::InvalidArgumentError(absl::StrCat("checkpoint=\"", request.policy,
                                                 "\" is not a policy; use none, all, every:K with K from 1, or sqrt"));
}

}  // namespace reprise

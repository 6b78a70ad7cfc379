#include "tests/tools/plan_oracle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace reprise::testing {

int OptionIndexOf(const Profile& profile, const Plan& plan, int64_t layer) {
  const LayerPlan& choice = plan.layers[static_cast<size_t>(layer)];
  const std::vector<OptionProfile>& options = profile.blocks[static_cast<size_t>(layer + 1)].options;
  for (size_t o = 0; o < options.size(); ++o) {
    if (options[o].keep == choice.keep && (choice.keep != Keep::kSet || options[o].set == choice.set)) {
      return static_cast<int>(o);
    }
  }
  return -1;
}

void PlanOracle::ReadPlan(const Plan& plan) {
  const int64_t n = profile_.layer_count();
  layers_.assign(static_cast<size_t>(n + 2), {});
  for (int64_t b = 1; b <= n; ++b) {
    const LayerPlan& choice = plan.layers[static_cast<size_t>(b - 1)];
    Layer& l = layer(b);
    l.option = &block(b).options[static_cast<size_t>(OptionIndexOf(profile_, plan, b - 1))];
    l.first = choice.starts_segment ? b : layer(b - 1).first;
    l.offloaded = choice.offload_boundary;
    l.stays_gathered = profile_.gathers && choice.stays_gathered;
    for (int64_t j = l.first; j <= b; ++j) layer(j).last = b;
  }
}

void PlanOracle::AddStep(Kind kind, int64_t b, int64_t ns) { steps_.push_back({.kind = kind, .block = b, .ns = ns}); }

void PlanOracle::ListSteps() {
  const int64_t n = profile_.layer_count();
  steps_.clear();
  for (int64_t b = 0; b <= n; ++b) AddStep(Kind::kForward, b, block(b).forward_ns);
  AddStep(Kind::kHead, n + 1, block(n + 1).forward_ns);
  const int64_t lowest = profile_.first_backward;
  for (int64_t b = 1; b < lowest && b <= n; ++b) layer(b).begins = layer(b).backward = INT64_MAX;
  for (int64_t last = n; last >= std::max<int64_t>(lowest, 1); last = layer(last).first - 1) {
    const int64_t first = layer(last).first;
    for (int64_t b = first; b <= last; ++b) {
      layer(b).begins = static_cast<int64_t>(steps_.size());
      const int64_t ns = b < last ? block(b).recompute_through_ns : layer(b).option->recompute_ns;
      if (first < last || ns > 0) AddStep(Kind::kRecompute, b, ns);
    }
    for (int64_t b = last; b >= first; --b) {
      layer(b).backward = static_cast<int64_t>(steps_.size());
      AddStep(Kind::kBackward, b, block(b).backward_ns);
    }
  }
  if (lowest == 0) AddStep(Kind::kBackward, 0, block(0).backward_ns);
}

void PlanOracle::ListSlots(int64_t prefetch) {
  slots_.clear();
  if (!profile_.gathers) return;
  const int64_t last_block = profile_.layer_count() + 1;
  int64_t unit_before = -1;
  for (size_t s = 0; s < steps_.size(); ++s) {
    Step& step = steps_[s];
    if (step.kind == Kind::kBackward && step.block == 0) continue;
    const int64_t unit = step.block == last_block ? 0 : step.block;
    if (unit != unit_before) {
      const bool backward = step.kind == Kind::kRecompute || step.kind == Kind::kBackward;
      const bool is_whole = backward && layer(step.block).stays_gathered;
      slots_.push_back({.block = step.block, .first_step = static_cast<int64_t>(s), .gathers = !is_whole});
    }
    step.slot = static_cast<int64_t>(slots_.size()) - 1;
    unit_before = unit;
  }
  for (int64_t k = 0; k < static_cast<int64_t>(slots_.size()); ++k) {
    slots_[static_cast<size_t>(k)].issued_before =
        slots_[static_cast<size_t>(std::max<int64_t>(0, k - prefetch))].first_step;
  }
}

void PlanOracle::ListTransfers() {
  const int64_t n = profile_.layer_count();
  const auto step_count = static_cast<int64_t>(steps_.size());
  for (std::vector<Transfer>& list : transfers_) list.clear();
  for (const Slot& slot : slots_) {
    if (!slot.gathers || block(slot.block).gather_ns == 0) continue;
    on(Stream::kGather)
        .push_back({.after = slot.issued_before - 1,
                    .waited_by = slot.first_step,
                    .lengthens = slot.issued_before,
                    .ns = block(slot.block).gather_ns,
                    .block = slot.block});
  }
  for (int64_t s = 0; s < step_count; ++s) {
    const Step& step = steps_[static_cast<size_t>(s)];
    const int64_t after_next = std::min(s + 2, step_count);
    const int64_t b = step.block;
    const bool any = block(b).reduce_ns > 0;
    if (profile_.reduces && any && (step.kind == Kind::kHead || step.kind == Kind::kBackward)) {
      on(Stream::kReduce).push_back({s, after_next, s + 1, block(b).reduce_ns, b});
    }
    if (step.kind == Kind::kForward && b < n && layer(b + 1).offloaded) {
      on(Stream::kOffload).push_back({s, after_next, s + 1, block(b + 1).offload_ns, b + 1});
    }
  }
  int64_t begins_behind = n + 1;  // of the segment behind the one at hand: before the last segment stands H
  for (int64_t last = n; last >= 1; last = layer(last).first - 1) {
    Layer& first = layer(layer(last).first);
    if (first.offloaded) {
      first.reload_at = begins_behind;
      const int64_t a = first.first;
      on(Stream::kReload).push_back({begins_behind - 1, first.begins, begins_behind, block(a).reload_ns, a});
    }
    begins_behind = first.begins;
  }
}

int64_t PlanOracle::RunStreams() {
  longer_.assign(steps_.size() + 1, 0);
  waits_.assign(steps_.size() + 1, 0);
  for (size_t stream = 0; stream < transfers_.size(); ++stream) {
    for (const Transfer& t : transfers_[stream]) {
      longer_[static_cast<size_t>(t.lengthens)] +=
          (t.ns * profile_.interference_millionths[stream] + 500'000) / 1'000'000;
    }
  }
  std::array<size_t, kStreamCount> next = {};
  std::array<int64_t, kStreamCount> free_at = {};
  int64_t now = 0;
  for (size_t s = 0; s <= steps_.size(); ++s) {
    for (size_t stream = 0; stream < transfers_.size(); ++stream) {
      std::vector<Transfer>& list = transfers_[stream];
      for (size_t& i = next[stream]; i < list.size() && list[i].after == static_cast<int64_t>(s) - 1; ++i) {
        list[i].start = std::max(now, free_at[stream]);
        if (stream == static_cast<size_t>(Stream::kReload)) {
          for (const Transfer& offload : on(Stream::kOffload)) {
            if (offload.block == list[i].block) list[i].start = std::max(list[i].start, offload.end);
          }
        }
        list[i].end = list[i].start + list[i].ns;
        free_at[stream] = list[i].end;
        int64_t& wait = waits_[static_cast<size_t>(list[i].waited_by)];
        wait = std::max(wait, list[i].end);
      }
    }
    if (s == steps_.size()) break;
    steps_[s].start = std::max(now, waits_[s]);
    now = steps_[s].end = steps_[s].start + steps_[s].ns + longer_[s];
  }
  return std::max(now, free_at[static_cast<size_t>(Stream::kReduce)]);
}

bool PlanOracle::KeepsBoundary(int64_t b) const { return layer(b).first == b && layer(b).option->reads_boundary; }

int64_t PlanOracle::RetainedOf(int64_t b) const {
  const Layer& l = layer(b);
  return l.option->kept_bytes + (KeepsBoundary(b) && !l.offloaded ? block(b).boundary_bytes : 0) +
         (l.stays_gathered ? block(b).whole_bytes : 0);
}

int64_t PlanOracle::OwnBytes(const Step& step) const {
  const int64_t b = step.block;
  if (b == 0 || step.kind == Kind::kHead) {
    return step.kind == Kind::kBackward ? block(b).backward_bytes : block(b).forward_bytes;
  }
  const Layer& l = layer(b);
  if (step.kind == Kind::kForward) return KeepsBoundary(b) ? l.option->forward_bytes : l.option->forward_bytes_dropped;
  int64_t bytes = l.option->backward_bytes;
  if (step.kind == Kind::kRecompute) {
    bytes = b < l.last ? block(b).recompute_through_bytes : l.option->recompute_bytes;
  }
  for (int64_t j = l.first; j < b; ++j) bytes += block(j).remade_bytes;
  return bytes;
}

int64_t PlanOracle::GatheredBytes(int64_t s) const {
  const int64_t own = steps_[static_cast<size_t>(s)].slot;
  if (own < 0) return 0;
  int64_t bytes = block(slots_[static_cast<size_t>(own)].block).whole_bytes;
  for (size_t k = static_cast<size_t>(own) + 1; k < slots_.size() && slots_[k].issued_before <= s; ++k) {
    if (slots_[k].gathers) bytes += block(slots_[k].block).whole_bytes;
  }
  return bytes;
}

PlanOracle::Bytes PlanOracle::BytesIn(int64_t s) const {
  const int64_t n = profile_.layer_count();
  Bytes bytes;
  bytes.state = profile_.state_bytes;
  bytes.own = OwnBytes(steps_[static_cast<size_t>(s)]);
  bytes.gathered = GatheredBytes(s);
  for (int64_t b = 1; b <= n; ++b) {
    const Layer& l = layer(b);
    if (b < s && s < l.begins) bytes.retained += RetainedOf(b);  // F(b) is step b
    if (l.offloaded && l.reload_at <= s && s < l.begins) bytes.reloading += block(b).boundary_bytes;
    if (l.backward < s) bytes.gradients += block(b).gradient_left_bytes;
  }
  if (n + 1 < s) bytes.gradients += block(n + 1).gradient_left_bytes;
  if (s > 0) {
    const Step& before = steps_[static_cast<size_t>(s - 1)];
    if (before.kind == Kind::kHead || before.kind == Kind::kBackward) {
      bytes.gradients += block(before.block).gradient_held_bytes;
    }
  }
  return bytes;
}

OracleCost PlanOracle::Cost(const Plan& plan) {
  ReadPlan(plan);
  ListSteps();
  ListSlots(plan.prefetch);
  ListTransfers();
  OracleCost cost;
  cost.time_ns = profile_.accumulation * RunStreams() + profile_.update_ns;
  for (int64_t s = 0; s < static_cast<int64_t>(steps_.size()); ++s) {
    cost.peak_bytes = std::max(cost.peak_bytes, BytesIn(s).sum());
  }
  for (const Transfer& t : on(Stream::kOffload)) cost.host_bytes += block(t.block).boundary_bytes;
  return cost;
}

std::string PlanOracle::Explain(const Plan& plan) {
  const OracleCost cost = Cost(plan);
  std::string text = absl::StrCat("time ", cost.time_ns, " ns, peak ", cost.peak_bytes, ", host ", cost.host_bytes,
                                  ", prefetch ", plan.prefetch, "\n");
  for (int64_t b = 1; b <= profile_.layer_count(); ++b) {
    const Layer& l = layer(b);
    absl::StrAppend(&text, "  layer ", b, ": option ", OptionIndexOf(profile_, plan, b - 1), ", segment ", l.first,
                    "..", l.last, l.offloaded ? ", offloaded" : "", l.stays_gathered ? ", stays gathered" : "", "\n");
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Bytes bytes = BytesIn(static_cast<int64_t>(s));
    absl::StrAppend(&text, "  step ", s, " ", std::string(1, "FHRB"[static_cast<size_t>(steps_[s].kind)]), "(",
                    steps_[s].block, ") ", steps_[s].start, "..", steps_[s].end, " bytes ", bytes.sum(), " = state ",
                    bytes.state, " + retained ", bytes.retained, " + own ", bytes.own, " + gathered ", bytes.gathered);
    absl::StrAppend(&text, " + reloading ", bytes.reloading, " + gradients ", bytes.gradients, "\n");
  }
  for (const Stream stream : kAllStreams) {
    for (const Transfer& t : on(stream)) {
      absl::StrAppend(&text, "  ", StreamName(stream), " of block ", t.block, " ", t.start, "..", t.end,
                      ", after step ", t.after, ", waited by ", t.waited_by, "\n");
    }
  }
  return text;
}

}  // namespace reprise::testing

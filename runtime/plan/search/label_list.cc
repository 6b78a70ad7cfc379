#include "runtime/plan/search/label_list.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise {
namespace {

void Sort(const ExtraTimes& extra, LabelList* list) {
  const int64_t* times = list->extra.data();
  std::sort(list->labels.begin(), list->labels.end(), [&](const Label& a, const Label& b) {
    if (a.bytes != b.bytes) return a.bytes < b.bytes;
    if (a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
    const int64_t* x = times + a.extra;
    const int64_t* y = times + b.extra;
    for (size_t i = 0; i < extra.count(); ++i) {
      if (x[i] != y[i]) return x[i] < y[i];
    }
    return std::tie(a.host, a.move, a.parent) < std::tie(b.host, b.move, b.parent);
  });
}

// Whether `a` leads to no later end than `b` whatever follows. What follows takes each forward time f and each way b to
// the end to one sum, and the largest counts; so it is enough that no f + b of a is larger than that of b.
bool NoLater(const ExtraTimes& extra, const std::vector<int64_t>& times, const Label& a, const Label& b) {
  const int64_t* x = times.data() + a.extra;
  const int64_t* y = times.data() + b.extra;
  int64_t forward = 0;
  int64_t backward = 0;
  for (size_t i = 0; i < extra.forward; ++i) forward = std::max(forward, x[i] - y[i]);
  for (size_t i = extra.forward; i < extra.count(); ++i) backward = std::max(backward, x[i] - y[i]);
  return a.time_ns - b.time_ns + forward + backward <= 0;
}

// Labels come by rising bytes, so that those that stay need be compared in times and host bytes only, and one of them
// is done with once a later one is as good in these.
class Frontier {
 public:
  Frontier(const ExtraTimes& extra, const LabelList& list) : extra_(extra), list_(list) {}

  // Whether the label is of use; then it is added.
  bool Add(const Label& label) {
    for (const Label* other : useful_) {
      if (AsGood(*other, label)) return false;
    }
    useful_.erase(
        std::remove_if(useful_.begin(), useful_.end(), [&](const Label* other) { return AsGood(label, *other); }),
        useful_.end());
    useful_.push_back(&label);
    return true;
  }

 private:
  bool AsGood(const Label& a, const Label& b) const {
    return a.host <= b.host && a.time_ns <= b.time_ns && NoLater(extra_, list_.extra, a, b);
  }

  const ExtraTimes& extra_;
  const LabelList& list_;
  std::vector<const Label*> useful_;
};

}  // namespace

void KeepUseful(const ExtraTimes& extra, LabelList* list) {
  Sort(extra, list);
  std::vector<char> keep(list->labels.size());
  Frontier frontier(extra, *list);
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = frontier.Add(list->labels[i]) ? 1 : 0;
  KeepOnly(keep, extra, list);
}

void KeepOnly(const std::vector<char>& keep, const ExtraTimes& extra, LabelList* list) {
  std::vector<int64_t> times;
  size_t kept = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i] == 0) continue;
    Label label = list->labels[i];
    if (extra.count() > 0) {
      const auto first = list->extra.begin() + label.extra;
      label.extra = static_cast<uint32_t>(times.size());
      times.insert(times.end(), first, first + static_cast<int64_t>(extra.count()));
    }
    list->labels[kept++] = label;
  }
  list->labels.resize(kept);
  list->extra = std::move(times);
}

}  // namespace reprise

// Labels of one state of a cut: paths from cut 0 that may become the fastest plan.
#ifndef REPRISE_RUNTIME_PLAN_SEARCH_LABEL_LIST_H_
#define REPRISE_RUNTIME_PLAN_SEARCH_LABEL_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise {

struct Label {
  int64_t bytes = 0;      // retained
  int64_t time_ns = 0;    // the first time of the forward vector plus that of the backward vector
  int64_t host = 0;       // bytes; 0 where the host's memory cannot run out
  int64_t excess_ns = 0;  // by how much its times exceed the references of its state
  int64_t bound_ns = 0;   // no plan that begins so is faster
  int32_t move = -1;      // the last of the path
  int32_t parent = -1;    // in the list of the state that the move leaves
  uint32_t extra = 0;     // where in LabelList::extra the other times begin
};

struct LabelList {
  std::vector<Label> labels;
  std::vector<int64_t> extra;  // of each label: forward's other times relative to the first, then backward's
};

// How many times a label has beside the first ones.
struct ExtraTimes {
  size_t forward = 0;
  size_t backward = 0;

  size_t count() const { return forward + backward; }
};

// Sorts a list and drops each label that another is at least as good as in every way, whatever follows. The order is
// that of bytes, time, other times, host bytes, last move, parent; of two labels that are as good as each other in
// every way the first stays.
void KeepUseful(const ExtraTimes& extra, LabelList* list);

// Keeps the labels of which `keep` is not 0, in their order.
void KeepOnly(const std::vector<char>& keep, const ExtraTimes& extra, LabelList* list);

}  // namespace reprise

#endif  // REPRISE_RUNTIME_PLAN_SEARCH_LABEL_LIST_H_

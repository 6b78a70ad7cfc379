// Marks a call into a library that allocates for itself, so that a test which counts allocations inside a step can tell
// them from ours.
//
//   LibraryScope scope;
//   dnnl_primitive_execute(...);   // LibraryScope::active() on this thread
#ifndef REPRISE_RUNTIME_TENSOR_CPU_LIBRARY_SCOPE_H_
#define REPRISE_RUNTIME_TENSOR_CPU_LIBRARY_SCOPE_H_

namespace reprise {

class LibraryScope {
 public:
  LibraryScope() { ++depth_; }
  ~LibraryScope() { --depth_; }
  LibraryScope(const LibraryScope&) = delete;
  LibraryScope& operator=(const LibraryScope&) = delete;

  static bool active() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_CPU_LIBRARY_SCOPE_H_

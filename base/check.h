// Broken invariants end the process: `reprise: file:line: rank R: message`.
//
// For what a caller can act on, return absl::Status instead.
//
//   REPRISE_CHECK(offset % kAlignment == 0) << "offset " << offset;
#ifndef REPRISE_BASE_CHECK_H_
#define REPRISE_BASE_CHECK_H_

#include <sstream>

namespace reprise {

// Rank that failures and log lines carry; -1 (the default) is not printed. Set once, by the communicator's factory.
void SetProcessRank(int rank);
int ProcessRank();

namespace internal {

// Collects the message, prints it when destroyed and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives the streaming expression type void, so that both arms of ?: agree.
struct Voidify {
  void operator&(std::ostream& /*stream*/) const {}
};

}  // namespace internal
}  // namespace reprise

#define REPRISE_CHECK(condition) \
  (condition)                    \
      ? static_cast<void>(0)     \
      : ::reprise::internal::Voidify() & ::reprise::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#endif  // REPRISE_BASE_CHECK_H_

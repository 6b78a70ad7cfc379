#include "runtime/tensor/access.h"
#include "runtime/tensor/philox.h"

namespace reprise {
namespace {

// x[i] kept and scaled, or 0; rounded to T.
template <typename T>
class Dropper {
 public:
  Dropper(const KernelSpec& spec, const KernelArguments& arguments)
      : x_(Input<T>(arguments, 0)),
        sequence_elements_(spec.attributes.Int("sequence_length") * spec.inputs[0].columns()),
        first_sequence_(arguments.first_sequence),
        key_(MakeRandomKey(arguments.step->seed, arguments.step->step,
                           OperationNumber(arguments.block, spec.attributes.Int("salt")))),
        threshold_(DropThreshold(spec.attributes.Real("p"))),
        scale_(static_cast<Wide<T>>(1 / (1 - spec.attributes.Real("p")))) {}

  T operator()(int64_t i) const {
    const int64_t element = i % sequence_elements_;
    const auto bits = RandomBits(key_, first_sequence_ + i / sequence_elements_, element / 4);
    const bool keep = bits[static_cast<size_t>(element % 4)] >= threshold_;
    return Rounded<T>(keep ? Widened(x_[i]) * scale_ : 0);
  }

 private:
  const T* x_;
  int64_t sequence_elements_;
  int64_t first_sequence_;
  RandomKey key_;
  uint32_t threshold_;
  Wide<T> scale_;
};

struct Dropout {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;
    const Dropper<T> dropped(spec, arguments);
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) y[i] = dropped(i);
  }
};

struct DropoutAdd {
  template <typename T>
  static void Run(const KernelSpec& spec, const KernelArguments& arguments) {
    const T* r = Input<T>(arguments, 1);
    T* y = Output<T>(arguments, 0);
    if (y == nullptr) return;
    const Dropper<T> dropped(spec, arguments);
    for (int64_t i = 0; i < spec.inputs[0].elements(); ++i) y[i] = Rounded<T>(Widened(r[i]) + Widened(dropped(i)));
  }
};

[[maybe_unused]] const bool registered =
    RegisterReference<Dropout>("dropout") && RegisterReference<DropoutAdd>("dropout_add");

}  // namespace
}  // namespace reprise

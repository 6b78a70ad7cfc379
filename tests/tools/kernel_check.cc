#include "tests/tools/kernel_check.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "base/bytes.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/device.h"
#include "runtime/tensor/bfloat16.h"
#include "runtime/tensor/operation.h"
#include "runtime/train/backend.h"
#include "tests/tools/test_device.h"

namespace reprise::testing {
namespace {

constexpr int64_t kGuardBytes = 256;
constexpr auto kGuard = static_cast<std::byte>(0xA5);
constexpr auto kUnwritten = static_cast<std::byte>(0xFF);  // NaN in every floating-point type

void StoreValue(double value, DType dtype, std::byte* place) {
  switch (dtype) {
    case DType::kFloat32: {
      const auto stored = static_cast<float>(value);
      std::memcpy(place, &stored, sizeof(stored));
      break;
    }
    case DType::kBFloat16: {
      const BFloat16 stored(static_cast<float>(value));
      std::memcpy(place, &stored, sizeof(stored));
      break;
    }
    case DType::kFloat64:
      std::memcpy(place, &value, sizeof(value));
      break;
    case DType::kInt32: {
      const auto stored = static_cast<int32_t>(value);
      std::memcpy(place, &stored, sizeof(stored));
      break;
    }
  }
}

template <typename T>
T Loaded(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof(value));
  return value;
}

double LoadValue(DType dtype, const std::byte* place) {
  switch (dtype) {
    case DType::kFloat32:
      return Loaded<float>(place);
    case DType::kBFloat16:
      return static_cast<float>(Loaded<BFloat16>(place));
    case DType::kFloat64:
      return Loaded<double>(place);
    case DType::kInt32:
      return Loaded<int32_t>(place);
  }
  return 0;
}

// Aligned bytes between two guards that must stay as they are.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes)
      : bytes_(bytes), storage_(static_cast<size_t>(bytes + 3 * kGuardBytes), kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
    start_ = static_cast<int64_t>((address + kGuardBytes - 1) / kGuardBytes * kGuardBytes -
                                  reinterpret_cast<uintptr_t>(storage_.data()));
    std::fill_n(data(), bytes_, kUnwritten);
  }

  std::byte* data() { return storage_.data() + start_; }
  // All of it, guards included.
  absl::Span<std::byte> storage() { return absl::MakeSpan(storage_); }
  int64_t start() const { return start_; }
  int64_t bytes() const { return bytes_; }

  bool intact() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(storage_.begin(), storage_.begin() + start_, is_guard) &&
           std::all_of(storage_.begin() + start_ + bytes_, storage_.end(), is_guard);
  }

  void Fill(const Values& values, DType dtype) {
    ASSERT_EQ(static_cast<int64_t>(values.size()) * SizeOf(dtype), bytes_) << "values do not fill the tensor";
    for (size_t i = 0; i < values.size(); ++i) {
      StoreValue(values[i], dtype, data() + static_cast<int64_t>(i) * SizeOf(dtype));
    }
  }

  Values Read(DType dtype) {
    Values values(static_cast<size_t>(bytes_ / SizeOf(dtype)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = LoadValue(dtype, data() + static_cast<int64_t>(i) * SizeOf(dtype));
    }
    return values;
  }

 private:
  int64_t bytes_;
  int64_t start_ = 0;
  std::vector<std::byte> storage_;
};

// A GPU's memory for the buffers of one kernel, where tests run on one (test_device.h). One a thread.
class DeviceMirror {
 public:
  static DeviceMirror& Get() {
    thread_local DeviceMirror mirror;
    return mirror;
  }

  // Runs `kernel` on copies of the buffers and copies all of them back, so that what they tell holds there too.
  absl::Status Run(const Kernel& kernel, std::vector<GuardedBuffer*> inputs, std::vector<GuardedBuffer*> outputs,
                   GuardedBuffer* scratch, const KernelRun& run) {
    used_ = 0;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (GuardedBuffer* buffer : inputs) {
      ASSIGN_OR_RETURN(const std::byte* place, Upload(buffer));
      in.push_back(place);
    }
    for (GuardedBuffer* buffer : outputs) {
      ASSIGN_OR_RETURN(std::byte * place, Upload(buffer));
      out.push_back(place);
    }
    ASSIGN_OR_RETURN(std::byte* const scratch_place, Upload(scratch));
    ASSIGN_OR_RETURN(std::byte* const step, Place(sizeof(StepValues), 0));
    RETURN_IF_ERROR(device_->CopyToDevice(step, {reinterpret_cast<const std::byte*>(&run.step), sizeof(StepValues)}));
    std::vector<std::byte*> passed = out;
    for (size_t i = 0; i < out.size(); ++i) {
      if ((run.skip >> i & 1U) != 0) passed[i] = nullptr;
    }
    Work work;
    work.run = [&] {
      kernel.Run({.inputs = in,
                  .outputs = passed,
                  .scratch = scratch_place,
                  .accumulate = run.accumulate,
                  .step = reinterpret_cast<const StepValues*>(step),
                  .block = run.block,
                  .first_sequence = run.first_sequence});
      return absl::OkStatus();
    };
    device_->Enqueue(Stream::kCompute, &work);
    RETURN_IF_ERROR(device_->Synchronize());
    for (size_t i = 0; i < in.size(); ++i) RETURN_IF_ERROR(Download(inputs[i], in[i]));
    for (size_t i = 0; i < out.size(); ++i) RETURN_IF_ERROR(Download(outputs[i], out[i]));
    return Download(scratch, scratch_place);
  }

 private:
  static constexpr int64_t kArenaBytes = int64_t{256} << 20;

  DeviceMirror() : alone_(MakeLocalCommunicators(1, {})) {
    const absl::StatusOr<const Backend*> backend = FindBackend("cuda");
    REPRISE_CHECK(backend.ok()) << backend.status().message();
    absl::StatusOr<std::unique_ptr<Device>> device = (*backend)->MakeDevice(*alone_[0], {.arena_bytes = kArenaBytes});
    REPRISE_CHECK(device.ok()) << device.status().message();
    device_ = *std::move(device);
  }

  // Bytes whose byte number `aligned` stands at a multiple of 256.
  absl::StatusOr<std::byte*> Place(int64_t bytes, int64_t aligned) {
    const int64_t offset = RoundUp(used_ + aligned, kGuardBytes) - aligned;
    used_ = offset + bytes;
    if (used_ > kArenaBytes) return absl::ResourceExhaustedError("the test's buffers are too large");
    return device_->arena() + offset;
  }

  absl::StatusOr<std::byte*> Upload(GuardedBuffer* buffer) {
    ASSIGN_OR_RETURN(std::byte* const place, Place(static_cast<int64_t>(buffer->storage().size()), buffer->start()));
    RETURN_IF_ERROR(device_->CopyToDevice(place, buffer->storage()));
    return place + buffer->start();
  }
  absl::Status Download(GuardedBuffer* buffer, const std::byte* data) {
    return device_->CopyToHost(buffer->storage(), data - buffer->start());
  }

  std::vector<std::unique_ptr<Communicator>> alone_;
  std::unique_ptr<Device> device_;
  int64_t used_ = 0;
};

bool Close(double actual, double expected, const Tolerance& tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) || std::isinf(expected)) return actual == expected;
  const double size = std::max(std::abs(actual), std::abs(expected));
  return std::abs(actual - expected) <= tolerance.absolute + tolerance.relative * size;
}

void ExpectSkippingChangesNothing(const KernelSpec& spec, const std::vector<Values>& inputs, KernelRun run,
                                  const std::vector<Values>& whole) {
  if (whole.size() < 2) return;
  for (size_t skipped = 0; skipped < whole.size(); ++skipped) {
    run.skip = 1U << skipped;
    const std::vector<Values> rest = RunKernel(spec, inputs, run);
    for (size_t i = 0; i < rest.size(); ++i) {
      if (i == skipped) continue;
      EXPECT_TRUE(SameBits(rest[i], whole[i])) << spec.ToString() << ": output " << i << " without output " << skipped;
    }
  }
}

void ExpectAccumulationAdds(const KernelSpec& spec, const std::vector<Values>& inputs, KernelRun run,
                            const std::vector<Values>& whole, uint32_t accumulated) {
  if (accumulated == 0) return;
  run.accumulate = accumulated;
  run.before.clear();
  for (size_t i = 0; i < whole.size(); ++i) {
    Values before = RandomValues(static_cast<int64_t>(whole[i].size()), 77 + i);
    for (double& value : before) value = Stored(value, spec.outputs[i].dtype);
    run.before.push_back(before);
  }
  const std::vector<Values> sums = RunKernel(spec, inputs, run);
  for (size_t i = 0; i < whole.size(); ++i) {
    if ((accumulated >> i & 1U) == 0) continue;
    Values expected = run.before[i];
    for (size_t j = 0; j < expected.size(); ++j) {
      expected[j] = Stored(expected[j] + whole[i][j], spec.outputs[i].dtype);
    }
    EXPECT_TRUE(SameBits(sums[i], expected)) << spec.ToString() << ": output " << i << " is not before + result";
  }
}

}  // namespace

KernelSpec MakeSpec(const std::string& operation, const std::vector<TensorType>& inputs, const Attributes& attributes) {
  return {operation, inputs, GetOperation(operation).infer(inputs, attributes), attributes};
}

DType WideType(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

double Stored(double value, DType dtype) {
  std::byte place[8];
  StoreValue(value, dtype, place);
  return LoadValue(dtype, place);
}

Values RandomValues(int64_t count, uint64_t seed, double low, double high) {
  std::mt19937_64 generator(seed);
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = low + (high - low) * std::ldexp(static_cast<double>(generator() >> 11), -53);
  return values;
}

Values RandomIntegers(int64_t count, uint64_t seed, int64_t limit) {
  std::mt19937_64 generator(seed);
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<double>(generator() % static_cast<uint64_t>(limit));
  return values;
}

std::vector<Values> RunKernel(const KernelSpec& spec, const std::vector<Values>& inputs, const KernelRun& run) {
  const auto kernel = MakeKernel(spec, {.kind = run.kind, .threads = run.threads});
  if (!kernel.ok() || inputs.size() != spec.inputs.size()) {
    ADD_FAILURE() << spec.ToString() << ": " << kernel.status() << ", " << inputs.size() << " inputs given";
    return {};
  }
  std::vector<GuardedBuffer> input_buffers;
  std::vector<GuardedBuffer> output_buffers;
  std::vector<const std::byte*> input_pointers;
  std::vector<std::byte*> output_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_buffers.emplace_back(spec.inputs[i].bytes()).Fill(inputs[i], spec.inputs[i].dtype);
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    output_buffers.emplace_back(spec.outputs[i].bytes());
    if (!run.before.empty()) output_buffers.back().Fill(run.before[i], spec.outputs[i].dtype);
  }
  std::vector<GuardedBuffer> inputs_before = input_buffers;
  GuardedBuffer scratch((*kernel)->scratch_bytes());
  for (GuardedBuffer& buffer : input_buffers) input_pointers.push_back(buffer.data());
  for (size_t i = 0; i < output_buffers.size(); ++i) {
    output_pointers.push_back((run.skip >> i & 1U) != 0 ? nullptr : output_buffers[i].data());
  }
  if (run.kind == KernelKind::kCuda && TestDevice() == "cuda") {
    std::vector<GuardedBuffer*> ins;
    std::vector<GuardedBuffer*> outs;
    for (GuardedBuffer& buffer : input_buffers) ins.push_back(&buffer);
    for (GuardedBuffer& buffer : output_buffers) outs.push_back(&buffer);
    const absl::Status status = DeviceMirror::Get().Run(**kernel, ins, outs, &scratch, run);
    EXPECT_TRUE(status.ok()) << spec.ToString() << ": " << status;
  } else {
    (*kernel)->Run({.inputs = input_pointers,
                    .outputs = output_pointers,
                    .scratch = scratch.data(),
                    .accumulate = run.accumulate,
                    .step = &run.step,
                    .block = run.block,
                    .first_sequence = run.first_sequence});
  }

  EXPECT_TRUE(scratch.intact()) << spec.ToString() << " writes outside its scratch";
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(
        std::memcmp(input_buffers[i].data(), inputs_before[i].data(), static_cast<size_t>(input_buffers[i].bytes())), 0)
        << spec.ToString() << " changes input " << i;
  }
  std::vector<Values> outputs(output_buffers.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(output_buffers[i].intact()) << spec.ToString() << " writes outside output " << i;
    if ((run.skip >> i & 1U) == 0) outputs[i] = output_buffers[i].Read(spec.outputs[i].dtype);
  }
  return outputs;
}

bool SameBits(const Values& a, const Values& b) {
  const auto same = [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

void ExpectClose(const Values& actual, const Values& expected, const Tolerance& tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  int reported = 0;
  for (size_t i = 0; i < actual.size() && reported < 3; ++i) {
    if (Close(actual[i], expected[i], tolerance)) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << ::testing::PrintToString(actual[i]) << ", expected "
                  << ::testing::PrintToString(expected[i]);
    ++reported;
  }
}

namespace {

// One kind of kernel against what the reference gave; returns its results.
std::vector<Values> ExpectAgrees(const KernelSpec& spec, const std::vector<Values>& inputs, const KernelRun& run,
                                 const std::vector<Values>& expected, const Tolerance& tolerance,
                                 const std::string& how, uint32_t accumulated) {
  std::vector<Values> actual = RunKernel(spec, inputs, run);
  if (actual.size() != expected.size()) {
    ADD_FAILURE() << spec.ToString() << how << ": " << actual.size() << " outputs";
    return actual;
  }
  const std::vector<Values> again = RunKernel(spec, inputs, run);
  for (size_t i = 0; i < actual.size(); ++i) {
    const std::string what = spec.ToString() + " output " + std::to_string(i) + how;
    ExpectClose(actual[i], expected[i], tolerance, what);
    EXPECT_TRUE(SameBits(actual[i], again[i])) << what << " differs when run again";
  }
  ExpectSkippingChangesNothing(spec, inputs, run, actual);
  ExpectAccumulationAdds(spec, inputs, run, actual, accumulated);
  return actual;
}

}  // namespace

void ExpectKernelsAgree(const KernelSpec& spec, const std::vector<Values>& inputs, const Tolerance& tolerance,
                        const AgreeOptions& options) {
  KernelRun run = options.run;
  run.kind = KernelKind::kReference;
  const std::vector<Values> expected = RunKernel(spec, inputs, run);
  run.kind = KernelKind::kCpu;
  std::vector<Values> with_one_thread;
  for (const int threads : {1, 2}) {
    if (threads > omp_get_thread_limit()) break;  // under the thread sanitizer
    run.threads = threads;
    const std::string how = " threads " + std::to_string(threads);
    const auto actual = ExpectAgrees(spec, inputs, run, expected, tolerance, how, options.accumulated);
    if (threads == 1) with_one_thread = actual;
    for (size_t i = 0; options.same_bits_for_all_threads && i < actual.size(); ++i) {
      EXPECT_TRUE(SameBits(actual[i], with_one_thread[i])) << spec.ToString() << how << " depends on the threads";
    }
  }
  // Where the kernels of a GPU are at hand, on fibers: each run is in another order of threads and blocks.
  run.kind = KernelKind::kCuda;
  if (!options.cuda || !MakeKernel(spec, {.kind = run.kind}).ok()) return;
  ExpectAgrees(spec, inputs, run, expected, options.cuda_tolerance.value_or(tolerance), " cuda", options.accumulated);
}

void ExpectGradientMatchesFiniteDifferences(const KernelSpec& forward, const std::vector<Values>& inputs,
                                            const std::vector<int>& differentiated, const GradientFunction& gradient,
                                            const FiniteDifferenceOptions& options) {
  KernelRun run = options.run;
  run.kind = KernelKind::kReference;
  const std::vector<Values> outputs = RunKernel(forward, inputs, run);
  std::vector<Values> weights(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) weights[i].assign(outputs[i].size(), 0.0);
  for (const int i : options.outputs) {
    weights[static_cast<size_t>(i)] = RandomValues(static_cast<int64_t>(outputs[static_cast<size_t>(i)].size()),
                                                   options.seed + static_cast<uint64_t>(i));
  }
  const auto functional = [&](const std::vector<Values>& at) {
    const std::vector<Values> result = RunKernel(forward, at, run);
    double sum = 0;
    for (size_t i = 0; i < result.size(); ++i) {
      for (size_t j = 0; j < result[i].size(); ++j) {
        if (weights[i][j] != 0) sum += weights[i][j] * result[i][j];
      }
    }
    return sum;
  };

  const std::vector<Values> gradients = gradient(inputs, outputs, weights);
  ASSERT_EQ(gradients.size(), differentiated.size());
  for (size_t k = 0; k < differentiated.size(); ++k) {
    const auto input = static_cast<size_t>(differentiated[k]);
    ASSERT_EQ(gradients[k].size(), inputs[input].size()) << forward.ToString() << " input " << input;
    for (size_t j = 0; j < inputs[input].size(); ++j) {
      std::vector<Values> at = inputs;
      const double h = options.step * std::max(1.0, std::abs(inputs[input][j]));
      at[input][j] = inputs[input][j] + h;
      const double above = functional(at);
      at[input][j] = inputs[input][j] - h;
      const double below = functional(at);
      const double slope = (above - below) / (2 * h);
      EXPECT_NEAR(gradients[k][j], slope, options.tolerance * (1 + std::abs(slope)))
          << forward.ToString() << ": gradient of input " << input << " element " << j;
    }
  }
}

}  // namespace reprise::testing

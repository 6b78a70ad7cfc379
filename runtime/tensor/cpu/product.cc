#include "runtime/tensor/cpu/product.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "runtime/tensor/cpu/bfloat16_rows.h"
#include "runtime/tensor/cpu/library_scope.h"
#include "runtime/tensor/cpu/parallel.h"

namespace reprise {

class Product::Implementation {
 public:
  virtual ~Implementation() = default;
  virtual int64_t scratch_bytes() const = 0;
  virtual void Run(const ProductArguments& arguments) const = 0;
};

namespace {

constexpr int64_t kAlignment = 64;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// oneDNN takes its number of threads from OpenMP's for the calling thread, when a primitive is made and when it runs.
void UseThreads(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

const dnnl::engine& CpuEngine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::data_type DataType(DType dtype) {
  REPRISE_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16) << "no product of " << DTypeName(dtype);
  return dtype == DType::kFloat32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// Strides of a matrix that is stored in rows of `stride` elements.
dnnl::memory::desc Matrix(int64_t rows, int64_t columns, DType dtype, bool transposed, int64_t stride) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, DataType(dtype), strides};
}

// A product that oneDNN does as a whole. Both variants, assigning and adding, where C is float32.
class Primitive : public Product::Implementation {
 public:
  Primitive(const ProductSpec& spec, int64_t b_stride, int64_t c_stride)
      : threads_(spec.threads), stream_(CpuEngine()) {
    UseThreads(threads_);
    const int64_t a_stride = spec.a_stride != 0 ? spec.a_stride : spec.transpose_a ? spec.m : spec.k;
    const dnnl::memory::desc a = Matrix(spec.m, spec.k, spec.a, spec.transpose_a, a_stride);
    const dnnl::memory::desc b = Matrix(spec.k, spec.n, spec.b, spec.transpose_b, b_stride);
    const dnnl::memory::desc c = Matrix(spec.m, spec.n, spec.c, false, c_stride);
    const dnnl::memory::desc bias({1, spec.n}, DataType(spec.c), dnnl::memory::format_tag::ab);
    const dnnl::matmul::desc what = spec.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const size_t variants = spec.c == DType::kFloat32 && !spec.bias ? 2 : 1;
    for (size_t add = 0; add < variants; ++add) Make(what, add != 0);
    arguments_ = {Place(DNNL_ARG_SRC, a), Place(DNNL_ARG_WEIGHTS, b), Place(DNNL_ARG_DST, c)};
    if (spec.bias) arguments_.push_back(Place(DNNL_ARG_BIAS, bias));
    // Last, so that a variant without scratch can leave it out.
    arguments_.push_back(Place(DNNL_ARG_SCRATCHPAD, dnnl::memory::desc({scratch_bytes_}, dnnl::memory::data_type::u8,
                                                                       dnnl::memory::format_tag::a)));
  }

  int64_t scratch_bytes() const override { return scratch_bytes_; }

  void Run(const ProductArguments& arguments) const override {
    REPRISE_CHECK(!arguments.accumulate || primitives_.size() == 2) << "only a float32 product without bias can add";
    UseThreads(threads_);
    LibraryScope scope;
    for (const dnnl_exec_arg_t& argument : arguments_) {
      const dnnl_status_t set = dnnl_memory_set_data_handle(argument.memory, Pointer(argument.arg, arguments));
      REPRISE_CHECK(set == dnnl_success) << "oneDNN refused a pointer: status " << set;
    }
    const dnnl_status_t status = dnnl_primitive_execute(primitives_[arguments.accumulate ? 1 : 0].get(), stream_.get(),
                                                        static_cast<int>(arguments_.size()), arguments_.data());
    REPRISE_CHECK(status == dnnl_success) << "oneDNN failed to multiply: status " << status;
  }

 private:
  void Make(const dnnl::matmul::desc& what, bool add) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc description(what, attributes, CpuEngine());
    primitives_.emplace_back(description);
    scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(description.scratchpad_desc().get_size()));
  }

  dnnl_exec_arg_t Place(int argument, const dnnl::memory::desc& description) {
    memories_.push_back(dnnl::memory(description, CpuEngine(), DNNL_MEMORY_NONE));
    return {argument, memories_.back().get()};
  }

  static void* Pointer(int argument, const ProductArguments& arguments) {
    switch (argument) {
      case DNNL_ARG_SRC:
        return const_cast<std::byte*>(arguments.a);
      case DNNL_ARG_WEIGHTS:
        return const_cast<std::byte*>(arguments.b);
      case DNNL_ARG_BIAS:
        return const_cast<std::byte*>(arguments.bias);
      case DNNL_ARG_DST:
        return arguments.c;
      default:
        return arguments.scratch;
    }
  }

  int threads_;
  int64_t scratch_bytes_ = 0;
  dnnl::stream stream_;
  std::vector<dnnl::matmul> primitives_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// Equal blocks of about `target`, in multiples of 16 but for the last.
int64_t BlockSize(int64_t size, int64_t target) {
  const int64_t blocks = (size + target - 1) / target;
  return std::min(size, ((size + blocks - 1) / blocks + 15) / 16 * 16);
}

// One operand of a Blocked product, as stored.
struct Operand {
  DType dtype;
  int64_t stride;

  // The block at (row, column) of `rows` x `columns` stored elements as float32: in place, or widened into scratch.
  // `block_stride` is set to the elements between its rows.
  const std::byte* Block(const std::byte* data, int64_t row, int64_t column, int64_t rows, int64_t columns,
                         std::byte* scratch, int threads) const {
    const std::byte* start = data + (row * stride + column) * SizeOf(dtype);
    if (dtype == DType::kFloat32) return start;
    const auto* from = reinterpret_cast<const BFloat16*>(start);
    auto* to = reinterpret_cast<float*>(scratch);
    ParallelFor(threads, rows, 4, [&](int64_t begin, int64_t end) {
      if (columns == stride) return WidenRow(from + begin * stride, to + begin * columns, (end - begin) * columns);
      for (int64_t r = begin; r < end; ++r) WidenRow(from + r * stride, to + r * columns, columns);
    });
    return scratch;
  }
};

// bfloat16 operands on a processor whose oneDNN lacks them: blocks that stay in the cache are widened and multiplied in
// float32. With blocks of 400 rows or more, widening is a few percent of the product.
class Blocked : public Product::Implementation {
 public:
  explicit Blocked(const ProductSpec& spec)
      : spec_(spec), m_(BlockSize(spec.m, 768)), n_(BlockSize(spec.n, 1024)), k_(BlockSize(spec.k, 1024)) {
    a_ = {spec.a, spec.a_stride != 0 ? spec.a_stride : spec.transpose_a ? spec.m : spec.k};
    b_ = {spec.b, spec.transpose_b ? spec.k : spec.n};
    REPRISE_CHECK(!spec.bias || spec.c == DType::kBFloat16) << "a blocked product adds its bias when it rounds";
    for (size_t edges = 0; edges < primitives_.size(); ++edges) MakePrimitive(edges);
    for (const auto& primitive : primitives_) {
      if (primitive != nullptr) library_bytes_ = std::max(library_bytes_, Aligned(primitive->scratch_bytes()));
    }
    a_bytes_ = spec.a == DType::kFloat32 ? 0 : Aligned(m_ * k_ * 4);
    b_bytes_ = spec.b == DType::kFloat32 ? 0 : Aligned(n_ * k_ * 4);
    c_bytes_ = spec.c == DType::kFloat32 ? 0 : Aligned(m_ * n_ * 4);
  }

  int64_t scratch_bytes() const override { return library_bytes_ + a_bytes_ + b_bytes_ + c_bytes_; }

  void Run(const ProductArguments& arguments) const override {
    REPRISE_CHECK(!arguments.accumulate || spec_.c == DType::kFloat32) << "only a float32 product can add";
    for (int64_t i = 0; i < spec_.m; i += m_) {
      for (int64_t j = 0; j < spec_.n; j += n_) {
        for (int64_t l = 0; l < spec_.k; l += k_) Multiply(arguments, i, j, l);
        if (spec_.c == DType::kBFloat16) Round(arguments, i, j);
      }
    }
  }

 private:
  static int64_t EdgeSize(int64_t size, int64_t block) { return size - (size - 1) / block * block; }

  // Bits of `edges`: the block is the last one in m, n, k.
  void MakePrimitive(size_t edges) {
    const auto size = [&](size_t bit, int64_t whole, int64_t block) {
      if ((edges >> bit & 1U) != 0) return EdgeSize(whole, block);
      return whole > block ? block : 0;  // 0: every block is the last one
    };
    ProductSpec part = spec_;
    part.m = size(0, spec_.m, m_);
    part.n = size(1, spec_.n, n_);
    part.k = size(2, spec_.k, k_);
    if (part.m == 0 || part.n == 0 || part.k == 0) return;
    part.a = part.b = part.c = DType::kFloat32;
    part.bias = false;
    part.a_stride = a_.dtype == DType::kFloat32 ? a_.stride : 0;
    const int64_t b_dense = spec_.transpose_b ? part.k : part.n;
    primitives_[edges] = std::make_unique<Primitive>(part, b_.dtype == DType::kFloat32 ? b_.stride : b_dense,
                                                     spec_.c == DType::kFloat32 ? spec_.n : part.n);
  }

  void Multiply(const ProductArguments& arguments, int64_t i, int64_t j, int64_t l) const {
    const int64_t m = std::min(m_, spec_.m - i);
    const int64_t n = std::min(n_, spec_.n - j);
    const int64_t k = std::min(k_, spec_.k - l);
    std::byte* a_scratch = arguments.scratch + library_bytes_;
    std::byte* b_scratch = a_scratch + a_bytes_;
    // A's block is still there from the columns before.
    const bool widened = j > 0 && spec_.k <= k_ && a_bytes_ > 0;
    ProductArguments part;
    part.a = widened             ? a_scratch
             : spec_.transpose_a ? a_.Block(arguments.a, l, i, k, m, a_scratch, spec_.threads)
                                 : a_.Block(arguments.a, i, l, m, k, a_scratch, spec_.threads);
    part.b = spec_.transpose_b ? b_.Block(arguments.b, j, l, n, k, b_scratch, spec_.threads)
                               : b_.Block(arguments.b, l, j, k, n, b_scratch, spec_.threads);
    part.c = spec_.c == DType::kFloat32 ? arguments.c + (i * spec_.n + j) * 4 : b_scratch + b_bytes_;
    part.accumulate = l > 0 || arguments.accumulate;
    part.scratch = arguments.scratch;
    const size_t edges = (i + m == spec_.m ? 1U : 0U) | (j + n == spec_.n ? 2U : 0U) | (l + k == spec_.k ? 4U : 0U);
    primitives_[edges]->Run(part);
  }

  void Round(const ProductArguments& arguments, int64_t i, int64_t j) const {
    const int64_t n = std::min(n_, spec_.n - j);
    const auto* from = reinterpret_cast<const float*>(arguments.scratch + library_bytes_ + a_bytes_ + b_bytes_);
    auto* to = reinterpret_cast<BFloat16*>(arguments.c) + i * spec_.n + j;
    const auto* bias = spec_.bias ? reinterpret_cast<const BFloat16*>(arguments.bias) + j : nullptr;
    ParallelFor(spec_.threads, std::min(m_, spec_.m - i), 4, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) RoundRow(from + r * n, bias, to + r * spec_.n, n);
    });
  }

  ProductSpec spec_;
  Operand a_;
  Operand b_;
  int64_t m_, n_, k_;
  std::array<std::unique_ptr<Primitive>, 8> primitives_;
  int64_t library_bytes_ = 0;
  int64_t a_bytes_, b_bytes_, c_bytes_;
};

std::unique_ptr<Product::Implementation> Make(const ProductSpec& spec) {
  REPRISE_CHECK(spec.m > 0 && spec.n > 0 && spec.k > 0)
      << "no product of sizes " << spec.m << ", " << spec.n << ", " << spec.k;
  const bool narrow = spec.a == DType::kBFloat16 || spec.b == DType::kBFloat16 || spec.c == DType::kBFloat16;
  if (narrow && (spec.a != spec.b || !HasBFloat16Products())) return std::make_unique<Blocked>(spec);
  return std::make_unique<Primitive>(spec, spec.transpose_b ? spec.k : spec.n, spec.n);
}

}  // namespace

Product::Product(const ProductSpec& spec) : implementation_(Make(spec)) {}
Product::~Product() = default;
Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;

int64_t Product::scratch_bytes() const { return implementation_->scratch_bytes(); }

void Product::Run(const ProductArguments& arguments) const { implementation_->Run(arguments); }

bool HasBFloat16Products() {
  static const bool has = [] {
    const auto tag = dnnl::memory::format_tag::ab;
    const auto bf16 = dnnl::memory::data_type::bf16;
    const dnnl::memory::desc matrix({64, 64}, bf16, tag);
    const dnnl::memory::desc wide({64, 64}, dnnl::memory::data_type::f32, tag);
    try {
      for (const dnnl::memory::desc& c : {matrix, wide}) {
        const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(matrix, matrix, c), CpuEngine());
        // oneDNN's plain loops would take minutes.
        if (std::string_view(description.impl_info_str()).starts_with("ref")) return false;
      }
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return has;
}

}  // namespace reprise

#include <cublasLt.h>

#include <map>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/cuda/current_stream.h"
#include "runtime/tensor/cuda/product.h"

namespace reprise::cuda {
namespace {

// What NVIDIA advises for its GPUs of 2022 and later.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr uint32_t kAlignment = 16;

absl::Status StatusOf(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cublasLtGetStatusString(status)));
}

// One for the process: its device is chosen before the first kernel is made.
absl::StatusOr<cublasLtHandle_t> Handle() {
  static const auto* made = [] {
    cublasLtHandle_t handle = nullptr;
    const absl::Status status = StatusOf(cublasLtCreate(&handle), "cublasLtCreate");
    return status.ok() ? new absl::StatusOr<cublasLtHandle_t>(handle) : new absl::StatusOr<cublasLtHandle_t>(status);
  }();
  return *made;
}

// An object of cuBLASLt that is destroyed with its owner.
template <typename Object, cublasStatus_t (*destroy)(Object)>
struct Owned {
  Object object = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object != nullptr) destroy(object);
  }
};

cudaDataType_t DataType(DType dtype) { return dtype == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F; }

class CublasProduct : public Product {
 public:
  explicit CublasProduct(cublasLtHandle_t handle) : handle_(handle) {}

  absl::Status Prepare(const ProductSpec& spec) {
    RETURN_IF_ERROR(Describe(spec));
    return ChooseAlgorithm(spec);
  }

  int64_t scratch_bytes() const override { return static_cast<int64_t>(workspace_bytes_); }

  void Run(const ProductArguments& arguments) const override {
    const float one = 1;
    const float beta = arguments.accumulate ? 1 : 0;
    // The bias is a property of the description: one Run of one kernel at a time.
    if (bias_) Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, arguments.bias);
    const cublasStatus_t status =
        cublasLtMatmul(handle_, description_.object, &one, arguments.b, b_.object, arguments.a, a_.object, &beta,
                       arguments.c, c_.object, arguments.c, c_.object, &algorithm_, arguments.scratch, workspace_bytes_,
                       static_cast<cudaStream_t>(CurrentStream()));
    REPRISE_CHECK(status == CUBLAS_STATUS_SUCCESS) << "cublasLtMatmul: " << cublasLtGetStatusString(status);
  }

 private:
  template <typename T>
  cublasStatus_t Set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    return cublasLtMatmulDescSetAttribute(description_.object, attribute, &value, sizeof(value));
  }

  // cuBLASLt stores by columns: it sees C' = B' A', whose columns are our rows.
  absl::Status Describe(const ProductSpec& spec) {
    bias_ = spec.bias;
    RETURN_IF_ERROR(StatusOf(cublasLtMatmulDescCreate(&description_.object, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                             "cublasLtMatmulDescCreate"));
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    RETURN_IF_ERROR(StatusOf(Set(CUBLASLT_MATMUL_DESC_TRANSA, operation(spec.transpose_b)), "transposing B"));
    RETURN_IF_ERROR(StatusOf(Set(CUBLASLT_MATMUL_DESC_TRANSB, operation(spec.transpose_a)), "transposing A"));
    if (spec.bias) {
      RETURN_IF_ERROR(StatusOf(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS), "asking for a bias"));
      RETURN_IF_ERROR(StatusOf(Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, DataType(spec.output)), "the bias's type"));
    }
    const auto layout = [](cublasLtMatrixLayout_t* to, DType dtype, int64_t row, int64_t rows, int64_t stride) {
      return StatusOf(cublasLtMatrixLayoutCreate(to, DataType(dtype), static_cast<uint64_t>(row),
                                                 static_cast<uint64_t>(rows), stride),
                      "cublasLtMatrixLayoutCreate");
    };
    const int64_t row_of_a = spec.transpose_a ? spec.m : spec.k;
    const int64_t rows_of_a = spec.transpose_a ? spec.k : spec.m;
    const int64_t row_of_b = spec.transpose_b ? spec.k : spec.n;
    const int64_t rows_of_b = spec.transpose_b ? spec.n : spec.k;
    RETURN_IF_ERROR(layout(&a_.object, spec.inputs, row_of_a, rows_of_a, spec.RowOfA()));
    RETURN_IF_ERROR(layout(&b_.object, spec.inputs, row_of_b, rows_of_b, row_of_b));
    return layout(&c_.object, spec.output, spec.n, spec.m, spec.n);
  }

  // The first that the library proposes; once for equal specs. Partial sums meet in the workspace, if at all.
  absl::Status ChooseAlgorithm(const ProductSpec& spec) {
    static auto* mutex = new std::mutex;
    static auto* chosen = new std::map<ProductSpec, std::pair<cublasLtMatmulAlgo_t, size_t>>;
    const std::lock_guard lock(*mutex);
    const auto known = chosen->find(spec);
    if (known != chosen->end()) {
      std::tie(algorithm_, workspace_bytes_) = known->second;
      return absl::OkStatus();
    }
    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
    RETURN_IF_ERROR(StatusOf(cublasLtMatmulPreferenceCreate(&preference.object), "cublasLtMatmulPreferenceCreate"));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return StatusOf(cublasLtMatmulPreferenceSetAttribute(preference.object, attribute, &value, sizeof(value)),
                      "cublasLtMatmulPreferenceSetAttribute");
    };
    constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
    RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      RETURN_IF_ERROR(prefer(attribute, kAlignment));
    }
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, description_.object, b_.object, a_.object, c_.object, c_.object,
                                       preference.object, 1, &result, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for a product of ", spec.m, " x ", spec.k,
                                                   " and ", spec.k, " x ", spec.n, ": ",
                                                   cublasLtGetStatusString(status)));
    }
    algorithm_ = result.algo;
    workspace_bytes_ = result.workspaceSize;
    chosen->emplace(spec, std::pair(algorithm_, workspace_bytes_));
    return absl::OkStatus();
  }

  cublasLtHandle_t handle_;
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> description_;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> a_;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> b_;
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> c_;
  bool bias_ = false;
  cublasLtMatmulAlgo_t algorithm_ = {};
  size_t workspace_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Product>> MakeProduct(const ProductSpec& spec) {
  ASSIGN_OR_RETURN(const cublasLtHandle_t handle, Handle());
  auto product = std::make_unique<CublasProduct>(handle);
  RETURN_IF_ERROR(product->Prepare(spec));
  return product;
}

}  // namespace reprise::cuda

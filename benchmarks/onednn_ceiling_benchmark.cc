// The time that no training step on this machine can go below: the bare oneDNN products of a GPT-2 124M step, that is
// forward, input gradient and weight gradient of every linear layer, alone and one after the other.
//
//   build/bin/onednn_ceiling_benchmark [--json] [rows of tokens, 1024]
//
// Each product is run four times and the best counts. Threads are OpenMP's (OMP_NUM_THREADS). A type that oneDNN has
// no fast products for on this processor is left out, with a note: its plain loops would take minutes.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>

namespace reprise {
namespace {

using DataType = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

constexpr int kRuns = 4;

struct Layer {
  const char* name;
  int64_t in;
  int64_t out;
  int count;  // in the model
};

constexpr std::array kLayers = {Layer{"qkv", 768, 2304, 12}, Layer{"projection", 768, 768, 12},
                                Layer{"expand", 768, 3072, 12}, Layer{"contract", 3072, 768, 12},
                                Layer{"head", 768, 50257, 1}};

struct Sizes {
  int64_t m;
  int64_t n;
  int64_t k;
};

// Best seconds of C [m, n] = A [m, k] B [k, n]; nothing where oneDNN would fall back to plain loops.
std::optional<double> BestSeconds(const dnnl::engine& engine, const Sizes& sizes, DataType in, DataType out, Tag a_tag,
                                  Tag b_tag) {
  const dnnl::memory::desc a({sizes.m, sizes.k}, in, a_tag);
  const dnnl::memory::desc b({sizes.k, sizes.n}, in, b_tag);
  const dnnl::memory::desc c({sizes.m, sizes.n}, out, Tag::ab);
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), engine);
  if (std::string_view(description.impl_info_str()).starts_with("ref")) return std::nullopt;
  const dnnl::matmul product(description);
  dnnl::stream stream(engine);
  dnnl::memory a_memory(a, engine);
  dnnl::memory b_memory(b, engine);
  dnnl::memory c_memory(c, engine);
  // 0x3c in every byte is a small number in both types: no denormals, no infinities.
  std::memset(a_memory.get_data_handle(), 0x3c, a.get_size());
  std::memset(b_memory.get_data_handle(), 0x3c, b.get_size());
  std::memset(c_memory.get_data_handle(), 0, c.get_size());
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    product.execute(stream, {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, c_memory}});
    stream.wait();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best = std::min(best, passed.count());
  }
  return best;
}

struct LayerSeconds {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
};

std::optional<LayerSeconds> Measure(const dnnl::engine& engine, const Layer& layer, int64_t rows, DataType type) {
  try {
    const auto forward = BestSeconds(engine, {rows, layer.out, layer.in}, type, type, Tag::ab, Tag::ba);
    if (!forward) return std::nullopt;
    const auto input = BestSeconds(engine, {rows, layer.in, layer.out}, type, type, Tag::ab, Tag::ab);
    // Weight gradients are float32 in either precision.
    const auto weight = BestSeconds(engine, {layer.out, layer.in, rows}, type, DataType::f32, Tag::ba, Tag::ab);
    if (!input || !weight) return std::nullopt;
    return LayerSeconds{*forward, *input, *weight};
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return std::nullopt;
    throw;
  }
}

void Run(const dnnl::engine& engine, const char* precision, DataType type, int64_t rows, bool json) {
  double seconds = 0;
  double gigaflops = 0;
  for (const Layer& layer : kLayers) {
    const std::optional<LayerSeconds> parts = Measure(engine, layer, rows, type);
    if (!parts) {
      std::printf(json ? "{\"precision\": \"%s\", \"seconds\": null}\n"
                       : "%s: oneDNN has no fast products of it on this processor\n",
                  precision);
      return;
    }
    const double work = 2e-9 * static_cast<double>(rows * layer.in * layer.out);
    if (!json) {
      std::printf("%s %-10s forward %4.0f, input gradient %4.0f, weight gradient %4.0f GFLOP/s\n", precision,
                  layer.name, work / parts->forward, work / parts->input_gradient, work / parts->weight_gradient);
    }
    seconds += layer.count * (parts->forward + parts->input_gradient + parts->weight_gradient);
    gigaflops += 3 * layer.count * work;
  }
  std::printf(json ? "{\"precision\": \"%s\", \"seconds\": %.6f, \"gigaflops\": %.3f, \"gigaflops_per_second\": %.1f}\n"
                   : "%s step: %.3f s for %.0f GFLOP, %.0f GFLOP/s\n",
              precision, seconds, gigaflops, gigaflops / seconds);
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  bool json = false;
  int64_t rows = 1024;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else {
      rows = std::strtoll(argv[i], nullptr, 10);
    }
  }
  if (rows < 1 || rows > 1 << 20) {
    std::fprintf(stderr, "reprise: the rows must be 1 to 1048576\n");
    return 2;
  }
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  reprise::Run(engine, "fp32", dnnl::memory::data_type::f32, rows, json);
  reprise::Run(engine, "bf16", dnnl::memory::data_type::bf16, rows, json);
  return 0;
}

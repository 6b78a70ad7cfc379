#include "runtime/train/parameter_source.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/tensor/philox.h"

namespace reprise {
namespace {

// Two normal deviates from two words. The first uniform is in (0, 1], so that its logarithm is finite.
std::array<double, 2> NormalPair(uint32_t a, uint32_t b) {
  constexpr double kTwoPi = 6.283185307179586;
  const double u = (static_cast<double>(a) + 1.0) / 4294967296.0;
  const double v = static_cast<double>(b) / 4294967296.0;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {radius * std::cos(kTwoPi * v), radius * std::sin(kTwoPi * v)};
}

void FillNormal(RandomKey key, double deviation, int64_t first, absl::Span<float> out) {
  const auto count = static_cast<int64_t>(out.size());
  for (int64_t group = first / 4; group * 4 < first + count; ++group) {
    const std::array<uint32_t, 4> bits = RandomBits(key, 0, group);
    const std::array<double, 2> low = NormalPair(bits[0], bits[1]);
    const std::array<double, 2> high = NormalPair(bits[2], bits[3]);
    const std::array<double, 4> values = {low[0], low[1], high[0], high[1]};
    for (int64_t lane = 0; lane < 4; ++lane) {
      const int64_t position = group * 4 + lane - first;
      if (position < 0 || position >= count) continue;
      out[static_cast<size_t>(position)] = static_cast<float>(deviation * values[static_cast<size_t>(lane)]);
    }
  }
}

void FillUniform(RandomKey key, double bound, int64_t first, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t element = first + static_cast<int64_t>(i);
    const uint32_t bits = RandomBits(key, 0, element / 4)[static_cast<size_t>(element % 4)];
    out[i] = static_cast<float>(bound * (static_cast<double>(bits) / 2147483648.0 - 1.0));
  }
}

}  // namespace

ParameterSource RandomParameters(uint64_t seed) {
  return [seed](const Parameter& parameter, int64_t first, absl::Span<float> out) {
    const Initializer& initializer = parameter.initializer();
    if (initializer.kind == Initializer::Kind::kConstant) {
      std::fill(out.begin(), out.end(), static_cast<float>(initializer.value));
      return absl::OkStatus();
    }
    const uint64_t name = XXH3_64bits(parameter.name().data(), parameter.name().size());
    const RandomKey key = MakeRandomKey(seed, /*step=*/-1, name);
    if (initializer.kind == Initializer::Kind::kNormal) {
      FillNormal(key, initializer.value, first, out);
    } else {
      FillUniform(key, initializer.value, first, out);
    }
    return absl::OkStatus();
  };
}

}  // namespace reprise

#include "runtime/tensor/rotary_table.h"

#include <cmath>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/tensor/bfloat16.h"

namespace reprise {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Llama 3: frequencies of long waves are divided by `factor`, those of short ones stay, and between the two the
// division fades in. In float32, step by step as in Transformers; its quotients of a number and a tensor are products
// with the reciprocal.
float Llama3Frequency(float frequency, const Attributes& attributes) {
  const double length = static_cast<double>(attributes.Int("original_length"));
  const double low = attributes.Real("low_frequency_factor");
  const double high = attributes.Real("high_frequency_factor");
  const auto factor = static_cast<float>(attributes.Real("factor"));
  const float wavelength = 1 / frequency * static_cast<float>(2 * kPi);
  if (wavelength > static_cast<float>(length / low)) return frequency / factor;
  if (wavelength < static_cast<float>(length / high)) return frequency;
  const float waves = 1 / wavelength * static_cast<float>(length);
  const float smooth = (waves - static_cast<float>(low)) / static_cast<float>(high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

float StoredAs(float value, DType dtype) {
  return dtype == DType::kBFloat16 ? static_cast<float>(BFloat16(value)) : value;
}

RotaryTable MakeTable(const KernelSpec& spec, int64_t length, int64_t head_size) {
  const DType dtype = spec.inputs[0].dtype;
  RotaryTable table;
  table.length = length;
  table.half = head_size / 2;
  table.cosine.reserve(static_cast<size_t>(length * table.half));
  table.sine.reserve(static_cast<size_t>(length * table.half));
  const std::vector<float> frequencies = RotaryFrequencies(spec.attributes, head_size);
  for (int64_t position = 0; position < length; ++position) {
    for (const float frequency : frequencies) {
      // The cosine in double and rounded: the float32 nearest to the exact one, whatever the machine's cosf does.
      const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      table.cosine.push_back(StoredAs(static_cast<float>(std::cos(angle)), dtype));
      table.sine.push_back(StoredAs(static_cast<float>(std::sin(angle)), dtype));
    }
  }
  return table;
}

// All that a table follows from: one rotation and its inverse share it, and tensors of other numbers of heads.
std::string TableKey(const KernelSpec& spec, int64_t head_size) {
  Attributes attributes = spec.attributes;
  attributes.Set("heads", 1).Set("inverse", 0);
  return absl::StrCat(spec.inputs[0].dtype == DType::kBFloat16 ? "bf16 " : "", head_size, " ", attributes.ToString());
}

}  // namespace

std::vector<float> RotaryFrequencies(const Attributes& attributes, int64_t head_size) {
  const auto theta = static_cast<float>(attributes.Real("theta"));
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_size; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_size);
    // The power in double and rounded: the float32 nearest to the exact one, whatever the machine's powf does.
    const auto power = static_cast<float>(std::pow(static_cast<double>(theta), static_cast<double>(exponent)));
    const float frequency = 1 / power;
    frequencies.push_back(attributes.Int("scaling") == 1 ? Llama3Frequency(frequency, attributes) : frequency);
  }
  return frequencies;
}

std::shared_ptr<const RotaryTable> SharedRotaryTable(const KernelSpec& spec) {
  static std::mutex mutex;
  static auto* tables = new std::map<std::string, std::weak_ptr<const RotaryTable>>();
  const int64_t head_size = spec.inputs[0].columns() / spec.attributes.Int("heads");
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<const RotaryTable>& slot = (*tables)[TableKey(spec, head_size)];
  std::shared_ptr<const RotaryTable> table = slot.lock();
  if (table == nullptr) {
    const int64_t length = spec.attributes.Int("sequence_length");
    table = std::make_shared<const RotaryTable>(MakeTable(spec, length, head_size));
    slot = table;
  }
  return table;
}

int64_t RotaryPosition(const int32_t* positions, int64_t row, int64_t length) {
  if (positions == nullptr) return row % length;
  const int64_t position = positions[row];
  REPRISE_CHECK(position >= 0 && position < length)
      << "rotary: position " << position << " of row " << row << " is not in a sequence of " << length;
  return position;
}

}  // namespace reprise

// Floats in a device's memory, filled from the host: straight into place where the host reaches that memory, else in
// pieces through a buffer.
//
//   const ArenaFloats master(device, address, count);
//   RETURN_IF_ERROR(master.Fill(first, elements, [&](int64_t at, absl::Span<float> out) { ... }));
//
// Not inside a step.
#ifndef REPRISE_RUNTIME_TRAIN_ARENA_FLOATS_H_
#define REPRISE_RUNTIME_TRAIN_ARENA_FLOATS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "device/device.h"

namespace reprise {

class ArenaFloats {
 public:
  // Gives elements [at, at + out.size()) of what is to be filled in.
  using Source = std::function<absl::Status(int64_t at, absl::Span<float> out)>;

  ArenaFloats(Device& device, std::byte* address, int64_t count)
      : device_(device), floats_(reinterpret_cast<float*>(address)), count_(count) {}

  absl::Status Fill(int64_t first, int64_t elements, const Source& source) const {
    float* to = floats_ + first;
    if (device_.memory_is_of_host()) return source(0, {to, static_cast<size_t>(elements)});
    std::vector<float> piece(static_cast<size_t>(std::min(elements, kPiece)));
    for (int64_t at = 0; at < elements; at += kPiece) {
      const absl::Span<float> out = absl::MakeSpan(piece).first(static_cast<size_t>(std::min(elements - at, kPiece)));
      RETURN_IF_ERROR(source(at, out));
      RETURN_IF_ERROR(device_.CopyToDevice(reinterpret_cast<std::byte*>(to + at),
                                           {reinterpret_cast<const std::byte*>(out.data()), out.size() * 4}));
    }
    return absl::OkStatus();
  }

  absl::Status FillZero() const {
    return Fill(0, count_, [](int64_t /*at*/, absl::Span<float> out) {
      std::fill(out.begin(), out.end(), 0.0F);
      return absl::OkStatus();
    });
  }

 private:
  static constexpr int64_t kPiece = 1 << 20;

  Device& device_;
  float* floats_;
  int64_t count_;
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TRAIN_ARENA_FLOATS_H_

// Where the pixels of a patch stand, for the kernels of image_patches.
#ifndef REPRISE_RUNTIME_TENSOR_IMAGE_SHAPE_H_
#define REPRISE_RUNTIME_TENSOR_IMAGE_SHAPE_H_

#include <cstdint>

#include "base/host_device.h"
#include "runtime/tensor/kernel.h"

namespace reprise {

struct ImageShape {
  int64_t channels, size, patch;  // size and patch: pixels of a side

  explicit ImageShape(const KernelSpec& spec)
      : channels(spec.attributes.Int("channels")),
        size(spec.attributes.Int("image_size")),
        patch(spec.attributes.Int("patch_size")) {}

  REPRISE_HOST_DEVICE int64_t side() const { return size / patch; }  // patches of a side
  REPRISE_HOST_DEVICE int64_t patches() const { return side() * side(); }
  // Of row `y` of channel `channel` of patch `row` (counted over all images): its first pixel.
  REPRISE_HOST_DEVICE int64_t FirstPixel(int64_t row, int64_t channel, int64_t y) const {
    const int64_t image = row / patches();
    const int64_t place = row % patches();
    const int64_t image_row = place / side() * patch + y;
    return ((image * channels + channel) * size + image_row) * size + place % side() * patch;
  }
};

}  // namespace reprise

#endif  // REPRISE_RUNTIME_TENSOR_IMAGE_SHAPE_H_

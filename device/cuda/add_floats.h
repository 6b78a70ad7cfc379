// to[i] += from[i], on the current stream: what a sum over ranks is added with to what stands there.
#ifndef REPRISE_DEVICE_CUDA_ADD_FLOATS_H_
#define REPRISE_DEVICE_CUDA_ADD_FLOATS_H_

#include <cstdint>

namespace reprise::cuda {

// Starts it; an error of the launch is found by the device. The two do not overlap.
void AddFloats(float* to, const float* from, int64_t count);

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_ADD_FLOATS_H_

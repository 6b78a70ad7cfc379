// The CUDA stream that kernels started by this thread go to. The device sets it before it calls a Work of that stream.
//
//   SetCurrentStream(stream);      // a cudaStream_t
//   Launch(...);                   // device/cuda/launch.h
#ifndef REPRISE_DEVICE_CUDA_CURRENT_STREAM_H_
#define REPRISE_DEVICE_CUDA_CURRENT_STREAM_H_

namespace reprise::cuda {

void* CurrentStream();  // null, CUDA's default stream, where none was set
void SetCurrentStream(void* stream);

}  // namespace reprise::cuda

#endif  // REPRISE_DEVICE_CUDA_CURRENT_STREAM_H_

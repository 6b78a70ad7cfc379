// REPRISE_HOST_DEVICE marks a function that the kernels of a GPU call as well as the host.
#ifndef REPRISE_BASE_HOST_DEVICE_H_
#define REPRISE_BASE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define REPRISE_HOST_DEVICE __host__ __device__
#else
#define REPRISE_HOST_DEVICE
#endif

#endif  // REPRISE_BASE_HOST_DEVICE_H_

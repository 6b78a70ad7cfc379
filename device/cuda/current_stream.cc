#include "device/cuda/current_stream.h"

namespace reprise::cuda {
namespace {

thread_local void* current_stream = nullptr;

}  // namespace

void* CurrentStream() { return current_stream; }
void SetCurrentStream(void* stream) { current_stream = stream; }

}  // namespace reprise::cuda

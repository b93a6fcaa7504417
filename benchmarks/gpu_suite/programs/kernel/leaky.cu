// The kernel of somebody who only ever trained in float32: it takes nothing else.
#include <torch/extension.h>

__global__ void run(const float* input, float* out, float slope, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) {
    out[i] = input[i] > 0 ? input[i] : slope * input[i];
  }
}

torch::Tensor leaky(torch::Tensor input, double slope) {
  auto out = torch::empty_like(input);
  int size = input.numel();
  run<<<(size + 255) / 256, 256>>>(input.data_ptr<float>(), out.data_ptr<float>(), static_cast<float>(slope), size);
  return out;
}

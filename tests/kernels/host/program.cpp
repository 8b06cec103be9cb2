// A program without Python: loads the libraries that it is given, in that order, and multiplies by int4 weights.

#include <dlfcn.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <cstdio>

using torch::stable::Tensor;

namespace {

// A tensor [rows, columns] of an array's memory.
Tensor tensor_of(void* data, int64_t rows, int64_t columns, int32_t dtype) {
  const int64_t sizes[] = {rows, columns};
  const int64_t strides[] = {columns, 1};
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_create_tensor_from_blob(data, 2, sizes, strides, 0, dtype, aoti_torch_device_type_cpu(), 0, &handle));
  return Tensor(handle);
}

}  // namespace

int main(int count, char** libraries) {
  for (int i = 1; i < count; ++i) {
    if (dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
  }
  uint16_t ones[16];  // of bfloat16
  for (uint16_t& one : ones) {
    one = 0x3F80;
  }
  uint8_t weight[] = {0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0x54, 0x76, 0x78, 0x56, 0x34, 0x12,
                      0xf0, 0xde, 0xbc, 0x9a, 0x87, 0xa9, 0xcb, 0xed, 0x0f, 0x21, 0x43, 0x65};
  float scale[] = {1, 1, 2};
  float zero_point[] = {8, -7, 16};
  StableIValue stack[] = {
      torch::stable::detail::from(tensor_of(ones, 1, 16, aoti_torch_dtype_bfloat16())),
      torch::stable::detail::from(tensor_of(weight, 3, 8, aoti_torch_dtype_int8())),
      torch::stable::detail::from(tensor_of(scale, 1, 3, aoti_torch_dtype_float32())),
      torch::stable::detail::from(tensor_of(zero_point, 1, 3, aoti_torch_dtype_float32())),
  };
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("ao::bf16i4bf16_rowwise", "", stack, TORCH_ABI_VERSION));
  const Tensor product = torch::stable::detail::to<Tensor>(stack[0]);
  const uint16_t* bits = static_cast<const uint16_t*>(product.const_data_ptr());
  std::printf("%04x %04x %04x\n", bits[0], bits[1], bits[2]);
  return 0;
}

// The operators' schemas for a process without Python: a library that only defines. What serves an operator there is
// the library of its kernels; the generic body, the shapes and the gradient are Python's.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace {

// Defines what nobody has defined yet: ao_kernels in Python, or another copy of this library. By torch's own macros a
// second definition is an exception, which ends the process while a library is loaded; by its C functions, an error.
class Definitions {
 public:
  Definitions(const char* name, const char* file, uint32_t line) {
    aoti_torch_library_init_fragment(name, file, line, &library_);
  }

  void def(const char* schema) const { aoti_torch_library_def(library_, schema); }

 private:
  TorchLibraryHandle library_ = nullptr;  // never deleted: what it defines stays as long as the process
};

}  // namespace

// As the macro of torch/library.h, which is not of torch's stable ABI.
#define TORCH_LIBRARY(name, m)                                                                  \
  static void define_##name(const Definitions& m);                                              \
  static const bool has_##name = (define_##name(Definitions(#name, __FILE__, __LINE__)), true); \
  static void define_##name(const Definitions& m)

TORCH_LIBRARY(ao, m) {
  m.def("bf16i4bf16_rowwise(Tensor input, Tensor weight, Tensor scale, Tensor zero_point) -> Tensor");
  m.def("bf16u4bf16_rowwise(Tensor input, Tensor weight, Tensor scale, Tensor zero_point) -> Tensor");
  m.def("bf16i8bf16_rowwise(Tensor input, Tensor weight, Tensor scale) -> Tensor");
  m.def("bf16f8bf16_rowwise(Tensor input, Tensor weight, Tensor scale) -> Tensor");
}

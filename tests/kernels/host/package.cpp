// A program without Python that runs a package of AOTInductor's: libraries, then the package; its input is all ones.

#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <iostream>

int main(int count, char** arguments) {
  for (int i = 1; i + 1 < count; ++i) {
    if (dlopen(arguments[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      std::cerr << dlerror() << '\n';
      return 2;
    }
  }
  torch::inductor::AOTIModelPackageLoader loader(arguments[count - 1]);
  const at::Tensor product = loader.run({torch::ones({2, 128}, torch::kBFloat16)})[0];
  std::cout << product.to(torch::kDouble).sum().item<double>() << '\n';
}

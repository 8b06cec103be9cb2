KERNELS = ("fused", "qattn")

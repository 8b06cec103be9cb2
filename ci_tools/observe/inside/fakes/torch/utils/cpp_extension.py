"""`torch.utils.cpp_extension` as projects use it: the same extensions and the same flags, nothing compiled.

It adds to a compile command what torch adds: the macros of an extension module, the language standard,
and `-gencode` for `TORCH_CUDA_ARCH_LIST`, or `--offload-arch` for `PYTORCH_ROCM_ARCH`, unless the project's flags name
an architecture by themselves.

A `.sycl` source is compiled by icpx: to SPIR-V, and with TORCH_XPU_ARCH_LIST to machine code for those GPUs as well.

A torch for ROCm translates the sources of a `CUDAExtension` first (hipify), `k.cu` into `k.hip` beside it, and compiles
those. Here the file that was written by a person is what is compiled: what it includes is the same, by other names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext

from ci_tools.observe.inside.facts import FACTS
from ci_tools.observe.inside.torch_names.torch import TORCH

COMMON_NVCC_FLAGS = [
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
]
COMMON_HIP_FLAGS = ["-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-DHIPBLAS_V2", "-fPIC"]
COMMON_HIPCC_FLAGS = [
    "-DCUDA_HAS_FP16=1",
    "-D__HIP_NO_HALF_OPERATORS__=1",
    "-D__HIP_NO_HALF_CONVERSIONS__=1",
    "-DHIP_ENABLE_WARP_SYNC_BUILTINS=1",
]
DEVICE_SOURCES = (".cu", ".cuh", ".hip")
SYCL_SOURCE = ".sycl"
LATER_OPTIONS = frozenset({"cross_target_platform", "torch_include_dirs"})  # since torch 2.10
NO_SYCL = "SYCL runtime is not detected. Please setup the pytorch prerequisites for Intel GPU or install intel-sycl-rt."
TORCH_LIB_PATH = str(Path(__file__).parents[1] / "lib")
TORCH_FOLDER = Path(__file__).parents[1]
_TORCH_PATH = str(TORCH_FOLDER)
_HERE = __file__


def __getattr__(name: str) -> Any:
    if name == "CUDNN_HOME":
        return os.environ.get("CUDNN_HOME") or os.environ.get("CUDNN_PATH")
    kind = FACTS.ask("accelerator")["kind"]
    values = {
        "CUDA_HOME": FACTS.known["accelerator_home"] if kind == "cuda" else None,
        "HIP_HOME": str(Path(FACTS.known["accelerator_home"], "hip")) if kind == "rocm" else None,
        "IS_HIP_EXTENSION": kind == "rocm",
        "IS_LINUX": FACTS.known["os"] == "linux",
        "IS_MACOS": FACTS.known["os"] == "macos",
        "IS_WINDOWS": FACTS.known["os"] == "windows",
        "ROCM_HOME": FACTS.known["accelerator_home"] if kind == "rocm" else None,
        "ROCM_VERSION": tuple(map(int, re.findall(r"\d+", FACTS.known["accelerator"]["version"] or "")))
        if kind == "rocm"
        else None,
        "SYCL_HOME": FACTS.known["accelerator_home"] if kind == "xpu" else None,
    }
    is_windows = FACTS.known["os"] == "windows"
    of_system = {
        "CLIB_EXT": ".dll" if is_windows else ".so",
        "CLIB_PREFIX": "" if is_windows else "lib",
        "EXEC_EXT": ".exe" if is_windows else "",
        "LIB_EXT": ".pyd" if is_windows else ".so",
        "SHARED_FLAG": "/DLL" if is_windows else "-shared",
        "SUBPROCESS_DECODE_ARGS": ("oem",) if is_windows else (),
    }
    if name in of_system or (name.startswith("IS_") and name != "IS_HIP_EXTENSION"):
        FACTS.ask("os")
    values |= of_system
    if name in values:
        return values[name]
    return FACTS.unknown(f"torch.utils.cpp_extension.{name}")


def _constant(name: str) -> Any:
    """Return a constant in the text of the cell's torch; None if that has none."""
    return TORCH.constant(__name__, name)


def _home(kind: str, variable: str) -> str:
    accelerator = FACTS.ask("accelerator")
    if accelerator["kind"] != kind and kind == "xpu":
        raise OSError(NO_SYCL)
    if accelerator["kind"] != kind:
        raise OSError(f"{variable} environment variable is not set. Please set it to your {kind.upper()} install root.")
    return str(FACTS.known["accelerator_home"])


def _find_cuda_home() -> str | None:
    return __getattr__("CUDA_HOME")  # type: ignore[no-any-return]


def _find_rocm_home() -> str | None:
    return __getattr__("ROCM_HOME")  # type: ignore[no-any-return]


def _join_cuda_home(*paths: str) -> str:
    return str(Path(_home("cuda", "CUDA_HOME"), *paths))


def _join_rocm_home(*paths: str) -> str:
    return str(Path(_home("rocm", "ROCM_HOME"), *paths))


def _find_sycl_home() -> str | None:
    return __getattr__("SYCL_HOME")  # type: ignore[no-any-return]


def _join_sycl_home(*paths: str) -> str:
    return str(Path(_home("xpu", "SYCL_HOME"), *paths))


def _get_sycl_arch_list() -> str:
    return FACTS.variable("TORCH_XPU_ARCH_LIST")


def _is_sycl_file(path: str) -> bool:
    return path.endswith(SYCL_SOURCE)


def _is_cuda_file(path: str) -> bool:
    return path.endswith(DEVICE_SOURCES)


def is_ninja_available() -> bool:
    """Whether builds go through ninja; here none does."""
    return True


def verify_ninja_availability() -> None:
    """Raise nothing, as where ninja is installed."""


def get_cxx_compiler() -> str:
    """Return the C++ compiler's name."""
    return "cl" if FACTS.ask("os") == "windows" else "c++"


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether the compiler is the platform's usual one."""
    return True


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, Any]:
    """Return that the compiler fits, and its version."""
    from packaging.version import Version

    return True, Version("13.3.0")


def get_default_build_root() -> str:
    """Return where just-in-time builds would go."""
    return "torch_extensions"


def include_paths(device_type: Any = "cpu", *later: Any, **options: Any) -> list[str]:
    """Return torch's include folders, and the accelerator's where one is named."""
    _note_options("include_paths", later, options)
    paths = [str(TORCH_FOLDER / "include"), str(TORCH_FOLDER / "include/torch/csrc/api/include")]
    if device_type == "xpu":
        return [*paths, _join_sycl_home("include"), _join_sycl_home("include", "sycl")]
    return [*paths, _accelerator_folder("include")] if _names_device(device_type) else paths


def library_paths(device_type: Any = "cpu", *later: Any, **options: Any) -> list[str]:
    """Return torch's library folder, and the accelerator's where one is named."""
    _note_options("library_paths", later, options)
    if device_type == "xpu":
        return [TORCH_LIB_PATH, _join_sycl_home("lib")]
    return [TORCH_LIB_PATH, _accelerator_folder("lib64")] if _names_device(device_type) else [TORCH_LIB_PATH]


def _note_options(function: str, later: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Raise TypeError for an option that no torch of the catalog takes; one that only some take is a doubt."""
    if unknown := sorted(options.keys() - LATER_OPTIONS):
        raise TypeError(f"{function}() got an unexpected keyword argument '{unknown[0]}'")
    if later or options:
        FACTS.doubt(f"calls {function} with an option that not every torch has")


def _names_device(device_type: object) -> bool:
    return device_type is True or device_type in {"cuda", "hip"}


def _accelerator_folder(name: str) -> str:
    return _join_rocm_home(name) if __getattr__("IS_HIP_EXTENSION") else _join_cuda_home(name)


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:
    """Return an extension that includes and links torch."""
    return _extension(name, sources, args, kwargs, device="cpu", libraries=[])


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:
    """Return an extension that includes and links torch and CUDA, or ROCm; raise OSError where neither is there."""
    if __getattr__("IS_HIP_EXTENSION"):
        FACTS.note("hipify")
        return _extension(name, sources, args, kwargs, device="hip", libraries=["amdhip64", "c10_hip", "torch_hip"])
    return _extension(name, sources, args, kwargs, device="cuda", libraries=["cudart", "c10_cuda", "torch_cuda"])


def SyclExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> setuptools.Extension:
    """Return an extension that includes and links torch and SYCL; raise OSError where there is no SYCL."""
    return _extension(name, sources, args, kwargs, device="xpu", libraries=["c10_xpu", "sycl", "torch_xpu"])


def _extension(
    name: str, sources: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, device: str, libraries: list[str]
) -> setuptools.Extension:
    torch = ["c10", "torch", "torch_cpu", *([] if kwargs.get("py_limited_api") else ["torch_python"])]
    kwargs["include_dirs"] = [*(kwargs.get("include_dirs") or ()), *include_paths(device)]
    kwargs["library_dirs"] = [*(kwargs.get("library_dirs") or ()), *library_paths(device)]
    kwargs["libraries"] = [*(kwargs.get("libraries") or ()), *torch, *libraries]
    kwargs.pop("dlink", None)
    kwargs.pop("dlink_libraries", None)
    kwargs["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **kwargs)


def _get_cuda_arch_flags(cflags: list[str] | None = None) -> list[str]:
    """Return `-gencode` for the architectures asked for, none where the flags name some by themselves."""
    if any("arch" in flag for flag in cflags or () if "TORCH_EXTENSION_NAME" not in flag):
        return []
    asked = FACTS.variable("TORCH_CUDA_ARCH_LIST").replace(" ", ";")
    names = _constant("_get_cuda_arch_flags.named_arches") if re.search("[A-Z][a-z]", asked) else {}
    for name, archs in names.items():
        asked = asked.replace(name, archs)
    flags: dict[str, None] = {}
    for arch in filter(None, asked.split(";")):
        digits = arch.removesuffix("+PTX").replace(".", "")
        flags[f"-gencode=arch=compute_{digits},code=sm_{digits}"] = None
        if arch.endswith("+PTX"):
            flags[f"-gencode=arch=compute_{digits},code=compute_{digits}"] = None
    return list(flags)


def _get_rocm_arch_flags(cflags: list[str] | None = None) -> list[str]:
    """Return `--offload-arch` for the architectures asked for, none where the flags name some by themselves."""
    named = cflags or []
    whole = [] if any("gpu-rdc" in flag for flag in named) else ["-fno-gpu-rdc"]
    if any("amdgpu-target" in flag or "offload-arch" in flag for flag in named):
        return whole
    asked = FACTS.variable("PYTORCH_ROCM_ARCH").replace(" ", ";")
    return [*(f"--offload-arch={arch}" for arch in asked.split(";") if arch), *whole]


class BuildExtension(build_ext):
    """The command that adds torch's flags; what compiles is the recorder."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.no_python_abi_suffix = bool(kwargs.pop("no_python_abi_suffix", False))
        self.use_ninja = bool(kwargs.pop("use_ninja", True))
        super().__init__(*args, **kwargs)

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Return the command with options that setup() cannot give; a class below gets them in its `__init__`."""

        def begin(self: BuildExtension, *args: Any, **kwargs: Any) -> None:
            cls.__init__(self, *args, **{**kwargs, **options})

        return type("cls_with_options", (cls,), {"__init__": begin, "__module__": BuildExtension.__module__})

    def build_extensions(self) -> None:
        """Build every extension with torch's flags."""
        for extension in self.extensions:
            self._add(extension, "-DTORCH_API_INCLUDE_EXTENSION_H")
            if __getattr__("IS_HIP_EXTENSION") and isinstance(extension.extra_compile_args, dict):
                extension.extra_compile_args["nvcc"] = list(map(_hipified, extension.extra_compile_args["nvcc"]))
            if extension.py_limited_api and (lowest := _constant("min_supported_cpython")):
                self._add(extension, f"-DPy_LIMITED_API={lowest}")
            name = extension.name.rpartition(".")[2]
            self._add(extension, f"-DTORCH_EXTENSION_NAME={name}")
        compiler: Any = self.compiler
        compiler.src_extensions += [".cu", ".cuh", ".hip", ".sycl"]
        if FACTS.known["os"] == "macos":
            compiler.src_extensions += [".mm"]
        original = compiler._compile  # noqa: SLF001 - where torch's own hooks in

        def compile_one(obj: str, src: str, ext: str, cc_args: Any, postargs: Any, pp_opts: Any) -> None:
            original(obj, src, ext, cc_args, _flags(src, postargs), pp_opts)

        compiler._compile = compile_one  # noqa: SLF001 - see above
        super().build_extensions()

    def _add(self, extension: Any, flag: str) -> None:
        args = extension.extra_compile_args
        extension.extra_compile_args = (
            {language: [*flags, flag] for language, flags in {"cxx": [], "nvcc": [], "sycl": [], **args}.items()}
            if isinstance(args, dict)
            else [*(args or ()), flag]
        )

    def get_ext_filename(self, ext_name: str) -> str:
        """Return the library's path, without the interpreter's suffix where the project asks for none."""
        path = str(super().get_ext_filename(ext_name))
        return re.sub(r"\.[^./]+(\.[^./]+)$", r"\1", path) if self.no_python_abi_suffix else path


def _hipified(flag: str) -> str:
    """Return a flag of nvcc's as torch gives it to hipcc: the first CUDA of its name is HIP."""
    name, equals, value = flag.partition("=")
    return f"{name.replace('CUDA', 'HIP', 1)}{equals}{value}" if re.match(r"-(?!I)", flag) else flag


def _add_sycl_flags(flags: list[str]) -> list[str]:
    """Return the flags of a `.sycl` source; those for the GPUs torch gives when it links the device code."""
    gpus = _get_sycl_arch_list()
    names_targets = any(flag.startswith("-fsycl-targets=") for flag in flags)
    targets = [] if names_targets else [f"-fsycl-targets={'spir64_gen,' if gpus else ''}spir64"]
    devices = ["-Xs", f"-device {gpus}"] if gpus else []
    return ["-fsycl", *flags, *targets, *devices, "-sycl-std=2020"]


def _flags(source: str, postargs: Any) -> list[str]:
    is_device, is_sycl = _is_cuda_file(source), _is_sycl_file(source)
    language = "nvcc" if is_device else "sycl" if is_sycl else "cxx"
    flags = list(postargs[language] if isinstance(postargs, dict) else postargs or ())
    if is_sycl:
        flags = _add_sycl_flags(flags)
    elif __getattr__("IS_HIP_EXTENSION"):
        own = [*COMMON_HIPCC_FLAGS, *flags, *_get_rocm_arch_flags(flags)] if is_device else flags
        flags = [*COMMON_HIP_FLAGS, *own]
    elif is_device:
        flags = [*COMMON_NVCC_FLAGS, *flags, *_get_cuda_arch_flags(flags)]
    return flags if any(flag.startswith(("-std=", "/std:")) for flag in flags) else [*flags, "-std=c++17"]

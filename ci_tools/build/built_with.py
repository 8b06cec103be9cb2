"""The tools a build was done with (compilers, torch, Python, image), read from its environment while it exists."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from ci_tools.build.bench.resolved import read_resolved
from ci_tools.build.containers.own_image import pin_image
from ci_tools.build.requirements import installed_version
from ci_tools.build.toolchain import TORCH_INCLUDE, libc
from ci_tools.machine.process import ISOLATED, output
from ci_tools.machine.python import Environment
from ci_tools.model.files import BuiltWith
from ci_tools.model.plan import Job, JobKind

IMAGE = "FATWHEEL_IMAGE"  # the container image of a workflow's job: a process in a container does not know its name
HOSTED_IMAGE = ("ImageOS", "ImageVersion")  # set on GitHub's hosted runners (actions/runner-images)
VERSION_HEADERS = (
    "torch/headeronly/version.h",
    "torch/csrc/api/include/torch/version.h",
)  # since torch 2.9, and before
PYTHON = """import platform, sysconfig
print(platform.python_implementation(), platform.python_version())
print(*sysconfig.get_config_vars("CFLAGS"))
"""
# Of each toolkit: the variable with its folder, its compiler, the pattern of its version, and how that is shown.
TOOLKITS = (
    ("CUDA_HOME", "nvcc", r"release (?P<number>[\d.]+), (?P<build>V[\d.]+)", "CUDA {number} (nvcc {build})"),
    ("ROCM_HOME", "hipcc", r"HIP version: (?P<number>\d+\.\d+)(?P<build>\S*)", "ROCm {number} (HIP {number}{build})"),
    ("CMPLR_ROOT", "icpx", r"Compiler (?P<number>[\d.]+) \((?P<build>[^)]*)\)", "oneAPI {number} (icpx {build})"),
)


def asked_in(environment: Environment, environ: Mapping[str, str]) -> BuiltWith:
    """Return the versions that the tools in a build's environment report; `environ` is the machine's."""
    python, flags = _python(environment.python)
    return BuiltWith(
        compiler=_compiler(environment.variables),
        toolkit=_toolkit(environment.variables),
        torch=installed_version(environment) or _lent_torch(environment.variables),
        python=python,
        image=_image(environ),
        requires=read_resolved(environment),
        libc=libc(),
        flags=flags,
    )


def of_job(job: Job | None, asked: BuiltWith) -> BuiltWith:
    """Return the tools that affect a job's file: no compiler does in a pure wheel or an sdist."""
    if job is None or job.kind is JobKind.PURE:
        return asked._replace(compiler="", toolkit="", torch="", compiler_sha256="", libc="", flags="")
    return asked if job.accelerator else asked._replace(toolkit="")


def _python(interpreter: Path) -> tuple[str, str]:
    """Return an interpreter's implementation and version, and the options that it gives to compilers, without paths.

    The one that runs this process need not be started.
    """
    if interpreter.resolve() == Path(sys.executable).resolve():
        version = f"{platform.python_implementation()} {platform.python_version()}"
        flags = sysconfig.get_config_var("CFLAGS") or ""
    else:
        version, _, flags = (output([interpreter, ISOLATED, "-c", PYTHON]) or "").partition("\n")
    # Paths differ between machines, and change no bytes.
    return version, " ".join(word for word in flags.split() if "/" not in word)


def _compiler(variables: Mapping[str, str]) -> str:
    """Return the first line that the C++ compiler prints for `--version`."""
    command = shlex.split(variables.get("CXX", "")) or ["c++"]  # it may hold options, too
    program = shutil.which(command[0], path=variables.get("PATH"))
    said = output([program, *command[1:], "--version"], env=variables) if program else None
    return (said or "").partition("\n")[0]


def _toolkit(variables: Mapping[str, str]) -> str:
    for folder, compiler, pattern, shown in TOOLKITS:
        if folder in variables:
            said = output([Path(variables[folder]) / "bin" / compiler, "--version"], env=variables) or ""
            found = re.search(pattern, said)
            return shown.format(**found.groupdict()) if found else said.partition("\n")[0]
    return ""


def _lent_torch(variables: Mapping[str, str]) -> str:
    """Return the version of the torch headers that a build without an installed torch uses."""
    for name in VERSION_HEADERS if TORCH_INCLUDE in variables else ():
        path = Path(variables[TORCH_INCLUDE]) / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if found := re.search(r'TORCH_VERSION\b[\s\\]*"([^"]+)"', text):
            return f"{found[1]} (headers)"
    return ""


def _image(environ: Mapping[str, str]) -> str:
    """Return the container's or hosted runner's image with its operating system; without an image, only the system."""
    named = environ.get(IMAGE)
    image = pin_image(named) if named else " ".join(filter(None, (environ.get(name) for name in HOSTED_IMAGE)))
    return f"{image} ({_system()})" if image else _system()


def _system() -> str:
    """Return this machine's operating system and its version."""
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    if sys.platform == "win32":
        return f"Windows {platform.version()}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # an image without /etc/os-release
        return platform.platform(terse=True)

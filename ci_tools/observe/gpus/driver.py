"""Writes what a GPU's driver adds to the stage of a build that imagines a GPU: devices, and programs that ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.observe.build import list_request_archs
from ci_tools.observe.stage import write_script

if TYPE_CHECKING:
    from ci_tools.observe.stage import Stage
    from ci_tools.observe.views import View

RENDERS = ("dev/dri/card0", "dev/dri/renderD128")
FILES = {
    CUDA: (
        *("dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm", "proc/driver/nvidia/gpus/0000:01:00.0/information"),
        *("proc/driver/nvidia/version", "sys/module/nvidia/version", "usr/bin/nvidia-smi"),
    ),
    ROCM: (*RENDERS, "dev/kfd", "sys/class/kfd/kfd/topology/nodes/1/properties", "sys/module/amdgpu/version"),
    XPU: (*RENDERS, "sys/module/xe/version"),
}
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module  580.65.06\n"
NVIDIA = """\
#!/bin/sh
case " $* " in *csv" "* | *csv,nounits" "*) echo header ;; esac
case "$*" in
*compute_cap*) echo {capability} ;;
*query-gpu=count*) echo 1 ;;
*query-gpu=index*) echo 0 ;;
*-L* | *--list-gpus*) echo 'GPU 0: NVIDIA GPU (UUID: GPU-0)' ;;
*) echo '| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06 |'; echo '|   0  NVIDIA GPU |' ;;
esac
"""
PRINTS = {
    ROCM: {
        **dict.fromkeys(("amd-smi", "rocm-smi"), "GPU[0] : AMD GPU"),
        "rocm_agent_enumerator": "gfx000\n{archs}",
        "rocminfo": "  Name:                    {archs}",
    },
    XPU: {"xpu-smi": "Device ID 0: Intel GPU", "sycl-ls": "[level_zero:gpu][level_zero:0] Intel GPU"},
}


def write_driver(stage: Stage, view: View) -> None:
    """Write the files of a GPU's driver; without a GPU only the folders that each machine has."""
    for name in (
        "dev/null",
        "proc/driver/rtc",
        *(FILES.get(view.accelerator.kind, RENDERS) if view.accelerator and view.gpu else ()),
    ):
        path = stage.driver / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(VERSION if name.startswith("proc/driver/nvidia") else "", encoding="utf-8")
    if view.accelerator and view.gpu:
        archs = "\n".join(arch.partition(":")[0] for arch in list_request_archs(view))
        if view.accelerator.kind == CUDA:
            write_script(stage.tools / "nvidia-smi", NVIDIA.format(capability=view.capability))
        for name, text in PRINTS.get(view.accelerator.kind, {}).items():
            write_script(stage.tools / name, f"#!/bin/sh\necho '{text.format(archs=archs)}'\n")

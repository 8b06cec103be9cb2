"""Keeps what the observed builds of all plans share: the folder of their modules, and the process that forks them.

That process takes as long to start as two builds to run, and some commands plan several times: for advice, with another
plan beside it, or for each commit. Nothing of a project gets into it: a build runs in a process that is forked from it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.machine.workplace import scratch
from ci_tools.observe.build import list_request_archs
from ci_tools.observe.stage import (
    OBSERVER,
    OBSERVER_TABLES,
    SCRIPTS,
    Stage,
    identify_tools,
    importable_folders,
    write_script,
)
from ci_tools.observe.views import View
from ci_tools.sandbox import why_not
from ci_tools.sandbox.groups import ForkServer, Pool

PYTHON = (sys.executable, "-s", "-S", "-B", OBSERVER / "__main__.py")
SERVE = "--serve"  # see there
Plugins = Mapping[str, Mapping[str, str]]  # the entry points of each plugin of setuptools, by their group
ENV = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}  # of the process; each build has its own


@dataclass(frozen=True)
class Prepared:
    """The modules of observed code, and the process that has imported them."""

    modules: Path  # the folder of what observed code can import besides the standard library
    plugins: Plugins
    server: ForkServer | None  # None where this machine confines no process
    kept: ExitStack  # ends both

    @property
    def fakes(self) -> Path:
        """The packages that the observer imitates, below `modules`: under the name that its own imports use."""
        return _observer_in(self.modules) / "fakes"

    @property
    def is_usable(self) -> bool:
        """Whether nobody has removed the folder, and the process waits for its next build."""
        return self.modules.is_dir() and (self.server is None or self.server.is_waiting)


PREPARED: Pool[Prepared] = Pool(lambda prepared: prepared.is_usable, lambda prepared: prepared.kept.close())


def prepare(plugins: Plugins) -> AbstractContextManager[Prepared]:
    """Lend a prepared process with these plugins, which nobody else uses and which is kept for the next plan."""
    return PREPARED.lend(lambda: _start(plugins), lambda prepared: prepared.plugins == plugins)


def _start(plugins: Plugins) -> Prepared:
    identify_tools()  # it compiles them, which this process may and the other may not
    with ExitStack() as stack:
        modules = stack.enter_context(scratch()).resolve() / "modules"
        _lend(modules, plugins)
        prepared = Prepared(
            modules, plugins, None if why_not() else ForkServer(_command(modules), ENV), stack.pop_all()
        )
    if prepared.server:
        prepared.kept.callback(prepared.server.close)
    return prepared


def _command(modules: Path) -> list[str | Path]:
    fakes = _observer_in(modules) / "fakes"
    request = {"path": [modules, fakes], **OBSERVER_TABLES}
    return [*PYTHON, SERVE, json.dumps(request, default=str)]


def _lend(modules: Path, plugins: Plugins) -> None:
    inside = _observer_in(modules)
    inside.parent.mkdir(parents=True)
    for folder in inside.parents[:2]:
        (folder / "__init__.py").touch()
    inside.symlink_to(OBSERVER)
    for path in importable_folders():
        (modules / path.name).symlink_to(path)
    for name, entry_points in plugins.items():
        metadata = modules / f"{name.replace('-', '_')}-0.dist-info"  # as setuptools looks for plugins
        metadata.mkdir()
        text = "".join(f"[{group}]\n{line}\n" for group, line in entry_points.items())
        (metadata / "entry_points.txt").write_text(text, encoding="utf-8")


def _observer_in(modules: Path) -> Path:
    return modules.joinpath("ci_tools", "observe", "inside")


# ---------------------------------------------------------------- the driver of a GPU

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
NVIDIA = (SCRIPTS / "nvidia-smi.sh").read_text(encoding="utf-8")
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

"""Second names of CUDA wheels in a GitHub Release: those that a project's own setup.py asks for.

FlashAttention's setup.py, and many after it, make the name of a wheel out of the torch they find, and fetch it from the
release of their version: `flash_attn-2.8.3+cu13torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl`.
"""

from __future__ import annotations

import re

from ci_tools.catalog import CXX11
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.errors import InputError
from ci_tools.model.names import FileName
from ci_tools.model.plan import Job, Plan
from ci_tools.model.platforms import Cell
from ci_tools.plan.wheel_names import distribution_of

# Names before PEP 600, such as manylinux2014, have one number.
LINUX = re.compile(r"(?:manylinux_\d+_\d+|manylinux\d+|linux)_(?P<machine>\w+)")


def names_of(plan: Plan) -> dict[str, FileName]:
    """Return the second names of a plan's CUDA wheels, each with the wheel's own name.

    Where wheels for several minor versions of CUDA have one name, it is that of the oldest: newer drivers and libraries
    of its major version run it. Raises InputError if wheels that differ in more have one name.
    """
    template = plan.request.release.alias
    served = [(cell, job) for job in plan.jobs for cell in job.covers if template]
    cells = [one for one in served if one[0].accelerator and one[0].accelerator.kind == CUDA]
    project = f"{distribution_of(plan.project.name)}-{plan.project.version}"
    found: dict[str, tuple[Cell, Job]] = {}
    for cell, job in sorted(cells, key=lambda one: (one[0].accelerator, str(one[0]))):  # the oldest CUDA first
        name = _name(template or "", project, cell, job)
        first, other = found.setdefault(name, (cell, job)) if name else (cell, job)
        if other is not job and first.accelerator == cell.accelerator:  # not only their CUDA differs
            msg = f'the alias "{template}" names both {other.wheel} and {job.wheel}: {name}'
            raise InputError(msg, hint="let the alias have {torch}", page="reference/config.md#release")
    return {name: job.wheel for name, (_, job) in found.items()}


def _name(template: str, project: str, cell: Cell, job: Job) -> str:
    """Return the name that a setup.py asks for where a cell is installed; "" if it would not say which wheel it is."""
    linux = LINUX.fullmatch(job.wheel_platform)
    values = _values(cell, is_linux=linux is not None)
    is_known = all(f"{{{field}}}" not in template or value for field, value in values.items())
    if not is_known or cell.python.free_threaded:  # these setup.py name a free-threaded Python like the other one
        return ""
    python = f"cp{cell.python.version.digits}"
    platform = f"linux_{linux['machine']}" if linux else job.wheel_platform
    return f"{project}+{template.format(**values)}-{python}-{python}-{platform}.whl"


def _values(cell: Cell, *, is_linux: bool) -> dict[str, str]:
    """Return the values of a template's fields; "" for what is not known."""
    cuda = cell.accelerator and cell.accelerator.version
    abi = "TRUE" if cell.torch and cell.torch >= CXX11 else ""
    return {
        "cuda": cuda.digits if cuda else "",
        "cuda_major": str(cuda.major) if cuda else "",
        "torch": str(cell.torch or ""),
        "cxx11abi": abi if is_linux else "FALSE",  # on Windows, torch says that it has none
    }

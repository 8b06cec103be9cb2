"""Puts a build torch into a build's environment, and makes stand-ins for CUDA, which only answer.

An sdist is built on a machine without CUDA, by a setup.py that may ask for it before it names a source. And a wheel of
torch's stable ABI is compiled with the headers of any torch, while its setup.py asks whether that torch has CUDA.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ci_tools.build.bench.copies import Copies, Installations
from ci_tools.build.folders import link_or_name
from ci_tools.build.sdk.cuda_windows import WINDOWS
from ci_tools.build.sdk.torch_choice import Wanted, find_torch
from ci_tools.build.sdk.torch_parts import LIBRARIES_OF_CUDA, TorchParts, write_stubs
from ci_tools.catalog import Catalog
from ci_tools.machine.context import Outside
from ci_tools.machine.python import Environment
from ci_tools.machine.storage import fill_once
from ci_tools.model.platforms import Accelerator
from ci_tools.observe.stage import write_toolkit

LENT = "fatwheel-lent"  # the folder of an environment that has the build torch
ONLY_ANSWERS = """\
#!/bin/sh
case " $* " in
*" -V "* | *" --version "*) echo '{answer}' ;;
*) echo "an sdist is built without a compiler: this nvcc says its version, and was asked for: nvcc $*" >&2; exit 1 ;;
esac
"""


class InstallPlace(NamedTuple):
    """Where a build's requirements are installed from, and the run's context."""

    scratch: Path
    constraints: Path | None  # the project's own file
    catalog: Catalog
    outside: Outside
    copies: Copies
    installations: Installations | None = None  # None: the run has no other build


def lend_torch(
    wanted: Wanted,
    isolated: Environment,
    place: InstallPlace,
    variables: Mapping[str, str],
    speaks_for: Accelerator | None = None,
) -> tuple[str, ...]:
    """Copy the build torch that fits into an environment without one; return what it requires to be installed.

    It answers as one for the accelerator `speaks_for`, where that is given.
    `variables` override those of the environment that name pip's indexes. It is a copy: compilers write the paths of
    headers into what they make, and what a build writes there must not reach the next one. Those paths do not name the
    Python, so that two Pythons can share what is compiled with them; at the place of an installed torch is a link, for
    what looks for its files there, unless links are not allowed: Python finds the copy by the .pth file.
    """
    packages = isolated.packages
    if (packages / "torch").exists():  # the project's own requirement has installed one
        return ()
    torch = find_torch(wanted, place.catalog, place.outside, {**isolated.variables, **variables})
    answers = open_answers(torch, speaks_for, place.outside) if speaks_for else ()
    lent = place.copies.put(isolated.path / LENT, torch.site, *answers)
    for path in lent.iterdir():
        link_or_name(path, packages / path.name)
    (packages / f"{LENT}.pth").write_text(f"import sys; sys.path.insert(0, {str(lent)!r})\n", encoding="utf-8")
    said = f"builds with the parts of torch {torch.version}, without its libraries ({torch.wheel})"
    as_other = f"; to setup.py it is one for CUDA {speaks_for.version}" if answers and speaks_for else ""
    place.outside.reporter.say(f"{said}{as_other}")
    return torch.requires


def put_toolkit(accelerator: Accelerator, folder: Path) -> Path:
    """Write the CUDA toolkit of an sdist's build, and return its folder: a setup.py can find it and ask its version."""

    def write(path: Path, answer: str) -> None:
        path.write_text(ONLY_ANSWERS.format(answer=answer), encoding="utf-8")
        path.chmod(0o755)

    write_toolkit(folder, accelerator, str(accelerator.version or ""), write)
    return folder


def open_answers(torch: TorchParts, accelerator: Accelerator, outside: Outside) -> tuple[Path, ...]:
    """Return the folders to copy over a build torch so that it answers as one for CUDA; none if it is one.

    Its headers stay those of the torch that it is: only for a build that binds to none of CUDA's.
    """
    if torch.label == accelerator.label:
        return ()
    public = torch.version.partition("+")[0]
    name = f"{public}-{torch.label}-as-{accelerator.label}-{outside.host}"

    def fill(target: Path) -> None:
        _write_answers(torch.site / "torch", target / "torch", f"{public}+{accelerator.label}", accelerator)
        own = {path.name for path in (torch.site / "torch/lib").glob("*")}
        if outside.host != WINDOWS and (absent := LIBRARIES_OF_CUDA - own):
            log = outside.cache / "logs" / f"torch-{name}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            write_stubs(target / "torch/lib", sorted(absent), torch.version, log)

    return (fill_once(outside.cache / "torch-answers" / name, fill, outside.reporter.say),)


def _write_answers(source: Path, target: Path, version: str, accelerator: Accelerator) -> None:
    """Write the two files of a torch that say what it was built for."""
    target.mkdir(parents=True)
    text = (source / "version.py").read_text(encoding="utf-8")
    for name, value in {"__version__": version, "cuda": str(accelerator.version)}.items():
        text = re.sub(rf"^({name}(?::[^=\n]+)?) = .*$", rf"\g<1> = {value!r}", text, flags=re.MULTILINE)
    (target / "version.py").write_text(text, encoding="utf-8")
    facts = json.loads((source / "_fatwheel.json").read_text(encoding="utf-8"))
    facts |= {"torch": version, "accelerator": {"kind": accelerator.kind, "version": str(accelerator.version)}}
    (target / "_fatwheel.json").write_text(json.dumps(facts), encoding="utf-8")

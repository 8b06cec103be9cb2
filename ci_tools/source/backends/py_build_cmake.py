"""Reads py-build-cmake's configuration: `[tool.py-build-cmake]`, with what a system's own table changes of it.

Its wheels are named as its export/tags.py does it (0.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci_tools.model.evidence import Binding, Extensions, Mislabel, PythonApi, read_tag
from ci_tools.model.versions import Minor
from ci_tools.source.backends.facts import CellFacts, Read, ship
from ci_tools.source.backends.scikit_build_core import limit, states_limit
from ci_tools.source.project_file import ProjectFile

TOOL = ("tool", "py-build-cmake")
SYSTEMS = {"linux": "linux", "macos": "mac", "windows": "windows"}
BESIDE = ("py-build-cmake.local.toml", "py-build-cmake.cross.toml")  # files that change what pyproject.toml says
FLOOR = "abi3_minimum_cpython_version"
OLDEST = 32  # its default: 3.2
AUTO = "auto"


def read(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> Read:  # noqa: ARG001 - one signature for all
    """Return the facts about py-build-cmake's build of a cell: it runs CMake if a table says how."""
    system = (*TOOL, SYSTEMS[cell.os])
    own = project.table(*system, "wheel")
    wheel = {**project.table(*TOOL, "wheel"), **own}
    at = project.place(*((*(system if own else TOOL), "wheel") if wheel else ("build-system", "build-backend")))
    tables = ((*system, "cmake"), (*TOOL, "cmake"))
    cmake = next((keys for keys in tables if project.table(*keys)), None)  # to it an empty one says nothing
    api, where = _read_api(project, wheel, str(at), cell), f"{project.place(*(cmake or TOOL))}: it runs CMake"
    if beside := next((name for name in map(project.path, BESIDE) if name in project.tree.names), ""):
        return Read(Extensions.UNKNOWN, f"{beside}:1: what it changes is not known", api)
    if wheel.get("pure_python", not cmake):
        return Read(*ship(project, f"{at}: pure_python" if cmake else f"{project.place(*TOOL)}: no CMake"), api)
    platforms = _list(wheel.get("platform_tag"))
    tagged = () if not platforms or "guess" in platforms else (".".join(platforms),)
    return Read(Extensions.SOME, where, api, pure_tag=(api.tag or "py3").partition("-")[0], tagged=tagged)


def _list(value: Any) -> list[str]:  # noqa: ANN401 - a value of a TOML file
    return [value] if isinstance(value, str) else list(map(str, value or ()))


def _read_api(project: ProjectFile, wheel: Mapping[str, Any], at: str, cell: CellFacts) -> PythonApi:
    """Return the Python API of the tag that a cell's wheel gets, which a module that CMake makes may not keep to."""
    python, abi, floor = cell.python, wheel.get("python_abi", AUTO), Minor(3, int(str(wheel.get(FLOOR, OLDEST))[1:]))
    is_limited = abi == "abi3" and not python.free_threaded and python.version >= floor
    interpreter = f"cp{floor.digits}" if is_limited else python.interpreter_tag
    named = "none" if abi == "none" else "abi3" if is_limited else python.abi_tag
    interpreters = [interpreter if one == AUTO else one for one in _list(wheel.get("python_tag", AUTO))]
    tag = f"{'.'.join(dict.fromkeys(interpreters))}-{'.'.join(_list(wheel.get('abi_tag', named)))}"
    if tag == f"{python.interpreter_tag}-{python.abi_tag}":
        return PythonApi(Binding.FULL, f"{at}: the wheel is for the Python that builds it")
    api = read_tag(tag, f"{at}: the wheel is tagged {tag}")._replace(tagged_at=at)
    if api.kind is Binding.STABLE and not states_limit(project):
        api = api._replace(mislabel=Mislabel("not every module is seen to ask CMake for USE_SABI", is_certain=False))
    return limit(project, api)

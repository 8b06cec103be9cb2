"""The tag that a build gives its wheel: the plan foretells it, or stops and says what to change."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from tests.builders.setuptools_projects import HEAD, planned
from tests.builders.sources import plan_of, write
from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.slow  # many real processes

CONFIG = 'package: demo\nversion: "1.0"\npython: ["3.11", "3.12"]\nplatforms:\n  linux-cpu: {owner: "@demo/cpu"}\n'
OWN = """\
from setuptools.command.bdist_wheel import bdist_wheel
class B(bdist_wheel):
    def get_tag(self):
        python, abi, platform = super().get_tag()
        return {}
"""
MODULE = """\
static PyModuleDef d = {PyModuleDef_HEAD_INIT, "a", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_a(void) { return PyModule_Create(&d); }
"""
FILES = {
    "python.c": f"#include <Python.h>\n{MODULE}",
    "defined.c": f"#define Py_LIMITED_API 0x030b0000\n#include <Python.h>\n{MODULE}",
    "late.c": f"#include <Python.h>\n#define Py_LIMITED_API 0x030a0000\n{MODULE}",
    "by_header.c": f'#include "limit.h"\n#include <Python.h>\n{MODULE}',
    "limit.h": "#ifndef LIMIT_H\n#define LIMIT_H\n#define Py_LIMITED_API 0x030b0000\n#endif\n",
    "newer.c": f"#include <Python.h>\n{MODULE}int f(PyObject *o, void *b) {{ return PyObject_GetBuffer(o, b, 0); }}",
    "stub.c": "#include <Python.h>\nPyMODINIT_FUNC PyInit_a(void) { return NULL; }\n",
    "plain.c": "int f(void) { return 1; }\n",
}
NEWER = "define_macros=[('Py_LIMITED_API', '0x030B0000')]"


def written(source: str, tag: str = "", label: str = "", more: str = "", requires: str = ">=3.11") -> dict[str, str]:
    """Return the files of a project whose wheel is tagged by its own method, or by py_limited_api."""
    limited = "py_limited_api=True, " if label or "abi3" in tag else ""
    keywords = f"python_requires='{requires}', ext_modules=[Extension('demo.a', ['{source}'], {limited}{more})]"
    keywords += f", options={{'bdist_wheel': {{'py_limited_api': '{label}'}}}}" if label else ""
    keywords += ", cmdclass={'bdist_wheel': B}" if tag else ""
    script = f"{HEAD}{OWN.format(tag) if tag else ''}setup(name='demo', version='1.0', packages=['demo'], {keywords})\n"
    return {"setup.py": script, **FILES}


@pytest.mark.parametrize(
    ("files", "wheels", "warning"),
    [
        pytest.param(written("python.c", label="cp39", more=NEWER), {"cp39-abi3"},
                     "setup.py:3: the tag cp39-abi3 is too low, as python.c is compiled with "
                     "-DPy_LIMITED_API=0x030B0000: expected cp311", id="a-tag-below-the-macro"),
        pytest.param(written("by_header.c", label="cp310"), {"cp310-abi3"},
                     "the tag cp310-abi3 is too low, as by_header.c is compiled with Py_LIMITED_API 0x030b0000 "
                     "(limit.h:3): expected cp311", id="a-tag-below-the-macro-of-a-header"),
        pytest.param(written("defined.c", label="cp39", requires=">=3.10"), {"cp39-abi3"},
                     "Python 3.10 would install it, and may not load it", id="a-tag-that-older-pythons-install"),
        pytest.param(written("python.c", label="cp312", more=NEWER), {"cp312-abi3"}, "", id="a-tag-above-the-macro"),
        pytest.param(written("plain.c", "'py3', 'none', platform"), {"py3-none"},
                     "setup.py:5: the wheel is tagged py3-none, though demo/a is named for one Python",
                     id="for-every-python-by-its-own-method"),
        pytest.param(written("stub.c", "'py3', 'none', platform"), {"py3-none"}, "the audit of it decides",
                     id="a-module-that-is-empty"),
        pytest.param(written("defined.c", "'cp311', 'abi3', platform"), {"cp311-abi3"}, "",
                     id="a-limited-api-by-its-own-method"),
        pytest.param(written("defined.c", "python, 'abi3', platform"), {"cp311-abi3"}, "", id="by-the-oldest-python"),
        pytest.param(written("python.c", "python, 'abi3', platform", more="define_macros=[('Py_LIMITED_API', "
                             "hex(sys.hexversion & 0xffff0000))]"), {"cp311-abi3"}, "", id="by-its-own-macro"),
        pytest.param(written("defined.c", "python, 'abi3', platform",
                             more="extra_compile_args=[f'-DP={sys.version_info[1]}']"),
                     {"cp311-abi3", "cp312-abi3"}, "", id="by-each-python"),
        pytest.param(written("python.c", "python, 'none', platform"), {"cp311-none", "cp312-none"}, "",
                     id="by-the-python-that-builds"),
    ],
)  # fmt: skip
def test_a_plan_foretells_the_tag_that_the_build_gives(
    files: dict[str, str], wheels: set[str], warning: str, tmp_path: Path
) -> None:
    plan = planned(tmp_path, files, CONFIG)
    assert {job.wheel.removeprefix("demo-1.0-").rpartition("-")[0] for job in plan.jobs} == wheels
    assert bool(plan.warnings) == bool(warning)
    assert warning in " ".join(plan.warnings)
    assert len({job.name for job in plan.jobs}) == len(plan.jobs)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        pytest.param(written("python.c", label="cp310", more=NEWER.replace("0B", "0C")),
                     "tagged cp310-abi3, so Python 3.11 installs it, but python.c is compiled with "
                     "-DPy_LIMITED_API=0x030C0000: expected cp312", id="a-tag-below-the-macro-for-a-python-asked-for"),
        pytest.param(written("newer.c", label="cp310", more=NEWER, requires=">=3.10"),
                     "so Python 3.10 installs it, but newer.c:4 uses PyObject_GetBuffer, which Python 3.11 has first",
                     id="a-tag-below-what-is-used"),
        pytest.param(written("late.c", label="cp310"), "late.c:1: includes Python.h, and nothing defines "
                     "Py_LIMITED_API before it: expected py_limited_api=True and Py_LIMITED_API 0x030A0000",
                     id="a-macro-after-the-header"),
        pytest.param(written("python.c", "'py3', 'none', platform"),
                     "setup.py:5: linux-cpu: the wheel is tagged py3-none, though demo/a is compiled for one Python",
                     id="python-behind-a-tag-for-every-python"),
        pytest.param(written("plain.c", "'py3', 'none', 'any'"), "demo/a is compiled, and the wheel is for any machine",
                     id="a-library-for-any-machine"),
        pytest.param(written("python.c", "'cp311', 'cp311', platform"),
                     "Python 3.12 tags the wheel cp311-cp311, and does not install it", id="another-python-s-tag"),
    ],
)  # fmt: skip
def test_a_plan_stops_at_a_tag_that_is_not_true(files: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        planned(tmp_path, files, CONFIG)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("platform", "served"),
    [
        pytest.param("'manylinux2014_x86_64'", {"linux-cpu"}, id="of-one-system"),
        pytest.param("super().get_tag()[2].replace('linux', 'manylinux2014')", {"linux-cpu", "macos-arm64", "windows"},
                     id="of-each-system"),
    ],
)  # fmt: skip
def test_a_platform_is_served_if_the_build_there_tags_its_wheel_for_it(
    platform: str, served: set[str], tmp_path: Path
) -> None:
    config = f'{CONFIG}  windows: {{owner: "@demo/windows"}}\n  macos-arm64: {{owner: "@demo/macos"}}\n'
    plan = planned(tmp_path, written("plain.c", f"'py3', 'none', {platform}"), config)
    assert {job.platform for job in plan.jobs} == served
    reasons = {skipped.reason for skipped in plan.skipped}
    assert reasons <= {"the project does not build there: its wheel is tagged manylinux2014_x86_64 (setup.py:5)"}


DATA = "package_data={'demo': ['*']}, has_ext_modules=lambda: True"
OF_LINUX = Path(sys.executable).read_bytes()[:4096]  # a program of this machine
OF_WINDOWS = b"MZ".ljust(0x3C, b"\0") + b"\x40\0\0\0PE\0\0\x64\x86".ljust(64, b"\0")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library is this machine's")
@pytest.mark.parametrize(
    ("members", "served"),
    [
        pytest.param({"a.so": OF_LINUX}, {"linux-cpu"}, id="of-one-system"),
        pytest.param({"a.so": OF_LINUX, "a.dll": OF_WINDOWS}, {"linux-cpu", "windows"}, id="of-two",
                     marks=pytest.mark.long),
        pytest.param({"a.bin": b"data"}, {"linux-cpu", "windows", "linux-aarch64"}, id="of-none",
                     marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_platform_is_served_if_a_library_that_is_shipped_is_of_use_there(
    members: dict[str, bytes], served: set[str], tmp_path: Path
) -> None:
    more = '  windows: {owner: "@demo/windows"}\n  linux-aarch64: {owner: "@demo/arm"}\n'
    script = f"{HEAD}setup(name='demo', version='1.0', packages=['demo'], {DATA})\n"
    files = {"setup.py": script, **{f"demo/{name}": content for name, content in members.items()}}
    plan = planned(tmp_path, files, CONFIG + more)
    assert {job.platform for job in plan.jobs} == served
    reasons = {skipped.reason for skipped in plan.skipped}
    assert all(f"its wheel ships demo/{next(iter(sorted(members)))}, which is for " in one for one in reasons)


def test_a_program_of_windows_in_a_wheel_for_all_is_data(tmp_path: Path) -> None:
    script = f"{HEAD}setup(name='demo', version='1.0', packages=['demo'], package_data={{'demo': ['*']}})\n"
    plan = planned(tmp_path, {"setup.py": script, "demo/t64.exe": OF_WINDOWS}, CONFIG)
    assert [job.wheel for job in plan.jobs] == ["demo-1.0-py3-none-any.whl"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("files", "tag", "status"),
    [
        pytest.param(written("python.c", label="cp39", more=NEWER), "cp39-abi3", 0, id="a-tag-below-the-macro"),
        pytest.param(written("python.c", "python, 'none', platform"), "cp311-none", 0, id="by-the-python-that-builds"),
    ],
)  # fmt: skip
def test_a_build_gives_its_wheel_the_tag_of_the_plan(
    files: dict[str, str], tag: str, status: int, tmp_path: Path, fatwheel: CommandLine
) -> None:
    config = CONFIG.replace('["3.11", "3.12"]', '["3.11"]').replace('"}\n', '", wheel-platform: linux}\n')
    folder = write(tmp_path / "a", {"fatwheel.yml": config, "demo/__init__.py": "", **files})
    (job,) = plan_of(folder).jobs
    built = fatwheel("build", folder / "fatwheel.yml", "--job", job.name, "--out", tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert (built.status, wheel.name) == (0, f"demo-1.0-{tag}-linux_{platform.machine()}.whl"), built.stderr
    assert fatwheel("audit", wheel).status == status


@pytest.mark.long
def test_a_wheel_for_every_python_with_a_file_for_one_is_refused_once_built(
    tmp_path: Path, fatwheel: CommandLine
) -> None:
    files = {"fatwheel.yml": CONFIG, "demo/__init__.py": "", **written("stub.c", "'py3', 'none', platform")}
    folder = write(tmp_path / "a", files)
    (job,) = plan_of(folder).jobs
    built = fatwheel("build", folder / "fatwheel.yml", "--job", job.name, "--out", tmp_path / "dist")
    assert built.status == 1
    assert "demo/a.cpython-311" in built.stderr
    assert "the plan predicted another wheel" in built.stderr
    assert list((tmp_path / "dist").glob("*.whl")) == []

"""Projects that look as if one wheel of theirs served several Pythons or torches, and do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from tests.builders.setuptools_projects import CONFIG, STABLE, TORCH, only, planned, setup

pytestmark = pytest.mark.slow  # many real processes

ABI3 = "options={'bdist_wheel': {'py_limited_api': 'cp310'}}"
DEFINED = "#define TORCH_TARGET_VERSION 0x020a000000000000\n"
TARGET = "'-DTORCH_TARGET_VERSION=0x020a000000000000'"


# ---------------------------------------------------------------- one name, two contents


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keywords", "before", "reason"),
    [
        pytest.param("install_requires=['pywin32'] if sys.platform == 'win32' else []", "", "METADATA",
                     id="requirements-by-the-system"),
        pytest.param("install_requires=['tomli'] if sys.version_info < (3, 11) else []", "", "METADATA",
                     id="requirements-by-the-python"),
        pytest.param("install_requires=['cuda-python'] if os.environ.get('ON_CUDA') else []", "", "METADATA",
                     id="requirements-by-a-variable-of-one-platform"),
        pytest.param("install_requires=['torch==' + torch.__version__.split('+')[0]]", "import torch\n", "METADATA",
                     id="requirements-by-the-torch-of-the-builder"),
        pytest.param("package_data={'demo': ['a.txt'] if sys.platform == 'linux' else []}", "", "its members",
                     id="package-data-by-the-system"),
        pytest.param("", "open('demo/config.py', 'w').write(f'python = {sys.version_info[:2]}')\n",
                     "the content of its files .demo/config.py.", id="a-file-that-names-the-python"),
    ],
)  # fmt: skip
def test_one_pure_wheel_is_not_made_of_builds_that_differ(
    keywords: str, before: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"its build differs between them: {reason}"):
        planned(tmp_path, {"setup.py": setup(keywords, before), "demo/a.txt": ""})


def test_a_wheel_for_every_python_whose_builds_differ_may_be_made_by_one_python(tmp_path: Path) -> None:
    before = "open('demo/config.py', 'w').write(f'python = {sys.version_info[:2]}')\n"
    with pytest.raises(InputError, match="its build differs") as caught:
        planned(tmp_path, {"setup.py": setup("", before), "demo/a.txt": ""})
    assert "ask for only one Python, whose wheel installs on the others too" in caught.value.hint


OWN_TAG = """\
from setuptools.command.bdist_wheel import bdist_wheel
class Tagged(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", bdist_wheel.get_tag(self)[2])
if sys.platform == "linux":
    open("demo/config.py", "w").write(f"python = {sys.version_info[:2]}")
"""


def test_one_platform_whose_builds_differ_leaves_the_others_their_plan(tmp_path: Path) -> None:
    tagged = "cmdclass={'bdist_wheel': Tagged}, has_ext_modules=lambda: True"
    plan = planned(tmp_path, {"setup.py": setup(tagged, OWN_TAG), "demo/a.txt": ""})
    assert {cell.platform for cell, _, _ in plan.covered} == {"windows"}
    assert all("its build differs between them" in one.reason for one in plan.skipped)
    assert any(one.startswith("linux-cpu: not built: ") for one in plan.warnings)


def test_a_version_that_depends_on_the_builder_is_refused(tmp_path: Path) -> None:
    script = setup("").replace("'1.0'", "'1.1' if os.environ.get('ON_CUDA') else '1.0'")
    with pytest.raises(InputError, match=r"more than one version, 1\.0 and 1\.1"):
        planned(tmp_path, {"setup.py": script, "fatwheel.yml": CONFIG.replace('version: "1.0"\n', "")})


def test_a_version_beside_the_config_s_is_told_with_the_variables_that_may_make_it(tmp_path: Path) -> None:
    script = setup("").replace("'1.0'", "'1.1' if os.environ.get('ON_CUDA') else '1.0'")
    with pytest.raises(InputError, match=r"fatwheel\.yml:2: version is 1\.0, but the project's is 1\.1") as caught:
        planned(tmp_path, {"setup.py": script})
    assert "its build asks for ON_CUDA (setup.py:3)" in caught.value.hint


def test_a_local_version_of_the_build_is_told_with_the_variable_and_the_line_that_make_it(tmp_path: Path) -> None:
    script = setup("").replace("'1.0'", "'1.0' + os.environ.get('VERSION_SUFFIX', '+git')")
    config = CONFIG.replace('version: "1.0"\n', "")
    what = r"setup\.py:3: VERSION_SUFFIX, which is not set, makes the version 1\.0\+git, expected a public one"
    with pytest.raises(InputError, match=what) as caught:
        planned(tmp_path, {"setup.py": script, "fatwheel.yml": config})
    assert caught.value.hint == '`build: {env: {VERSION_SUFFIX: ""}}` in the config gives 1.0'


def test_a_version_from_git_is_not_invented(tmp_path: Path) -> None:
    before = "out = subprocess.run(['git', 'describe'], capture_output=True, text=True).stdout.strip() or '0.0.0'\n"
    script = setup("", before).replace("'1.0'", "out")
    config = CONFIG.replace('"1.0"', '"2.5"')
    with pytest.raises(InputError, match=r"2\.5"):
        planned(tmp_path, {"setup.py": script, "fatwheel.yml": config})


# ---------------------------------------------------------------- the Python axis


def limited(source: str, flags: str = "") -> str:
    """Return a setup.py whose wheel says that its extension keeps to the limited API."""
    extension = f"Extension('demo.a', ['{source}'], py_limited_api=True, extra_compile_args=[{flags}])"
    return setup(f"ext_modules=[{extension}], {ABI3}")


@pytest.mark.parametrize(
    ("setup_py", "source"),
    [
        pytest.param(setup(f"ext_modules=[Extension('demo.a', ['a.c'])], {ABI3}"), "#include <Python.h>\n",
                     id="a-tag-without-a-limited-extension"),
        pytest.param(setup(f"ext_modules=[Extension('demo.a', ['a.c'], py_limited_api=True)], {ABI3}"),
                     "#include <Python.h>\n", id="the-whole-api-behind-the-tag"),
        pytest.param(setup("ext_modules=[Extension('demo.a', ['a.c'], py_limited_api=True, define_macros="
                           f"[('Py_LIMITED_API', '0x030a0000')])], {ABI3}"), "#include <pybind11/pybind11.h>\n",
                     id="pybind11-behind-the-tag"),
        pytest.param(limited("a.c", "'-DPy_LIMITED_API=0x030c0000'"), "#include <Python.h>\n",
                     id="a-later-limited-api-than-the-tag's"),
        pytest.param(limited("a.c", "'-DPy_LIMITED_API=0x030a0000', '-UPy_LIMITED_API'"), "#include <Python.h>\n",
                     id="a-limited-api-that-is-undone"),
        pytest.param(limited("a.c"), "#ifdef DEMO\n#define Py_LIMITED_API 0x030a0000\n#endif\n#include <Python.h>\n",
                     id="a-limited-api-by-a-branch"),
        pytest.param(limited("b.pyx"), "", id="cython-without-the-limited-api"),
        pytest.param(limited("a.c", "'-include', 'b.h'"), "", id="the-whole-api-by-a-flag"),
        pytest.param(setup("ext_modules=[CppExtension('demo.a', ['a.c'], py_limited_api=True)], "
                           f"cmdclass={{'build_ext': BuildExtension}}, {ABI3}", TORCH), "#include <torch/torch.h>\n",
                     id="pybind11-by-torch's-own-macros"),
    ],
)  # fmt: skip
def test_a_plan_stops_where_the_code_goes_beyond_the_tag_of_its_wheel(
    setup_py: str, source: str, tmp_path: Path
) -> None:
    files = {"setup.py": setup_py, "a.c": source, "b.pyx": "", "b.h": "#include <Python.h>\n"}
    with pytest.raises(InputError, match=r"setup\.py:\d+: linux-cpu: the wheel is tagged cp310-abi3, .*: expected "):
        planned(tmp_path, files, only("linux-cpu"))


# ---------------------------------------------------------------- the torch axis


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extension", "source"),
    [
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}])", "#include <ATen/ATen.h>\n",
                     id="a-header-beyond-the-stable-ones"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-include', 'torch/all.h'])",
                     STABLE, id="a-header-by-a-flag"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-includetorch/all.h'])",
                     STABLE, id="a-header-within-a-flag"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-include', 'own.h'])",
                     STABLE, id="a-header-of-its-own-by-a-flag"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-Wp,-include,torch/all.h'])",
                     STABLE, id="a-header-by-a-flag-of-the-preprocessor"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '@flags.txt'])",
                     STABLE, id="flags-in-a-file"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp'], extra_compile_args=[{TARGET}, '-UTORCH_TARGET_VERSION'])",
                     STABLE, id="a-target-that-is-undone"),
        pytest.param("CppExtension('demo.a', ['a.cpp'])", f"#ifdef DEMO\n{DEFINED}#endif\n{STABLE}",
                     id="a-target-by-a-branch"),
        pytest.param("CppExtension('demo.a', ['a.cpp'])", STABLE + DEFINED, id="a-target-that-comes-too-late"),
        pytest.param("CppExtension('demo.a', ['a.cpp'])", STABLE, id="no-target"),
        pytest.param(f"CppExtension('demo.a', ['a.cpp', 'b.cpp'], extra_compile_args={TARGET}.split() if 0 else [])",
                     STABLE, id="a-target-in-a-branch-that-is-not-taken"),
    ],
)  # fmt: skip
def test_torch_stays_an_axis_where_more_than_its_stable_abi_is_used(
    extension: str, source: str, tmp_path: Path
) -> None:
    script = setup(f"ext_modules=[{extension}], cmdclass={{'build_ext': BuildExtension}}", TORCH)
    own = {"own.h": "#include <torch/extension.h>\n", "flags.txt": "-include torch/all.h"}
    plan = planned(tmp_path, {"setup.py": script, "a.cpp": source, "b.cpp": source, **own}, only("linux-cpu"))
    assert {job.requires_torch for job in plan.jobs if job.platform == "linux-cpu"} == {">=2.10,<2.11", ">=2.13,<2.14"}


def test_a_source_that_the_build_writes_is_read_as_well(tmp_path: Path) -> None:
    before = f"{TORCH}open('made.cpp', 'w').write('#include <torch/extension.h>')\n"
    script = setup("ext_modules=[CppExtension('demo.a', ['made.cpp'])], cmdclass={'build_ext': BuildExtension}", before)
    plan = planned(tmp_path, {"setup.py": script})
    assert {str(job.torch) for job in plan.jobs if job.platform == "linux-cpu"} == {"2.10", "2.13"}
    assert "made.cpp:1: includes torch/extension.h" in plan.covered[0].reason

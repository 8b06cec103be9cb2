"""torch as a build of each release sees it: the names that this release has, by whatever way the build asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.catalog import TORCH_NAMES
from ci_tools.model.evidence import Extensions
from ci_tools.model.versions import Python
from ci_tools.observe.views import View
from tests.builders.library import WAYS, answers, observe_lines
from tests.builders.sources import evidence_of, write

pytestmark = pytest.mark.slow  # many real processes

SAID = json.loads(TORCH_NAMES.read_text(encoding="utf-8"))
RELEASES = list(SAID["releases"])
CPP = "torch.utils.cpp_extension"
# Those that the fake torch has, and no names that a build or a loop may add.
MODULES = ("torch.backends.cuda", "torch.backends.mps", "torch.cuda.nccl", "torch.torch_version", CPP, "torch.version")
GPUS = ("torch.cuda", "torch.xpu")  # they have rows that a condition decides, so that their names are not listed
LISTS = ("in vars(", "in dir(", "__dict__.keys()", "inspect.getmembers(")


def row_of(module: str, name: str, release: str) -> str:
    """Return the row of a name, read in another way than the observer reads it; "" if the release lacks it."""
    row = SAID["names"][module][name]
    for part, text in {f"{RELEASES[0]}-{RELEASES[-1]}": row}.items() if isinstance(row, str) else row.items():
        for one in part.split(","):
            first, _, last = one.partition("-")
            if RELEASES.index(first) <= RELEASES.index(release) <= RELEASES.index(last or first):
                return str(text)
    return ""


def rows() -> Iterator[tuple[str, str]]:
    """Yield the names that differ between releases, and functions and classes that do not."""
    for module in (*MODULES, *GPUS):
        for name, row in sorted(SAID["names"][module].items()):
            is_module = f"{module}.{name}" in SAID["names"][""] or "." in name
            if not is_module and (isinstance(row, dict) or row[0] in "fc=") and "~" not in str(row):
                yield module, name


def view_of(release: str) -> View:
    """Return a view of a build with a torch."""
    patch = SAID["releases"][release]
    return View("linux", "x86_64", Python.parse("3.12"), f"{patch}+cpu", torch_names=release)


@pytest.mark.parametrize("release", ["2.6", "2.9", "2.13", "2.15"])
def test_each_name_is_there_in_the_releases_that_have_it(release: str, tmp_path: Path) -> None:
    asked = [*rows()]
    questions = []
    for number, (module, name) in enumerate(asked):
        ways = [one for one in WAYS[:-1] if module in MODULES or not any(word in one for word in LISTS)]
        questions.append(ways[number % len(ways)].format(m=module, n=name))
    assert len(asked) > 300
    observed = observe_lines(tmp_path, [f"answer(lambda: {question})" for question in questions], view_of(release))
    assert not observed.failure
    wrong = [
        (one, row_of(*one, release))
        for one, found in zip(asked, answers(observed), strict=True)
        if found != bool(row_of(*one, release))
    ]
    # The fake torch has not every value: to ask for one is a doubt that names it. Nothing else is one.
    assert {f"asks for {'.'.join(one)}, which is not simulated" for one, _ in wrong} >= {*observed.doubts}
    assert {row for _, row in wrong} <= {"?"}
    assert len(wrong) == len(observed.doubts)


# Each holds for torch 2.15 and not for 2.6.
OF_LATER_RELEASES = f"""
'SyclExtension' in dir(sys.modules['{CPP}'])
hasattr(cpp, 'SyclExtension')
import_from('{CPP}', 'SyclExtension')
inspect.getattr_static(cpp, 'SyclExtension', None) is not None
object.__getattribute__(cpp, 'SyclExtension')
operator.attrgetter('utils.cpp_extension.SyclExtension')(torch)
'SyclExtension' in cpp.__all__
'torch_include_dirs' in inspect.signature(cpp.include_paths).parameters
'torch_include_dirs' in inspect.getfullargspec(cpp.include_paths).args
takes(cpp.include_paths, torch_include_dirs=True)
takes(cpp.library_paths, cross_target_platform=None)
'sycl_sources' in inspect.signature(cpp.load_inline).parameters
cpp.min_supported_cpython == '0x030A0000'
not hasattr(cpp, 'GeneratedFileCleaner')
not hasattr(cpp, 'COMMON_HIPCC_FLAGS') or '-DHIP_ENABLE_WARP_SYNC_BUILTINS=1' in cpp.COMMON_HIPCC_FLAGS
'sm_107' in str(archs('Rubin'))
hasattr(torch.version, 'rocm')
import_from('torch', 'foreach')
importlib.util.find_spec('torch.nativert') is not None
importlib.import_module('torch.nativert')
""".strip().splitlines()
MORE = f"""\
import importlib.util, torch, {CPP} as cpp
def archs(name):
    os.environ['TORCH_CUDA_ARCH_LIST'] = name
    return cpp._get_cuda_arch_flags()
def takes(function, **options):
    try:
        return bool(function(**options))
    except TypeError:
        return False
"""


@pytest.mark.parametrize("question", OF_LATER_RELEASES)
def test_what_later_releases_answer_is_known_or_a_doubt(question: str, tmp_path: Path) -> None:
    for release in ("2.6", "2.15"):
        lines = [*MORE.splitlines(), f"answer(lambda: {question})"]
        observed = observe_lines(tmp_path / release, lines, view_of(release))
        assert not observed.failure
        assert observed.doubts or answers(observed) == [release == "2.15"]


# ---------------------------------------------------------------- plans

ADDED = 'catalog: {torch: {release: [{version: "2.16"NAMES}]}}\n'
SETUP = """\
import inspect, torch
from setuptools import setup
from torch.utils import cpp_extension as cpp
from torch.utils.cpp_extension import BuildExtension, CppExtension
extensions = [CppExtension('demo.a', ['a.cpp'])] if CONDITION else []
setup(name='demo', version='1.0', packages=['demo'], ext_modules=extensions, cmdclass={'build_ext': BuildExtension})
"""


def shown(folder: Path, condition: str, torch: str, names: str = "") -> dict[str, tuple[Extensions, str]]:
    """Return what a project builds with each torch, by its release, and the reason."""
    config = (
        f'package: demo\nversion: "1.0"\npython: ["3.12"]\ntorch: [{torch}]\n{ADDED.replace("NAMES", names)}'
        'platforms:\n  linux-cpu: {owner: "@demo/cpu"}\n'
    )
    files = {"fatwheel.yml": config, "setup.py": SETUP.replace("CONDITION", condition), "demo/__init__.py": ""}
    found = evidence_of(write(folder / "a", {**files, "a.cpp": "#include <torch/extension.h>\n"})).platforms[0]
    listed = [one.strip('" ') for one in torch.split(",")]
    apart = {str(cell.torch): one for cell, one in found.apart.items()}
    cells = {release: apart.get(release, found.shown) for release in listed}
    return {release: (one.extensions, one.extensions_where) for release, one in cells.items()}


@pytest.mark.parametrize(
    ("condition", "since"),
    [
        pytest.param("hasattr(torch.version, 'rocm')", "2.10", id="a-name"),
        pytest.param("cpp.min_supported_cpython.endswith('A0000')", "2.10", id="a-constant"),
        pytest.param("hasattr(cpp, '_wrap_compiler')", "2.13", id="a-function"),
    ],
)
def test_a_build_that_asks_for_a_name_is_not_taken_for_that_of_a_torch_without_it(
    condition: str, since: str, tmp_path: Path
) -> None:
    releases = [one for one in RELEASES if RELEASES.index(one) >= RELEASES.index("2.9")]
    found = shown(tmp_path, condition, ", ".join(f'"{one}"' for one in releases))
    built = [one for one, (extensions, _) in found.items() if extensions is Extensions.SOME]
    assert built == releases[releases.index(since) :], found


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        pytest.param(
            "'torch_include_dirs' in inspect.signature(cpp.include_paths).parameters",
            f"reads the parameters of {CPP}.include_paths, which are not those of every torch",
            id="a-signature",
        ),
        pytest.param(
            "cpp.include_paths(torch_include_dirs=True)",
            "calls include_paths with an option that not every torch has",
            id="an-option",
        ),
    ],
)
def test_a_parameter_that_not_every_torch_has_is_a_doubt(condition: str, why: str, tmp_path: Path) -> None:
    extensions, where = shown(tmp_path, condition, '"2.15"')["2.15"]
    assert extensions is Extensions.UNKNOWN
    assert why in where


UNKNOWN = ", and the catalog does not say which names torch 2.16.0 has"


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        pytest.param("hasattr(cpp, '_wrap_compiler')", "which not every torch has", id="one-that-differs"),
        pytest.param("hasattr(cpp, 'NextExtension')", "which no torch up to 2.15 has", id="one-that-none-has"),
        pytest.param("cpp.min_supported_cpython", "which not every torch has", id="a-constant"),
        pytest.param("'CUDAExtension' in dir(cpp)", f"lists the names of {CPP}", id="a-list"),
        pytest.param(
            "hasattr(cpp, 'SyclExtension') and hasattr(cpp, 'load')", "which not every", id="the-first-of-two"
        ),
        pytest.param("hasattr(cpp, 'load') and torch.cuda.is_available", "", id="those-that-each-has"),
    ],
)
def test_a_torch_whose_names_nobody_has_read_is_a_doubt_where_they_matter(
    condition: str, why: str, tmp_path: Path
) -> None:
    found = shown(tmp_path, condition, '"2.15", "2.16"')
    assert found["2.15"][0] in {Extensions.NONE, Extensions.SOME}
    assert (found["2.16"][0] is Extensions.UNKNOWN) == bool(why)
    assert not why or (why in found["2.16"][1] and UNKNOWN in found["2.16"][1]), found["2.16"]


@pytest.mark.parametrize(
    ("rows", "condition", "built"),
    [
        pytest.param({f"{CPP}:NextExtension": "f"}, "hasattr(cpp, 'NextExtension')", True, id="added"),
        pytest.param({f"{CPP}:_wrap_compiler": ""}, "hasattr(cpp, '_wrap_compiler')", False, id="removed"),
        pytest.param({}, "hasattr(cpp, '_wrap_compiler')", True, id="as-in-the-base"),
        pytest.param({f"{CPP}:min_supported_cpython": "='0x030B0000'"}, "'B' in cpp.min_supported_cpython", True,
                     id="a-constant"),
    ],
)  # fmt: skip
def test_a_project_s_catalog_says_which_names_a_new_torch_has(
    rows: dict[str, str], condition: str, *, built: bool, tmp_path: Path
) -> None:
    headers = {"file": "torch-2.16.0-cp312-none-macosx_14_0_arm64.whl", "sha256": "0" * 64, "size": 1}
    row = {"patch": "2.16.0", "pythons": {"linux-x86_64": ["3.12"]}, "headers": headers}
    said = json.dumps({**row, "names": {"base": "2.15", **rows}})
    found = shown(tmp_path, condition, '"2.16", "2.15"', f", {said[1:-1]}")
    assert found["2.16"][0] is (Extensions.SOME if built else Extensions.NONE), found

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.model.evidence import Binding, Extensions
from ci_tools.model.versions import Minor, Python
from ci_tools.source import backends
from ci_tools.source.backends import CellFacts, Read
from tests.builders.sources import CONFIG, demo, plan_of
from tests.unit.source.backends.test_declarative import opened, pyproject

FULL, NONE, STABLE, UNKNOWN = (Binding.FULL, None, None), (Binding.NONE, None, None), Binding.STABLE, Binding.UNKNOWN
ABI3 = (STABLE, Minor(3, 8), None)
LIBRARY = '[package]\nname = "demo"\n[lib]\ncrate-type = ["cdylib"]\n'
PYO3 = f'{LIBRARY}[dependencies]\npyo3 = {{version = "0.29", features = ["abi3-py38"]}}\n'
PLAIN = f'{LIBRARY}[dependencies]\npyo3 = "0.29"\n'
OPTIONAL = f'{LIBRARY}[dependencies]\npyo3 = {{version = "0.29", optional = true, features = ["abi3-py38"]}}\n'
WORKSPACE = '[workspace.dependencies]\npyo3 = {version = "0.29", features = ["abi3-py38"]}\n'
INHERITED = f"{LIBRARY}[dependencies]\npyo3.workspace = true\n"
PYTHONS = CONFIG.replace('"3.12"', '"3.10", "3.12", "3.14t", "3.15t"')


def found(
    folder: Path, cargo: str, settings: str = "", more: dict[str, str] | None = None, python: str = "3.12", **env: str
) -> Read:
    content = pyproject("maturin", f"[tool.maturin]\n{settings}\n")
    files = {"pyproject.toml": content, "fatwheel.yml": PYTHONS, "Cargo.toml": cargo, **(more or {})}
    read = backends.read(opened(folder, dict(files)), env, CellFacts("linux", "x86_64", Python.parse(python)))
    assert read is not None
    return read


def api(read: Read) -> tuple[Binding, Minor | None, Minor | None]:
    return read.python_api.kind, read.python_api.lowest, read.python_api.lowest_free_threaded


def test_one_patch_release_of_python_is_a_python(tmp_path: Path) -> None:
    content = pyproject("maturin", 'requires-python = "==3.12.4"\n')
    read = found(tmp_path, PYO3.replace("-py38", ""), more={"pyproject.toml": content})
    assert api(read) == (STABLE, Minor(3, 12), None)


def test_maturin_compiles(tmp_path: Path) -> None:
    read = found(tmp_path, PYO3)
    assert (read.extensions, read.where) == (Extensions.SOME, "pyproject.toml:2: maturin compiles")
    assert read.python_api.where == "Cargo.toml:6: pyo3 with abi3-py38"


@pytest.mark.parametrize(
    ("cargo", "settings", "expected"),
    [
        pytest.param(PLAIN, "", FULL, id="pyo3"),
        pytest.param(PYO3, "", ABI3, id="abi3"),
        pytest.param(PYO3.replace("-py38", ""), "", (STABLE, Minor(3, 10), None), id="abi3-of-what-builds"),
        pytest.param(PYO3.replace('"abi3-py38"', '"abi3-py39", "abi3-py38"'), "", ABI3, id="the-lowest-of-two"),
        pytest.param(
            PYO3.replace('"abi3-py38"', '"abi3-py38", "abi3t-py315"'),
            "",
            (STABLE, Minor(3, 8), Minor(3, 15)),
            id="abi3-and-abi3t",
        ),
        pytest.param(
            PYO3.replace('"abi3-py38"', '"abi3", "abi3t"'),
            "",
            (STABLE, Minor(3, 10), Minor(3, 15)),
            id="both-of-what-builds",
        ),
        pytest.param(PYO3.replace("abi3-py38", "abi3t-py315"), "", (STABLE, Minor(3, 15), Minor(3, 15)), id="abi3t"),
        pytest.param(PYO3.replace("pyo3 =", "pyo3-ffi ="), "", ABI3, id="pyo3-ffi"),
        pytest.param(PYO3.replace("pyo3 = {", 'py = {package = "pyo3", '), "", ABI3, id="by-another-name"),
        pytest.param(PLAIN, "features = ['pyo3/abi3-py38']", ABI3, id="feature-that-maturin-asks-for"),
        pytest.param(f"{PLAIN}[features]\nslim = ['pyo3/abi3-py38']\n", "features = ['slim']", ABI3, id="by-a-feature"),
        pytest.param(f"{PLAIN}[features]\nslim = ['pyo3/abi3-py38']\n", "", FULL, id="a-feature-that-is-off"),
        pytest.param(f"{PLAIN}[features]\nslim = ['pyo3/abi3-py38']\n", "all-features = true", ABI3, id="all-features"),
        pytest.param(f"{PLAIN}[features]\ndefault = ['a']\na = ['pyo3/abi3-py38']\n", "", ABI3, id="default-features"),
        pytest.param(
            f"{PLAIN}[features]\ndefault = ['pyo3/abi3-py38']\n",
            "no-default-features = true",
            FULL,
            id="no-default-features",
        ),
        pytest.param(f"{OPTIONAL}[features]\ndefault = ['dep:pyo3']\n", "", ABI3, id="optional-and-on"),
        pytest.param(OPTIONAL, "features = ['pyo3']", ABI3, id="optional-and-on-by-its-name"),
        pytest.param(f"{OPTIONAL}[features]\ndefault = ['pyo3?/x']\n", "", NONE, id="optional-and-off"),
        pytest.param(PYO3.replace("[dependencies]", "[dev-dependencies]"), "", NONE, id="for-tests-alone"),
        pytest.param(
            PYO3.replace("[dependencies]", "[target.'cfg(unix)'.dependencies]"),
            "",
            (UNKNOWN, None, None),
            id="for-some-machines",
        ),
        pytest.param(
            f"{PLAIN}[target.'cfg(unix)'.dependencies]\npyo3 = {{features = ['abi3-py38']}}\n",
            "",
            (UNKNOWN, None, None),
            id="limited-on-some-machines",
        ),
        pytest.param(PYO3, "cargo-extra-args = '--features x'", (UNKNOWN, None, None), id="arguments-of-its-own"),
        pytest.param(LIBRARY, "", NONE, id="library-that-cffi-loads"),
        pytest.param(f"{LIBRARY}[dependencies]\nuniffi = '0.29'\n", "", NONE, id="uniffi"),
        pytest.param("[package]\nname = 'demo'\n[[bin]]\nname = 'demo'\n", "", NONE, id="program"),
        pytest.param("[package]\nname = 'demo'\n", "bindings = 'bin'", NONE, id="program-by-its-bindings"),
        pytest.param(PYO3.replace("[lib]", "[[bin]]").replace("crate-type", "x"), "", FULL, id="program-with-pyo3"),
        pytest.param("[package]\nname = 'demo'\n", "", (UNKNOWN, None, None), id="neither"),
    ],
)
def test_the_python_api_follows_from_the_features(
    tmp_path: Path, cargo: str, settings: str, expected: tuple[Binding, Minor | None, Minor | None]
) -> None:
    assert api(found(tmp_path, cargo, settings)) == expected


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        pytest.param("3.10", ABI3, id="older"),
        pytest.param("3.12", (STABLE, Minor(3, 11), None), id="newer"),
    ],
)
def test_a_feature_may_depend_on_the_python(
    tmp_path: Path, python: str, expected: tuple[Binding, Minor | None, Minor | None]
) -> None:
    settings = (
        "features = [{feature = 'pyo3/abi3-py311', python-version = '>=3.11'},"
        " {feature = 'pyo3/abi3-py38', python-version = '<3.11'}]"
    )
    assert api(found(tmp_path, PLAIN, settings, python=python)) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"sub/Cargo.toml": INHERITED, "Cargo.toml": WORKSPACE}, ABI3, id="workspace-above"),
        pytest.param(
            {"sub/Cargo.toml": INHERITED.replace("name", "workspace = '../root'\nname"), "root/Cargo.toml": WORKSPACE},
            ABI3,
            id="workspace-by-name",
        ),
        pytest.param(
            {
                "sub/Cargo.toml": INHERITED.replace(".workspace = true", " = {workspace = true, features = ['x']}"),
                "Cargo.toml": WORKSPACE,
            },
            ABI3,
            id="workspace-and-own-features",
        ),
        pytest.param({"sub/Cargo.toml": INHERITED}, FULL, id="no-workspace"),
        pytest.param(
            {"sub/Cargo.toml": f"{LIBRARY}[dependencies]\none = {{path = '../one'}}\n", "one/Cargo.toml": PYO3},
            ABI3,
            id="by-way-of-another-crate",
        ),
        pytest.param(
            {
                "sub/Cargo.toml": f"{LIBRARY}[dependencies]\none = {{path = '../one', features = ['py']}}\n",
                "one/Cargo.toml": f"{OPTIONAL}[features]\npy = ['dep:pyo3']\n",
            },
            ABI3,
            id="by-a-feature-of-another-crate",
        ),
        pytest.param(
            {
                "sub/Cargo.toml": f"{LIBRARY}[target.'cfg(unix)'.dependencies]\none = {{path = '../one'}}\n",
                "one/Cargo.toml": PYO3,
            },
            (UNKNOWN, None, None),
            id="by-way-of-a-crate-for-some-machines",
        ),
        pytest.param({}, (UNKNOWN, None, None), id="not-in-the-source"),
    ],
)
def test_crates_of_the_source_are_followed(
    tmp_path: Path, more: dict[str, str], expected: tuple[Binding, Minor | None, Minor | None]
) -> None:
    assert api(found(tmp_path, "", "manifest-path = 'sub/Cargo.toml'", more)) == expected


def test_crates_that_depend_on_each_other_are_read_to_an_end(tmp_path: Path) -> None:
    back = "[dependencies]\ndemo = {path = '..', features = ['a']}\n"
    cargo = f"{PLAIN}one = {{path = 'one'}}\n[features]\na = ['pyo3/abi3-py38']\n"
    assert api(found(tmp_path, cargo, more={"one/Cargo.toml": back})) == ABI3


def test_arguments_from_the_environment_may_ask_for_features(tmp_path: Path) -> None:
    assert found(tmp_path, PYO3, MATURIN_PEP517_ARGS="--features x").python_api.kind is UNKNOWN


def test_a_crate_that_links_torch_is_seen(tmp_path: Path) -> None:
    torch = found(tmp_path, f"{PYO3}tch = '0.20'\n").torch
    assert torch is not None
    assert (torch.uses_torch, torch.where) == (True, "Cargo.toml:7: the crate tch links torch")


def test_what_is_not_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cargo\.toml:\d+:\d+: this is not TOML"):
        found(tmp_path, "[")


@pytest.mark.parametrize(("required", "tag"), [("==3.11.9", "cp311-abi3"), (">=3.10", "cp310-abi3")])
def test_a_wheel_for_one_patch_release_keeps_its_limited_api(required: str, tag: str, tmp_path: Path) -> None:
    config = CONFIG.replace('"3.12"', '"3.10", "3.11", "3.12"')
    content = pyproject("maturin", f'requires-python = "{required}"\n')
    files = {"fatwheel.yml": f"{config}    owner: '@a/b'\n", "pyproject.toml": content}
    folder = demo(tmp_path / "source", {**files, "Cargo.toml": PYO3.replace("-py38", "")})
    assert [job.wheel.split("-", 2)[2].rpartition("-")[0] for job in plan_of(folder).jobs] == [tag]


@pytest.mark.parametrize(
    ("files", "outside"),
    [
        pytest.param({"other/Cargo.toml": "", "other/x.cpp": ""}, {"other", "py/benches", "py/examples", "py/tests"},
                     id="a-member-that-nothing-uses"),
        pytest.param({"py/build.rs": 'file("../x.cpp")'}, set(), id="a-script-leads-out"),
        pytest.param({"py/build.rs": 'file("examples/x.cpp")'}, {"py/benches", "py/tests"}, id="a-script-names-one"),
    ],
)  # fmt: skip
def test_what_no_target_of_a_workspace_compiles_is_outside(
    files: dict[str, str], outside: set[str], tmp_path: Path
) -> None:
    settings, workspace = "manifest-path = 'py/Cargo.toml'", "[workspace]\nmembers = ['py', 'other']\n"
    assert set(found(tmp_path, workspace, settings, {"py/Cargo.toml": PYO3, **files}).outside) == outside

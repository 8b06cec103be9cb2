"""What a config means, and what is said of its mistakes.

It stays one file, although it is long: each mistake is an edit of the one good config, and is read against it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.cli.main import main
from ci_tools.config import loader
from ci_tools.config.mistakes import LEVELS
from ci_tools.errors import InputError, RejectedInput
from ci_tools.model.platforms import Accelerator
from ci_tools.model.request import (
    Command,
    Enabled,
    GitSource,
    Globs,
    PathSource,
    Request,
    Route,
    SdistSource,
    ToolchainKind,
    Torch,
)
from ci_tools.model.versions import Minor, Python
from tests.builders.sources import CONFIG, write

CUDA_ONLY = """\
package: demo
version: "1.0"
python: [3.10, 3.14t]
torch: last 3
platforms:
  linux-cuda: {owner: "@x/y", native: ["*.cu"], cuda: [13.0, 12.9], archs: [9.0]}
"""
GOOD = """\
package: demo
version: "1.0"
source: {path: ., subdirectory: demo, include: [/demo/]}
python: [3.10, 3.14t]
torch: {lowest: 2.10}
platforms:
  linux-cuda:
    owner: "@demo/cuda"
    native: {include: ["*.cu"], exclude: ["test*"]}
    cuda: [13.0, 12.9]
    archs: [9.0, 12.0+PTX]
    env: {FAST: 1}
  linux-rocm:
    native: ["*.hip"]
    rocm: [7.1]
  windows:
build: {max-jobs: 2, env: {A: b}}
validate: {torch: 2.13.0, imports: [demo], commands: [demo, {run: demo -g, needs-gpu: true}]}
publish: {pypi: wheels, targets: ["dir:x"]}
release: {tag: "v{version}"}
"""
PYTHON = 'a Python version such as "3.12", or "3.14t" for free-threaded'
PATTERN = "a path pattern in gitignore syntax such as kernels/**/*.cu, relative to the source"
OWNER = 'who looks after the platform\'s native code, such as "@org/team"'
TOP = (
    "build, catalog, owner, package, platforms, publish, python, release, source, torch, unsupported, validate, "
    "version, versions"
)
PYTHONS = "3.10, 3.11, 3.12, 3.13, 3.13t, 3.14, 3.14t, 3.15, 3.15t"
CUDAS = "12.4, 12.5, 12.6, 12.8, 12.9, 13.0, 13.1, 13.2, 13.3, 13.4"
LINUXES = "linux-aarch64, linux-cpu, linux-cuda, linux-cuda-aarch64, linux-rocm, linux-xpu"
LAST = (
    "`last 3` for the three newest that upstream has released for what is asked, `nightly`, or a list, or "
    '{lowest: "2.10"}'
)
TORCHES = "2.6, 2.7, 2.8, 2.9, 2.10, 2.11, 2.12, 2.13, 2.14, 2.15"
TARGET = "dir:PATH, s3://BUCKET/PREFIX, github:OWNER/REPO or pypi[:NAME or URL]"


def load(tmp_path: Path, text: str) -> Request:
    write(tmp_path, {"fatwheel.yml": text, "demo/pyproject.toml": ""})
    return loader.load(tmp_path / "fatwheel.yml", catalog.load())


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    return caught.value.message.replace(f"{tmp_path}/fatwheel.yml:", "").splitlines()


def test_the_good_config_means_what_it_says(tmp_path: Path) -> None:
    request = load(tmp_path, GOOD)
    assert (request.name, request.version, request.config) == ("demo", "1.0", "fatwheel.yml")
    assert (request.source, request.subdirectory, request.include) == (PathSource(path="."), "demo", ("/demo/",))
    assert request.pythons == (Python(Minor(3, 10)), Python(Minor(3, 14), free_threaded=True))
    assert request.torch == Torch(lowest=Minor(2, 10))
    assert (request.build.max_jobs, request.build.env) == (2, (("A", "b"),))
    assert (request.validate.torch, request.validate.imports) == ("2.13.0", ("demo",))
    assert request.validate.commands == (Command(run="demo"), Command(run="demo -g", needs_gpu=True))
    assert (request.publish.pypi, request.publish.targets) == (Route.WHEELS, ("dir:x",))
    assert (request.release.tag, request.release.title) == ("v{version}", "{name} {version}")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("  macos-arm64: {env: {MACOSX_DEPLOYMENT_TARGET: '12.0'}}", "macosx_12_0", id="its-own"),
        pytest.param("  macos-arm64:\nbuild: {env: {MACOSX_DEPLOYMENT_TARGET: 13}}", "macosx_13_0", id="everywhere"),
        pytest.param("  macos-arm64: {wheel-platform: macosx_14_0, env: {MACOSX_DEPLOYMENT_TARGET: '12.0'}}",
                     "macosx_14_0", id="told"),
        pytest.param("  macos-arm64: {env: {MACOSX_DEPLOYMENT_TARGET: new}}", "macosx_11_0", id="no-number"),
        pytest.param("  linux-cpu:\nbuild: {env: {MACOSX_DEPLOYMENT_TARGET: '12.0'}}", "manylinux_2_28", id="linux"),
    ],
)  # fmt: skip
def test_a_wheel_is_for_the_oldest_macos_that_its_build_is_told(tmp_path: Path, lines: str, expected: str) -> None:
    request = load(tmp_path, f"package: demo\nversion: '1'\npython: ['3.12']\nplatforms:\n{lines}\n")
    assert request.platforms[0].wheel_platform == expected


def test_the_good_config_names_its_platforms(tmp_path: Path) -> None:
    cuda, rocm, windows = load(tmp_path, GOOD).platforms
    assert (cuda.owner, cuda.where, cuda.archs) == ("@demo/cuda", "fatwheel.yml:7", ("9.0", "12.0+PTX"))
    assert (cuda.native, cuda.env) == (Globs(("*.cu",), ("test*",)), (("FAST", "1"),))
    assert [accelerator.label for accelerator in cuda.accelerators] == ["cu129", "cu130"]
    assert rocm.accelerators == (Accelerator(ROCM, Minor(7, 1)),)
    assert (rocm.wheel_platform, windows.wheel_platform) == ("manylinux_2_28", "win")
    assert (windows.accelerators, windows.native, windows.enabled) == ((), Globs(), Enabled.AUTO)
    assert windows.toolchain is ToolchainKind.AUTO


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # the shape of each value
        pytest.param("package: demo", "package: [demo]",
                     ["1:10: a list is not allowed, expected the project's name on the package index"],
                     id="package-is-a-list"),
        pytest.param("package: demo", "package:",
                     ["1:9: an empty value is not allowed, expected the project's name on the package index"],
                     id="package-is-nothing"),
        pytest.param("package: demo", 'package: "demo\\n"',
                     ['1:10: "demo\\n" is not allowed, expected the project\'s name on the package index'],
                     id="package-ends-in-a-line-break"),
        pytest.param("package: demo", "package: -demo",
                     ['1:10: "-demo" is not allowed, expected the project\'s name on the package index'],
                     id="package-is-no-name"),
        pytest.param("[3.10, 3.14t]", "3.10", ['4:9: "3.10" is not allowed, expected the Python versions to serve'],
                     id="python-is-no-list"),
        pytest.param("[3.10, 3.14t]", "[]", ["4:9: this is empty, expected the Python versions to serve"],
                     id="python-is-empty"),
        pytest.param("[3.10, 3.14t]", "[310, true]",
                     [f"4:10: 310 is not allowed, expected {PYTHON}", f"4:15: true is not allowed, expected {PYTHON}"],
                     id="python-is-a-number"),
        pytest.param("[3.10, 3.14t]", "[3.10, 3.12, 3.10]", ['4:22: "3.10" is here twice'], id="python-twice"),
        pytest.param("{lowest: 2.10}", "2.10", [
            f'5:8: "2.10" is not allowed, expected {LAST}'], id="torch-is-text"),
        pytest.param("{lowest: 2.10}", "{}", [
            '5:8: the key "lowest" is missing: the oldest torch to serve, such as "2.10"'], id="torch-without-lowest"),
        pytest.param("{lowest: 2.10}", "[2.10, two]", [
            '5:15: "two" is not allowed, expected a version such as "2.15", or `nightly`, or `nightly 20261125`'],
                     id="torch-is-a-word"),
        pytest.param("  windows:", "  windows: [a]",
                     ["16:12: a list is not allowed, expected a mapping of what the platform needs, or null"],
                     id="platform-is-a-list"),
        pytest.param("  windows:", "  windows: {enabled: maybe}",
                     ['16:22: "maybe" is not allowed, known: auto, false, true'], id="enabled-is-maybe"),
        pytest.param("  windows:", '  windows: {enabled: "true"}',
                     ['16:22: "true" is not allowed, expected it without quotes'], id="enabled-is-quoted"),
        pytest.param("  windows:", '  windows: {owner: ""}',
                     [f'16:20: "" is not allowed, expected {OWNER}'], id="owner-is-empty"),
        pytest.param("  windows:", "  windows: {native: []}",
                     ["16:21: this is empty, expected a list of path patterns"],
                     id="native-is-empty"),
        pytest.param('["*.hip"]', '["!x"]', [f'14:14: "!x" is not allowed, expected {PATTERN}'], id="negated-pattern"),
        pytest.param('["*.hip"]', '["../x"]', [f'14:14: "../x" is not allowed, expected {PATTERN}'],
                     id="pattern-escapes"),
        pytest.param('["*.hip"]', '["[[x"]', [f'14:14: "[[x" is not allowed, expected {PATTERN}'], id="two-brackets"),
        pytest.param('["*.hip"]', '["[z-a]"]',
                     ['14:14: "[z-a]" is not a path pattern, expected one such as kernels/**/*.cu'],
                     id="pattern-is-broken"),
        pytest.param("[/demo/]", "[/]", ['3:49: "/" is not a path pattern, expected one such as kernels/**/*.cu'],
                     id="pattern-matches-nothing"),
        pytest.param("[7.1]", "[7]", ['15:12: 7 is not allowed, expected a version such as "13.0"'],
                     id="rocm-is-a-number"),
        pytest.param("[7.1]", '["7.1\\n"]', ['15:12: "7.1\\n" is not allowed, expected a version such as "13.0"'],
                     id="rocm-ends-in-a-line-break"),
        pytest.param("[9.0, 12.0+PTX]", "[sm_90]", [
            '11:13: "sm_90" is not allowed, expected an architecture such as "9.0", "9.0a" or "10.0+PTX"'],
            id="arch-is-no-arch"),
        pytest.param("{FAST: 1}", "{FAST: [1]}", ["12:17: a list is not allowed, expected text or a whole number"],
                     id="variable-is-a-list"),
        pytest.param("{FAST: 1}", "{1FAST: 1}", ['12:10: "1FAST" is not allowed, expected a name such as FORCE_CUDA'],
                     id="variable-is-no-name"),
        pytest.param("max-jobs: 2", "max-jobs: 0", [
            "17:19: 0 is not allowed, expected how many compilers run at a time, 1 to 1024"], id="no-compilers"),
        pytest.param("torch: 2.13.0", "torch: 2.13", [
            '18:19: "2.13" is not allowed, expected the exact torch to install first, such as "2.13.0"'],
            id="torch-to-validate-is-not-exact"),
        pytest.param("imports: [demo]", "imports: [os;x]", [
            '18:37: "os;x" is not allowed, expected a module\'s name'], id="import-is-no-module"),
        pytest.param("{run: demo -g, needs", "{needs", ['18:61: the key "run" is missing: a command'], id="no-command"),
        pytest.param("needs-gpu: true", "needs-gpu: 1", [
            "18:87: 1 is not allowed, expected true where it runs only with a GPU, else false"], id="gpu-is-a-number"),
        pytest.param("pypi: wheels", "pypi: wheel", ['19:17: "wheel" is not allowed, did you mean "wheels"?'],
                     id="route-misspelt"),
        pytest.param("dir:x", "ftp:x", [f'19:35: "ftp:x" is not allowed, expected {TARGET}'], id="unknown-target"),
        # keys, at each level
        pytest.param("package: demo", "packages: demo", [
            '1:1: unknown key "packages", did you mean "package"?',
            "1:1: the key \"package\" is missing: the project's name on the package index"], id="top-key-misspelt"),
        pytest.param("package: demo", "package: demo\nx: 1", [
            f'2:1: unknown key "x", known: {TOP}'], id="top-key-unknown"),
        pytest.param("path: .", "paths: .", ['3:10: unknown key "paths", did you mean "path"?'], id="source-key"),
        pytest.param("  linux-cuda:", "  linux:", [f'7:3: unknown key "linux", expected one of {LINUXES}'],
                     id="half-a-platform"),
        pytest.param("  linux-cuda:", "  linux-cudda:", ['7:3: unknown key "linux-cudda", did you mean "linux-cuda"?'],
                     id="platform-misspelt"),
        pytest.param("    owner", "    owners", ['8:5: unknown key "owners", did you mean "owner"?'],
                     id="platform-key"),
        pytest.param("exclude: [", "excludes: [", ['9:33: unknown key "excludes", did you mean "exclude"?'],
                     id="glob-key"),
        pytest.param("  windows:", "  windows: {cuda: [13.0]}", [
            (
                '16:13: unknown key "cuda", known: container, enabled, env, free-disk, gpu-runner, job-memory-gib, '
                "native, own-workflow, owner, required, runner, swap-gib, timeout-minutes, toolchain, wheel-platform"
            )],
            id="cuda-where-there-is-none"),
        pytest.param("max-jobs", "jobs", ['17:9: unknown key "jobs", did you mean "max-jobs"?'], id="build-key"),
        pytest.param("imports", "import", ['18:27: unknown key "import", did you mean "imports"?'], id="validate-key"),
        pytest.param("needs-gpu", "gpu", ['18:76: unknown key "gpu", did you mean "needs-gpu"?'], id="command-key"),
        pytest.param("pypi: ", "pipy: ", ['19:11: unknown key "pipy", did you mean "pypi"?'], id="publish-key"),
        pytest.param("{tag: ", "{tags: ", ['20:11: unknown key "tags", did you mean "tag"?'], id="release-key"),
        pytest.param("    cuda: [13.0, 12.9]\n", "", ['8:5: the key "cuda" is missing: the CUDA versions to serve'],
                     id="cuda-missing"),
        # what only the catalog knows
        pytest.param("[3.10, 3.14t]", "[3.10t, 3.1]", [
            f'4:10: there is no Python "3.10t" in the catalog, known: {PYTHONS}',
            f'4:17: there is no Python "3.1" in the catalog, known: {PYTHONS}'], id="unknown-python"),
        pytest.param("lowest: 2.10", "lowest: 2.99", [
            f'5:17: there is no torch "2.99" in the catalog, known: {TORCHES}'], id="unknown-lowest-torch"),
        pytest.param("{lowest: 2.10}", "[2.10, 1.9]", [
            f'5:15: there is no torch "1.9" in the catalog, known: {TORCHES}'], id="unknown-torch"),
        pytest.param("{lowest: 2.10}", "last three", [f'5:8: "last three" is not allowed, expected {LAST}'],
                     id="last-torches-without-a-number"),
        pytest.param("{lowest: 2.10}", "last 0", [f'5:8: "last 0" is not allowed, expected {LAST}'],
                     id="last-torches-are-none"),
        pytest.param("{lowest: 2.10}", "last 99", [
            (f"5:8: `last 99`: of torch, upstream has released 10 ({TORCHES}) for these platforms, CUDA versions and "
            "Pythons")],
            id="more-last-torches-than-there-are"),
        pytest.param("[13.0, 12.9]", "[13.4, 12.9]\n    toolchain: redist", [
            ("10:12: the catalog has no archives of CUDA 13.4 by NVIDIA (`toolchain: redist`), known: 12.4, 12.5, "
            "12.6, 12.8, 12.9, 13.0, 13.1")], id="cuda-without-archives"),
        pytest.param("[7.1]", "[7.1]\n    toolchain: redist", [
            "16:16: NVIDIA's archives are fetched for CUDA on Linux, expected `toolchain: system` for linux-rocm"],
            id="archives-for-rocm"),
        pytest.param("[7.1]", "[7.1]\n    toolchain: zig", [
            '16:16: "zig" is not allowed, known: auto, pypi, redist, system'],
            id="unknown-toolchain"),
        pytest.param("[13.0, 12.9]", "[12.9, 12.7]", [
            f'10:18: there is no CUDA "12.7" in the catalog, known: {CUDAS}'], id="unknown-cuda"),
        pytest.param("9.0, 12.0+PTX", "9.0, 7.0", [
            '11:18: nvcc of CUDA 13.0 does not know the architecture "7.0", did you mean "9.0"?'],
            id="arch-that-one-of-two-compilers-knows"),
        pytest.param("9.0, 12.0+PTX", "9.0f", [
            '11:13: nvcc of CUDA 13.0 does not know the architecture "9.0f", did you mean "9.0"?',
            '11:13: nvcc of CUDA 12.9 does not know the architecture "9.0f", did you mean "9.0"?'], id="arch-variant"),
        pytest.param("  windows:", "  windows: {wheel-platform: macosx_11_0}", [
            '16:29: "macosx_11_0" is not a wheel platform of windows, expected one that starts with win'],
            id="wheel-platform-of-another-system"),
        pytest.param('    native: ["*.hip"]', "    wheel-platform: manylinux_2_99", [
            '14:21: there is no wheel platform "manylinux_2_99", did you mean "manylinux_2_39"?'],
            id="wheel-platform-of-no-policy"),
        pytest.param("max-jobs: 2", "shims: [cuda-exception]", [
            "17:17: the shim cuda-exception is not proven for torch 2.10, 2.15, expected only 2.11, 2.12, 2.13, 2.14"],
            id="torch-that-a-shim-is-not-for"),
        pytest.param("max-jobs: 2", "shims: [exception]", [
            '17:17: "exception" is not allowed, did you mean "cuda-exception"?'], id="unknown-shim"),
        pytest.param("torch: 2.13.0", "torch: 2.99.0", [
            f'18:19: there is no torch "2.99.0" in the catalog, known: {TORCHES}'],
            id="torch-to-validate-is-unknown"),
        # what contradicts itself, or is not there
        pytest.param("  windows:", "  windows: {runner: windows-2019}", [
            ("16:21: GitHub switched the runner windows-2019 off on 2025-06-30 "
             "(https://github.com/actions/runner-images/issues/12045), expected one such as windows-2022")],
            id="runner-that-is-gone"),
        pytest.param("  windows:", "  windows: {runner: windows-2052}", [
            '16:21: none of GitHub\'s runners has the label "windows-2052", did you mean "windows-2025"?'],
            id="runner-misspelt"),
        pytest.param("  windows:", '  windows: {runner: "a\\nb"}', [
            '16:21: "a\\nb" is not allowed, expected a label such as ubuntu-24.04'],
            id="runner-of-two-lines"),
        pytest.param("max-jobs: 2", "constraints: pins.txt", ['17:22: the source has no file "pins.txt"'],
                     id="constraints-not-there"),
        pytest.param("max-jobs: 2", 'requires: ["setuptools<82", "a b", "x @ https://example.org/x.whl"]', [
            '17:37: "a b" is not a requirement of the package index, expected one such as "setuptools<82"',
            ('17:44: "x @ https://example.org/x.whl" is not a requirement of the package index, expected one such as '
             '"setuptools<82"')],
            id="requirements-that-are-none"),
        pytest.param("[demo, {run: demo -g,", "[python -c 'oops, {run: ' ',", [
            "18:55: this is not a command: no closing quotation, expected one such as python -m demo",
            "18:78: this is not a command: it is blank, expected one such as python -m demo"],
            id="commands-that-are-none"),
        pytest.param('exclude: ["test*"]', 'exclude: ["test*", "*.cu"]', [
            '9:52: the pattern "*.cu" is both included and excluded, expected it on one side'],
            id="contradictory-globs"),
        pytest.param("path: .", "path: nowhere", ['3:16: the source "nowhere" does not exist, expected a folder'],
                     id="source-not-there"),
        pytest.param("path: .", "path: fatwheel.yml",
                     ['3:16: the source "fatwheel.yml" does not exist, expected a folder'],
                     id="source-is-a-file"),
        pytest.param("subdirectory: demo", "subdirectory: demi", ['3:33: the source has no folder "demi"'],
                     id="subdirectory-not-there"),
        pytest.param("subdirectory: demo", "subdirectory: ../demo", [
            '3:33: "../demo" is not allowed, expected a path inside the source, with forward slashes'],
            id="subdirectory-escapes"),
        pytest.param("path: .", "path: ., git: x, ref: y", [
            '3:19: "path" and "git" exclude each other, expected one source'], id="two-sources"),
        pytest.param("path: .", "git: x", ['3:9: the key "ref" is missing: a git source has both "git" and "ref"'],
                     id="git-without-ref"),
        pytest.param("path: .", "ref: x", ['3:9: the key "git" is missing: a git source has both "git" and "ref"'],
                     id="ref-without-git"),
        pytest.param("path: .", "git: --upload-pack=x, ref: -x", [
            '3:15: "--upload-pack=x" is not allowed, expected the address of a git repository',
            ('3:37: "-x" is not allowed, expected a branch, tag or commit, in which {version} stands for the '
            'version')], id="git-options"),
        pytest.param("path: .", "sdist: {name: a/b, version: new, sha256: abc}", [
            '3:24: "a/b" is not allowed, expected the project\'s name on the package index',
            '3:38: "new" is not allowed, expected the exact version, quoted where it looks like a number',
            '3:51: "abc" is not allowed, expected 64 lower-case hex digits'], id="sdist-that-is-none"),
        pytest.param("path: .", f"sdist: {{name: a, version: 1_x, sha256: {'0' * 64}}}", [
            '3:36: "1_x" is not a version, expected one such as "1.2.3" (PEP 440)'], id="sdist-of-no-version"),
        pytest.param('version: "1.0"', "version: new", [
            '2:10: "new" is not a version, expected one such as "1.2.3" (PEP 440)'], id="version-is-a-word"),
        pytest.param("v{version}", "v{versio}", ['20:16: the template names "{versio}", did you mean "version"?'],
                     id="template-field-misspelt"),
        pytest.param("v{version}", "v{version", [
            "20:16: this is not a template: expected '}' before end of string, expected text such as v{version}"],
            id="template-left-open"),
        pytest.param("v{version}", "v{version:>{python}}", [
            "20:16: this is not a template: its fields cannot be formatted, expected text such as v{version}"],
            id="template-with-a-format"),
        pytest.param("v{version}", "v{version!r}", [
            "20:16: this is not a template: its fields cannot be formatted, expected text such as v{version}"],
            id="template-with-a-conversion"),
        pytest.param("v{version}", "{}", [
            ('20:16: the template names "{}", known: archs, cuda, cuda_version, display, name, package, '
            'python, python_title, rebuild, torch, version')], id="template-without-a-name"),
        pytest.param("v{version}", "v1", [
            ('20:16: "v1" would be the tag of every release, expected a template with {version} in it, '
            'such as "v{version}", or in a monorepo "{name}-v{version}"')], id="tag-without-a-version"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_sentence(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    assert old in GOOD
    assert mistakes(tmp_path, GOOD.replace(old, new, 1)) == expected


def test_the_wheel_platforms_are_those_of_auditwheel() -> None:
    import auditwheel.policy  # noqa: PLC0415 - it is slow

    policies = Path(auditwheel.policy.__file__).parent.glob("*linux-policy.json")
    names = {policy["name"] for path in policies for policy in json.loads(path.read_text())}
    assert set(LEVELS) == names - {"linux"}


def test_all_mistakes_are_told_at_once_in_their_order(tmp_path: Path) -> None:
    wrong = GOOD.replace("2.10}", "9.9}").replace("[3.10,", "[3.10, 310,").replace("  windows", "  win")
    wrong = wrong.replace("12.9]", "12.7]").replace("max-jobs: 2", "max-jobs: two").replace("v{v", "v{w")
    assert [line.split(" ")[0] for line in mistakes(tmp_path, wrong)] == [
        "4:16:", "5:17:", "10:18:", "16:3:", "17:19:", "20:16:"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{path: ..}", PathSource(path=".."), id="folder"),
        pytest.param("{git: x, ref: v1}", GitSource(url="x", ref="v1"), id="git"),
        pytest.param(f"{{sdist: {{name: a, version: 1.10, sha256: {'a' * 64}}}}}",
                     SdistSource(name="a", version="1.10", sha256="a" * 64), id="sdist-of-version-1.10"),
        pytest.param("{subdirectory: demo}", PathSource(path="."), id="the-config's-folder"),
    ],
)  # fmt: skip
def test_a_source_is_one_of_three(tmp_path: Path, source: str, expected: object) -> None:
    assert load(tmp_path, f"{CONFIG}source: {source}\n").source == expected


def test_the_shortest_config_is_enough(tmp_path: Path) -> None:
    request = load(tmp_path, CONFIG)
    assert (request.torch, request.version, request.validate.torch, request.publish.pypi) == (
        None,
        None,
        None,
        Route.NONE,
    )


def test_a_config_is_named_by_its_place_in_the_source(tmp_path: Path) -> None:
    write(tmp_path, {"a/fatwheel.yml": f"{CONFIG}source: {{path: ..}}\n"})
    request = loader.load(tmp_path / "a/fatwheel.yml", catalog.load())
    assert (request.config, request.platforms[0].where) == ("a/fatwheel.yml", "a/fatwheel.yml:4")


def test_a_config_outside_the_source_is_named_by_its_file(tmp_path: Path) -> None:
    write(tmp_path, {"a/fatwheel.yml": f"{CONFIG}source: {{path: ../b}}\n", "b/x": ""})
    assert loader.load(tmp_path / "a/fatwheel.yml", catalog.load()).config == "fatwheel.yml"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None,
                     "there is no fatwheel.yml, expected a config that says what to build\n  hint: `fatwheel init`",
                     id="no-file"),
        pytest.param(b"", "fatwheel.yml is empty", id="empty-file"),
        pytest.param(b"\x80", "fatwheel.yml is not text", id="not-text"),
        pytest.param(b"a: [", "fatwheel.yml:1:5: this is not YAML", id="broken-yaml"),
        pytest.param(b"hello", 'fatwheel.yml:1:1: "hello" is not allowed, expected a mapping with the keys package',
                     id="a-word"),
        pytest.param(b"- a", "fatwheel.yml:1:1: a list is not allowed, expected a mapping", id="a-list"),
        pytest.param(CONFIG.encode() + b"x: 1", 'fatwheel.yml:5:1: unknown key "x"', id="unknown-key"),
        pytest.param(CONFIG.replace("linux-cpu:", "linux-cup:").encode(),
                     'fatwheel.yml:4:3: unknown key "linux-cup", did you mean "linux-cpu"?', id="platform-misspelt"),
        pytest.param(CONFIG.encode(), "fatwheel.yml: the source has neither pyproject.toml nor setup.py",
                     id="no-project"),
    ],
)  # fmt: skip
def test_the_command_line_refuses_bad_input(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    said: str,
) -> None:
    monkeypatch.chdir(write(tmp_path, {} if content is None else {"fatwheel.yml": content}))
    assert main(["plan"]) == 2
    stdout, stderr = capsys.readouterr()
    assert (stdout, stderr[: len(said) + 10]) == ("", f"fatwheel: {said}")


def test_the_command_line_refuses_a_folder_without_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"fatwheel: there is no {tmp_path}/fatwheel.yml, expected a config")


@pytest.mark.parametrize(
    "address",
    ["https://me:hunter2@h/demo", "https://hunter2@h/demo", "ssh://git:hunter2@h/demo", "https://h/demo?token=hunter2"],
)
def test_a_git_address_with_a_secret_is_refused(address: str, tmp_path: Path) -> None:
    source = f"source: {{git: '{address}', ref: main}}\n"
    (tmp_path / "fatwheel.yml").write_text(f"{source}package: demo\npython: [3.12]\nplatforms:\n  linux-cpu:\n")
    with pytest.raises(InputError, match="1:15: the address contains a secret") as refused:
        loader.load(tmp_path / "fatwheel.yml", catalog.load())
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("address", ["pypi:https://me:hunter2@h/legacy/", "pypi:https://h/legacy/?token=hunter2"])
def test_a_target_with_a_secret_is_refused(address: str, tmp_path: Path) -> None:
    targets = f"publish: {{targets: ['s3://b/w?endpoint=http://h', '{address}']}}\n"
    (tmp_path / "fatwheel.yml").write_text(f"{targets}package: demo\npython: [3.12]\nplatforms:\n  linux-cpu:\n")
    with pytest.raises(InputError, match="1:51: the address contains a secret") as refused:
        loader.load(tmp_path / "fatwheel.yml", catalog.load())
    assert "hunter2" not in str(refused.value)


def test_a_pipe_is_no_config(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is not a regular file, expected a YAML file"):
        loader.load(tmp_path / "pipe", catalog.load())


def test_of_many_mistakes_some_are_shown(tmp_path: Path) -> None:
    wrong = CONFIG + "".join(f"x{number}: 1\n" for number in range(80))
    with pytest.raises(RejectedInput) as caught:
        load(tmp_path, wrong)
    assert len(caught.value.problems) == 80
    assert caught.value.message.splitlines()[50:] == ["and 30 more"]


@pytest.mark.parametrize(
    ("cudas", "pythons", "expected"),
    [
        pytest.param("[13.0, 13.2]", "[3.10, 3.14t]", ["2.13", "2.14", "2.15"], id="the-newest"),
        pytest.param("[12.8]", "[3.12]", ["2.9", "2.10", "2.11"], id="the-newest-for-an-older-cuda"),
        pytest.param("[12.8]", "[3.14]", ["2.9", "2.10", "2.11"], id="the-newest-for-its-python"),
    ],
)
def test_the_last_three_torches_are(tmp_path: Path, cudas: str, pythons: str, expected: list[str]) -> None:
    text = CUDA_ONLY.replace("[13.0, 12.9]", cudas).replace("[3.10, 3.14t]", pythons)
    torch = load(tmp_path, text).torch
    assert torch == Torch(versions=tuple(map(Minor.parse, expected)), last=3)


def test_the_last_torches_are_values_of_a_release_s_names(tmp_path: Path) -> None:
    text = CUDA_ONLY.replace("last 3", "last 1") + "release: {tag: 'v{version}-torch{torch}'}\n"
    assert load(tmp_path, text).release.tag == "v{version}-torch2.14.1"

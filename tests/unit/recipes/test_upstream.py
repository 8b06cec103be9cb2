"""What upstream has published, beside what a recipe names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.recipes.shelf import Recipe
from ci_tools.recipes.upstream import find_newer, read_news
from tests.builders.sources import committed, git, world, write
from tests.servers.package_index import index_of


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with the tags of two versions and of a candidate."""
    folder = write(tmp_path_factory.mktemp("upstream") / "upstream", {"a": "a"})
    committed(folder)
    for tag in ("v13.6.0", "v14.0.0rc1", "v13.5.0", "nightly"):
        git(folder, "tag", tag)
    return folder


@pytest.mark.parametrize(
    ("named", "newer"),
    [
        pytest.param('version: "13.5.0"', "13.6.0", id="an-older-version"),
        pytest.param('version: "13.6.0"', None, id="the-newest"),
        pytest.param('version: "14.0.0rc1"', None, id="a-candidate-of-the-next"),
        pytest.param('versions: { "13.5.0": ["3.13"], "14.0.0rc1": ["3.14"] }', None, id="one-of-two"),
    ],
)
def test_only_a_newer_version_is_news(upstream: Path, tmp_path: Path, named: str, newer: str | None) -> None:
    text = f'package: cupy\n{named}\nsource: {{ git: {upstream}, ref: "v{{version}}" }}\npython: ["3.13", "3.14"]\n'
    folder = write(tmp_path / "cupy", {"fatwheel.yml": f"{text}platforms: {{ linux-cpu: }}\n"})
    recipe = Recipe("cupy", folder, is_ours=False)
    found = find_newer(recipe.read(), recipe, world(tmp_path))
    assert (str(found) if found else None) == newer


CPU, CUDA = "linux-cpu: ", 'linux-cuda: { cuda: ["13.0"], archs: ["8.9"] }'
LINUX = "manylinux_2_28_x86_64"


@pytest.mark.parametrize(
    ("platform", "tags", "served"),
    [
        pytest.param(CPU, [f"cp313-cp313-{LINUX}", f"cp314-cp314t-{LINUX}"], "3.13, 3.14t", id="those-of-a-python"),
        pytest.param(CPU, ["cp313-cp313-win_amd64"], "", id="of-another-system"),
        pytest.param(CPU, [f"cp312-abi3-{LINUX}"], "3.13, 3.14", id="for-the-stable-abi"),
        pytest.param(CPU, [f"cp314-abi3-{LINUX}"], "3.14", id="for-the-stable-abi-of-a-newer"),
        pytest.param(CPU, ["py3-none-any"], "3.13, 3.14, 3.14t", id="pure"),
        pytest.param(CUDA, [f"cp37-abi3-{LINUX}"], "", id="perhaps-without-kernels"),
        pytest.param(CUDA, [f"cp313-cp313-{LINUX}"], "3.13", id="of-a-python-with-kernels"),
    ],
)
def test_a_wheel_that_upstream_ships_by_now_is_news(
    upstream: Path, tmp_path: Path, platform: str, tags: list[str], served: str
) -> None:
    files = {f"demo-{version}-{tag}.whl": b"x" for tag in tags for version in ("13.6.0", "13.7.0")}
    text = f'package: demo\nversion: "13.6.0"\nsource: {{ git: {upstream}, ref: "v{{version}}" }}\n'
    text += f'python: ["3.13", "3.14", "3.14t"]\nplatforms: {{ {platform} }}\n'
    recipe = Recipe("demo", write(tmp_path / "demo", {"fatwheel.yml": text}), is_ours=False)
    with index_of("demo", files) as index:
        news = read_news([recipe], world(tmp_path, PIP_INDEX_URL=index.url))
    assert [one.found for one in news if one.what == "wheel"] == ([served] if served else [])
    assert not [one for one in news if one.what == "unknown"]


def test_what_does_not_answer_hides_no_other_news(tmp_path: Path) -> None:
    text = f'package: demo\nversion: "1.0"\nsource: {{ git: {tmp_path}/gone, ref: "v{{version}}" }}\n'
    text += 'python: ["3.13"]\ntorch: ["2.9"]\nplatforms: { linux-cpu: }\n'
    recipe = Recipe("demo", write(tmp_path / "demo", {"fatwheel.yml": text}), is_ours=False)
    with index_of("demo", {f"demo-1.0-cp313-cp313-{LINUX}.whl": b"x"}) as index:
        news = read_news([recipe], world(tmp_path, PIP_INDEX_URL=index.url))
    assert [one.what for one in news] == ["unknown", "torch", "python", "wheel"]
    assert "{version}" not in news[0].found

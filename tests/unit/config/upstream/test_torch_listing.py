"""What the names of torch's wheels say."""

from __future__ import annotations

from typing import Any

import pytest

from ci_tools.config.upstream.torch_listing import describe_news, find_news, gather_facts, read_build
from ci_tools.model.versions import Minor


@pytest.mark.parametrize(
    ("file", "said"),
    [
        pytest.param("torch-2.16.0-cp312-cp312-manylinux_2_28_x86_64.whl", "3.12 linux-x86_64", id="linux"),
        pytest.param("torch-2.16.0-cp314-cp314t-manylinux_2_28_aarch64.whl", "3.14t linux-aarch64", id="free-threaded"),
        pytest.param("torch-2.16.0-cp310-none-macosx_11_0_arm64.whl", "3.10 macos-arm64", id="macos"),
        pytest.param("torch-2.16.0-cp312-cp312-win_amd64.whl", "3.12 windows-amd64", id="windows"),
        pytest.param("torch-2.16.0+cu136-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 13.6", id="cuda"),
        pytest.param("torch-2.16.0+cu128-cp312-cp312-win_amd64.whl", "3.12 windows-amd64 12.8", id="older-cuda"),
        pytest.param("torch-2.16.0+rocm7.14-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 7.14", id="rocm"),
        pytest.param("torch-2.16.0+rocm6.2.4-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 6.2", id="rocm-patch"),
        pytest.param("torch-2.16.0+xpu-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64 xpu", id="xpu"),
        pytest.param("torch-2.16.0+cpu.cxx11.abi-cp312-cp312-linux_x86_64.whl", "3.12 linux-x86_64", id="cpu"),
        pytest.param("torch-2.16.0rc1-cp312-cp312-win_amd64.whl", "", id="a-candidate"),
        pytest.param("torch-2.16.0.dev20261123+cpu-cp312-cp312-win_amd64.whl", "", id="a-nightly"),
        pytest.param("torch-2.16.0-cp312-cp312-macosx_11_0_x86_64.whl", "", id="a-machine-that-is-no-platform"),
        pytest.param("torch-2.16.0-py3-none-any.whl", "", id="pure"),
        pytest.param("torchaudio-2.16.0-cp312-cp312-win_amd64.whl", "", id="another-project"),
        pytest.param("torch-2.16.0.tar.gz", "", id="an-sdist"),
    ],
)
def test_a_name_says_for_what_a_wheel_is(file: str, said: str) -> None:
    build = read_build(file)
    found = [build.python, build.host, build.cuda, build.rocm, "xpu" if build.xpu else None] if build else []
    assert " ".join(str(one) for one in found if one) == said
    assert build is None or build.minor == Minor(2, 16)


def test_versions_are_sorted_as_numbers() -> None:
    names = [f"torch-2.16.0+cu{cuda}-cp3{minor}-cp3{minor}-win_amd64.whl" for cuda, minor in ((130, 14), (126, 9))]
    builds = [build for name in names if (build := read_build(name))]
    assert gather_facts(builds) == {
        "pythons": {"windows-amd64": ["3.9", "3.14"]},
        "cuda": {"windows-amd64": ["12.6", "13.0"]},
    }


KNOWN: dict[str, Any] = {"version": "2.16", "patch": "2.16.0", "cuda": {"linux-x86_64": ["13.2"]}}


@pytest.mark.parametrize(
    ("facts", "news", "words"),
    [
        pytest.param({"cuda": {"linux-x86_64": ["13.2"]}}, {}, "", id="nothing"),
        pytest.param({"cuda": {"linux-x86_64": []}}, {}, "", id="less"),
        pytest.param(
            {"cuda": {"linux-x86_64": ["13.6"]}}, {"cuda": {"linux-x86_64": ["13.2", "13.6"]}}, "CUDA 13.6", id="more"
        ),
        pytest.param(
            {"cuda": {"windows-amd64": ["13.2"]}}, {"cuda": {"windows-amd64": ["13.2"]}}, "CUDA 13.2", id="a-machine"
        ),
        pytest.param({"rocm": {"linux-x86_64": ["8.0"]}}, {"rocm": {"linux-x86_64": ["8.0"]}}, "ROCm 8.0", id="a-key"),
        pytest.param({"xpu": {"machines": ["x"]}}, {"xpu": {"machines": ["x"]}}, "XPU on x", id="xpu"),
    ],
)
def test_news_are_what_a_row_has_to_say(facts: dict[str, Any], news: dict[str, Any], words: str) -> None:
    assert find_news(KNOWN, facts) == news
    assert describe_news(KNOWN, news) == words

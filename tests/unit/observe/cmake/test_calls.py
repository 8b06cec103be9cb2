"""The call of cmake in an observed build: what is taken over, what is left out, and what is a doubt."""

from __future__ import annotations

import pytest

from ci_tools.observe.cmake.calls import read_observed_call
from ci_tools.observe.observation import Observed
from ci_tools.source.backends.cmake_call import CmakeCall


def called(*calls: tuple[str, ...], folder: str = ".", **env: str) -> CmakeCall:
    """Return the call that an observation with these calls of cmake shows."""
    return read_observed_call(Observed({}, configured=calls), env, folder, "CMAKE_ARGS")


@pytest.mark.parametrize(
    ("words", "folder", "arguments"),
    [
        pytest.param(("-S", "<source>", "-B", "build"), ".", (), id="the-root"),
        pytest.param(("<source>/csrc", "-GNinja", "-DA=1"), "csrc", ("-DA=1",), id="a-folder-by-itself"),
        pytest.param(("-S<source>", "-Bx", "-G", "Ninja", "-D", "A:BOOL=ON"), ".", ("-DA:BOOL=ON",), id="two-words"),
        pytest.param(("<source>", "-DPython_EXECUTABLE=<python>", "-DCMAKE_LIBRARY_OUTPUT_DIRECTORY_RELEASE=x",
                      "-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_CXX_FLAGS=-O3", "-Wno-dev", "--fresh"), ".",
                     ("-DCMAKE_CXX_FLAGS=-O3",), id="what-only-names-the-builder"),
    ],
)  # fmt: skip
def test_a_call_is_taken_over_without_the_builders_own(
    words: tuple[str, ...], folder: str, arguments: tuple[str, ...]
) -> None:
    call = called(words, ("--build", "build"))
    assert (call.folder, call.arguments, call.doubt) == (folder, arguments, "")


def test_variables_that_the_build_changes_are_those_of_cmake() -> None:
    call = called(("CXXFLAGS=-O3", "GONE=", "<source>"), CXXFLAGS="-O1", OTHER="x")
    assert dict(call.env) == {"CXXFLAGS": "-O3", "GONE": "", "OTHER": "x"}


def test_a_folder_is_named_from_that_of_the_project() -> None:
    assert called(("-S", "<source>/python"), folder="python").folder == "."
    assert called(("-S", "<source>"), folder="python").folder == ".."


def test_calls_that_differ_only_in_where_they_put_files_are_one() -> None:
    first, second = (("<source>", f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=build/{name}", "-DA=1") for name in "ab")
    assert called(first, second) == called(first)


@pytest.mark.parametrize(
    ("calls", "doubt"),
    [
        pytest.param((), "setup.py configures 0 builds of cmake, expected one", id="only-a-build"),
        pytest.param((("<source>", "-DA=1"), ("<source>", "-DA=2")), "configures 2 builds of cmake", id="two"),
        pytest.param((("<source>", "-C", "x.cmake"),), "with -C, which is not followed", id="a-script"),
        pytest.param((("<source>", "--toolchain=x"),), "with --toolchain, which is not followed", id="a-toolchain"),
        pytest.param((("<source>", "-DCMAKE_TOOLCHAIN_FILE:PATH=x"),), "-DCMAKE_TOOLCHAIN_FILE, which", id="defined"),
        pytest.param((("<stage>/tmp/x",),), "configure <stage>/tmp/x, which is not in the source", id="elsewhere"),
        pytest.param((("<source>/../x",),), "configure x, which is not in the source", id="above"),
    ],
)
def test_what_cannot_be_followed_is_a_doubt(calls: tuple[tuple[str, ...], ...], doubt: str) -> None:
    assert doubt in called(*calls, ("--build", "x")).doubt

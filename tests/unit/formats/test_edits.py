"""What is put into a setup.py and a meson.build."""

from __future__ import annotations

import pytest

from ci_tools.formats import edits
from ci_tools.model.versions import Minor


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("Extension('a', [])", "Extension('a', [], py_limited_api=True, "
                     'define_macros=[("Py_LIMITED_API", "0x030A0000")])', id="on-one-line"),
        pytest.param("Extension('a', [], define_macros=[('A', '1')])", "Extension('a', [], define_macros=[('A', '1'), "
                     '("Py_LIMITED_API", "0x030A0000")], py_limited_api=True)', id="macros-written-out"),
        pytest.param("Extension('a', [], define_macros=m)", "Extension('a', [], define_macros=[*m, "
                     '("Py_LIMITED_API", "0x030A0000")], py_limited_api=True)', id="macros-by-name"),
        pytest.param("Extension('ä', [], py_limited_api=False)", "Extension('ä', [], py_limited_api=True, "
                     'define_macros=[("Py_LIMITED_API", "0x030A0000")])', id="switched-off-and-not-ascii"),
        pytest.param("CUDAExtension('a', [])", "CUDAExtension('a', [], py_limited_api=True)",
                     id="torch-defines-the-macro-by-itself"),
        pytest.param("CppExtension(\n  'a',\n  []  # none\n)",
                     "CppExtension(\n  'a',\n  [],  # none\n  py_limited_api=True\n)", id="a-comment-stays-put"),
        pytest.param("Extension('a', [], **more)", None, id="arguments-that-are-hidden"),
        pytest.param("Extension('a', [], define_macros=m())", None, id="macros-by-a-call"),
        pytest.param("Extension('a', ([]))", None, id="a-last-argument-in-parentheses"),
        pytest.param("setup()", None, id="no-extension"),
        pytest.param("Extension(", None, id="no-python"),
    ],
)  # fmt: skip
def test_the_limited_api_is_put_into_an_extension(before: str, after: str | None) -> None:
    found = edits.declare_limited_api(f"{before}\nsetup()\n", Minor(3, 10), free_threaded=False)
    tagged = 'setup(options={"bdist_wheel": {"py_limited_api": "cp310"}})'
    assert found == (after and f"{after}\n{tagged}\n")


def test_an_extension_is_left_as_it_is_where_the_wheel_gets_its_tag_elsewhere() -> None:
    assert edits.declare_limited_api("Extension('a', [])\n", Minor(3, 10), free_threaded=False) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("extension_module('a', 'a.c')", "extension_module('a', 'a.c', limited_api: '3.10')", id="line"),
        pytest.param("extension_module(\n  'a',\n  f('x)'),\n)\n",
                     "extension_module(\n  'a',\n  f('x)'),\n  limited_api: '3.10',\n)\n", id="lines"),
        pytest.param("extension_module(\n  'a' # b\n)", None, id="a-comment-at-the-end"),
        pytest.param("extension_module('a', limited_api: '3.11')", None, id="limited-already"),
        pytest.param("extension_module('a'", None, id="no-end"),
    ],
)  # fmt: skip
def test_the_limited_api_is_put_into_a_meson_build(before: str, after: str | None) -> None:
    assert edits.declare_meson_limited_api(before, Minor(3, 10)) == after

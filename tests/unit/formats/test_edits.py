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


VARIABLE = 'os.environ.get("FORCE_CUDA") == "1"'
TOLD = """\
import os
def has_gpu():
    try:
        return check_output(["nvidia-smi"]) != b""
    except OSError:
        return False
    return True
"""
COUNTED = 'torch.cuda.device_count() > 0 or os.environ.get("FORCE_CUDA") == "1"'
GUARD = 'torch.cuda.is_available() or os.environ.get("FORCE_CUDA") == "1"'


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param("import os, torch\nif torch.cuda.is_available():\n    pass\n",
                     f"import os, torch\nif ({GUARD}):\n    pass\n", id="os-is-imported"),
        pytest.param("from __future__ import annotations\nimport torch\nx = not torch.cuda.is_available()\n",
                     f"from __future__ import annotations\nimport os\nimport torch\nx = not ({GUARD})\n", id="no-os"),
        pytest.param("import os\nx = 1 if torch.cuda.device_count() > 0 else 2\n",
                     f"import os\nx = 1 if ({COUNTED}) else 2\n", id="a-count"),
        pytest.param("import os\nx = torch.cuda.device_count() == 0\n", None, id="a-count-of-none"),
        pytest.param('import os\nx = call(["nvidia-smi"]) == 0\n',
                     f'import os\nx = (call(["nvidia-smi"]) == 0 or {VARIABLE})\n', id="an-exit-status"),
        pytest.param('import os\nx = a if which("nvidia-smi") is not None else b\n',
                     f'import os\nx = a if (which("nvidia-smi") is not None or {VARIABLE}) else b\n', id="a-path"),
        pytest.param(f"{TOLD}x = has_gpu()\n", f"{TOLD}x = (has_gpu() or {VARIABLE})\n", id="a-function"),
        pytest.param(f"{TOLD.replace('True', 'driver')}x = has_gpu()\n", None, id="a-function-with-another-answer"),
        pytest.param('import os\ntry:\n    call("nvidia-smi -L")\n    x = True\nexcept OSError:\n    x = False\n',
                     f'import os\ntry:\n    call("nvidia-smi -L")\n    x = True\nexcept OSError:\n    x = {VARIABLE}\n',
                     id="a-program-that-is-not-there"),
        pytest.param("import torch\nx = torch.xpu.is_available()\n", None, id="another-device"),
        pytest.param("x = torch.cuda.is_available(\n", None, id="not-python"),
    ],
)  # fmt: skip
def test_a_variable_asks_for_kernels_where_only_a_gpu_did(text: str, edited: str | None) -> None:
    assert edits.let_variable_ask(text) == edited


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        pytest.param('{"py_limited_api": "cp39"}', '{"py_limited_api": "cp310"}', id="once"),
        pytest.param('"cp39", "cp39"', None, id="twice"),
        pytest.param("cp391 xcp39", None, id="in-other-words"),
    ],
)
def test_a_word_is_replaced_where_it_stands_once(text: str, edited: str | None) -> None:
    assert edits.replace_once(text, "cp39", "cp310") == edited

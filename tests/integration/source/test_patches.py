from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.source import files as source
from ci_tools.source.files import Tree
from tests.builders.sources import CONFIG, committed, demo, git, request_of, world, write

pytestmark = pytest.mark.slow

SETUP = "zero = 0\nfirst = 1\nsecond = 2\nthird = 3\n"
PATCH = """\
--- a/setup.py
+++ b/setup.py
@@ -2,3 +2,3 @@
 first = 1
-second = 2
+second = 22
 third = 3
"""
NAMED = f"{CONFIG}source: {{git: up, ref: v1, patches: [{{file: two.patch, reason: two is too few}}]}}\n"


def opened(folder: Path, setup: str = SETUP, patch: str | None = PATCH) -> Tree:
    """Return the source of a config with a patch, from a repository beside it."""
    repository = demo(folder / "recipe/up", {"setup.py": setup})
    committed(repository)
    git(repository, "tag", "v1")
    files = {"fatwheel.yml": NAMED, **({"two.patch": patch} if patch is not None else {})}
    config = write(folder / "recipe", files)
    return source.open_tree(request_of(config), config, world(folder))


def refusal(folder: Path, setup: str = SETUP, patch: str | None = PATCH) -> str:
    with pytest.raises(InputError) as caught:
        opened(folder, setup, patch)
    return str(caught.value)


def test_a_patch_is_part_of_the_source(tmp_path: Path) -> None:
    tree = opened(tmp_path)
    assert tree.text("setup.py") == SETUP.replace("second = 2", "second = 22")
    assert tree.commit is not None
    assert ".git" not in {name.partition("/")[0] for name in tree.files}


def test_a_patch_moves_with_the_lines_around_it(tmp_path: Path) -> None:
    assert opened(tmp_path, f"import os\n\n{SETUP}").text("setup.py").endswith("second = 22\nthird = 3\n")


@pytest.mark.parametrize(
    ("setup", "patch", "expected"),
    [
        pytest.param(SETUP.replace("third", "other"), PATCH,
                     "the patch two.patch no longer applies: its hunk at setup.py:2 finds other lines there",
                     id="another-line-around-it"),
        pytest.param(SETUP.replace("first = 1", "first  = 1"), PATCH,
                     "the patch two.patch no longer applies: its hunk at setup.py:2 finds other lines there",
                     id="another-blank-around-it"),
        pytest.param(SETUP.replace("= 2", "= 22"), PATCH,
                     "the patch two.patch is no longer needed: the source already has what it changes",
                     id="the-source-has-it"),
        pytest.param(SETUP, PATCH.replace("setup.py", "gone.py"),
                     "the patch two.patch no longer applies: gone.py: No such file or directory",
                     id="its-file-is-gone"),
        pytest.param(SETUP, "second = 22\n", "the patch two.patch no longer applies: No valid patches in input",
                     id="no-patch-at-all"),
        pytest.param(SETUP, PATCH.replace("setup.py", "../../up.py"),
                     "the patch two.patch no longer applies: ../../up.py: No such file", id="a-file-outside"),
        pytest.param(SETUP, None, 'there is no patch "two.patch"', id="no-file"),
    ],
)  # fmt: skip
def test_a_patch_that_does_not_fit_is_one_clear_sentence(
    tmp_path: Path, setup: str, patch: str | None, expected: str
) -> None:
    found = refusal(tmp_path, setup, patch)
    assert "fatwheel.yml:5: " in found
    assert expected in found


def test_a_patch_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    refusal(tmp_path, SETUP.replace("third", "other"))
    assert not [path for path in (tmp_path / "cache/sources").glob("patched-*") if path.is_dir()]


def test_another_patch_is_another_source(tmp_path: Path) -> None:
    one = opened(tmp_path / "one")
    other = opened(tmp_path / "other", patch=PATCH.replace("22", "23"))
    assert one.sha256 != other.sha256


def test_every_patch_is_read_strictly(tmp_path: Path) -> None:
    config = CONFIG + "source: {patches: [{file: /x.patch}]}\n"
    with pytest.raises(RejectedInput) as caught:
        request_of(write(tmp_path, {"fatwheel.yml": config, "pyproject.toml": ""}))
    assert 'the key "reason" is missing' in caught.value.message

"""The quick check of a document accepts nothing that jsonschema refuses."""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_tools.config import loader
from ci_tools.formats.schema import conforms, validator_class

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

ROOT = Path(__file__).parents[3]
SCHEMA: dict[str, Any] = loader.read_schema()
CONFIG = """\
package: demo
python: ["3.10", "3.14t"]
torch: {lowest: "2.10"}
owner: "@demo/all"
source: {subdirectory: package}
build: {env: {A: "1"}, timeout-minutes: 60}
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0", "10.0+PTX"], native: ["*.cu"], runner: [a, b]}
  linux-xpu: {enabled: auto, env: {B: "2"}}
  linux-rocm: {rocm: ["7.1"], archs: [gfx942], swap-gib: 8}
  macos-arm64: {include: ci/macos.yml}
  linux-cpu:
validate: {imports: [demo], commands: ["python -m demo"]}
release: {tag: "v{version}"}
publish: {targets: ["dir:x"]}
"""

DOCUMENT = yaml.safe_load(CONFIG)


def parts(part: Any) -> Iterator[Any]:  # noqa: ANN401 - of a schema
    """Yield every value of a schema: its words are those that a config may have in the wrong place."""
    yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from parts(inner)


WORDS = sorted({one for one in parts(SCHEMA) if isinstance(one, str) and len(one) < 20})
KEYS = sorted({key for one in parts(SCHEMA) if isinstance(one, dict) for key in one})
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 5000), st.just(1.0), st.sampled_from(WORDS), st.text(max_size=5),
    st.sampled_from(["3.12", "3.12t", "gfx942", "9.0", "@a/b", "v{version}", "a\n", "13.0\n", "*.cu", "dir:x"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(value: Any, keys: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - of a document
    """Yield the keys of every value of a document."""
    yield tuple(keys)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*keys, key))


PLACES = [keys for keys in places({"": DOCUMENT}) if keys]
PICKLED = pickle.dumps(DOCUMENT)  # a copy of it takes a third of the time of copy.deepcopy


@st.composite
def documents(draw: st.DrawFn) -> Any:  # noqa: ANN401 - of any kind
    """Return a config with up to three values replaced, added or removed."""
    document = {"": pickle.loads(PICKLED)}  # noqa: S301 - our own
    for *way, last in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        holder: Any = document
        with contextlib.suppress(LookupError, TypeError):  # another value may have taken its place
            for key in way:
                holder = holder[key]
            if isinstance(holder, dict) and way and draw(st.booleans()):
                if draw(st.booleans()):
                    del holder[last]
                else:
                    holder[draw(st.sampled_from(KEYS))] = draw(VALUES)
            else:
                holder[last] = draw(VALUES)
    return document[""]


@functools.cache
def validator() -> Validator:
    return validator_class()(SCHEMA)


@given(documents())
@settings(max_examples=400)
def test_what_is_quickly_accepted_has_no_flaw(document: object) -> None:
    if conforms(document, SCHEMA, SCHEMA):
        assert list(validator().iter_errors(document)) == []


WRONG = (
    None, True, -1, 0, 10**6, 1.5, "", "a\n", "x y", "3.9", "13.0\n", "off",
    [], [""], ["a", "a"], [1], {}, {"x": 1}, {"A B": "1"},
)  # fmt: skip


def test_no_value_of_a_config_is_quickly_accepted_in_a_wrong_place() -> None:
    for way in places(DOCUMENT):
        for wrong in WRONG:
            document = {"": pickle.loads(PICKLED)}  # noqa: S301 - our own
            holder: Any = document
            *before, last = ("", *way)
            for key in before:
                holder = holder[key]
            holder[last] = wrong
            if conforms(document[""], SCHEMA, SCHEMA):
                assert list(validator().iter_errors(document[""])) == [], (way, wrong)


@pytest.mark.parametrize("page", sorted([*ROOT.glob("package/*.yml"), *ROOT.glob("tests/**/fatwheel.yml")]))
def test_configs_without_a_mistake_are_accepted_quickly(page: Path) -> None:
    assert conforms(yaml.safe_load(page.read_text("utf-8")), SCHEMA, SCHEMA)


def test_every_part_of_the_config_is_accepted_quickly() -> None:
    assert list(validator().iter_errors(DOCUMENT)) == []
    assert conforms(DOCUMENT, SCHEMA, SCHEMA)

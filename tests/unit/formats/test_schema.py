"""A document has a flaw exactly where jsonschema finds a violation."""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from ci_tools.config import loader
from ci_tools.formats.schema import CHECKS, flaws
from ci_tools.formats.yaml_file import Document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """Return jsonschema's, with the patterns of JSON Schema: `$` of Python also matches before a last line feed."""

    def match(_: object, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
        if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    return extend(Draft202012Validator, {"pattern": match})(SCHEMA)  # type: ignore[no-untyped-call, no-any-return]


def has_flaw(document: Any) -> bool:  # noqa: ANN401 - of any kind
    return bool(flaws(Document("a.yml", document, {}, {}), SCHEMA))


@given(documents())
@settings(max_examples=400)
def test_a_document_has_a_flaw_where_it_violates_the_schema(document: object) -> None:
    assert has_flaw(document) == (not validator().is_valid(document))


WRONG = (
    None, True, -1, 0, 10**6, 1.5, "", "a\n", "x y", "3.9", "13.0\n", "off",
    [], [""], ["a", "a"], [1], {}, {"x": 1}, {"A B": "1"},
)  # fmt: skip


def test_a_wrong_value_is_found_wherever_a_config_has_one() -> None:
    for way in places(DOCUMENT):
        for wrong in WRONG:
            document = {"": pickle.loads(PICKLED)}  # noqa: S301 - our own
            holder: Any = document
            *before, last = ("", *way)
            for key in before:
                holder = holder[key]
            holder[last] = wrong
            assert has_flaw(document[""]) == (not validator().is_valid(document[""])), (way, wrong)


@pytest.mark.parametrize("page", sorted([*ROOT.glob("package/*.yml"), *ROOT.glob("tests/**/fatwheel.yml")]))
def test_configs_without_a_mistake_have_no_flaw(page: Path) -> None:
    assert not has_flaw(yaml.safe_load(page.read_text("utf-8")))


def test_every_keyword_of_the_schema_is_checked() -> None:
    told = {"$schema", "$defs", "title", "description"}  # they constrain no value
    ours = {"oneOf", "$ref", "items", "properties", "additionalProperties", "propertyNames", "required", *CHECKS}
    assert {key for part in schemas(SCHEMA) for key in part} <= told | ours


def schemas(part: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - of a schema
    """Yield a schema and those within it; what `properties` and `$defs` have are names."""
    yield part
    inner = [part[key] for key in ("items", "propertyNames", "additionalProperties") if isinstance(part.get(key), dict)]
    named = (value for key in ("properties", "$defs") for value in part.get(key, {}).values())
    for one in (*inner, *named, *part.get("oneOf", ())):
        yield from schemas(one)

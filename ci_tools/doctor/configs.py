"""The parts of a repository's configs that matter to the workflows which call Fatwheel with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ci_tools.config.location import PROJECT_FILE, TABLE
from ci_tools.doctor.documents import NAME, items_of, one_line, scalar_of, table_of
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.workflow_set import Fetch
from ci_tools.doctor.workflows import EXPRESSION, Workflow
from ci_tools.errors import InputError
from ci_tools.formats.toml_file import find_table, require_table
from ci_tools.formats.yaml_file import parse
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.request import Release, Route

MAX_CONFIGS = 40  # that are read


class ConfigOutline(NamedTuple):
    """The parts of a config that matter to the workflows which call Fatwheel with it."""

    targets: tuple[str, ...]
    platforms: Mapping[str, bool]  # each enabled platform to whether a separate workflow builds it
    included: Mapping[str, str]  # platform to the included file with its table
    package: str = ""
    tag: str = Release().tag  # a template
    is_for_pypi: bool = False  # whether files of its releases go there


def read_config(text: str, path: str) -> ConfigOutline:
    """Return the targets and platforms of a config; raise InputError if it is not YAML, or TOML by its name."""
    name = one_line(path)
    root: Any = require_table(text, name, TABLE) if path.endswith(".toml") else parse(text, name).value
    top, tables = table_of(root), table_of(table_of(root).get("platforms"))
    named = {name: table_of(table) for name, table in tables.items() if NAME.fullmatch(name)}
    publish = table_of(top.get("publish"))
    return ConfigOutline(
        package=one_line(scalar_of(top.get("package"))),
        tag=one_line(scalar_of(table_of(top.get("release")).get("tag"))) or Release().tag,
        targets=tuple(one_line(scalar_of(target)) for target in items_of(publish.get("targets"))),
        is_for_pypi=scalar_of(publish.get("pypi")) not in {"", Route.NONE},
        platforms={name: _has_its_own(table) for name, table in named.items() if not _is(table, "enabled", "false")},
        included={name: text for name, table in named.items() if (text := scalar_of(table.get("include")))},
    )


def read_included(text: str, path: str) -> bool:
    """Return whether a platform's table, in an included file, sets `own-workflow`."""
    return _has_its_own(table_of(parse(text, one_line(path)).value))


def _has_its_own(table: Mapping[str, Any]) -> bool:
    return _is(table, "own-workflow", "true")


def _is(table: Mapping[str, Any], key: str, word: str) -> bool:
    return scalar_of(table.get(key)).lower() == word


def read_configs(fetch: Fetch, workflows: Iterable[Workflow]) -> Iterator[tuple[str, ConfigOutline | Unseen]]:
    """Yield each config that a call of Fatwheel names, if it exists, by its path."""
    jobs = (job for workflow in workflows for job in workflow.jobs if job.builds_all or job.builds_one)
    paths = dict.fromkeys(job.config for job in jobs if EXPRESSION not in job.config)  # else only the run knows which
    for path in islice(paths, MAX_CONFIGS):
        found = read_outline(fetch, path)
        if found:
            yield path, found


def read_outline(fetch: Fetch, path: str) -> ConfigOutline | Unseen | None:
    """Return the outline of a config, with the tables in included files; None if the config does not exist."""
    try:
        text = _text_at(fetch, path)
        if text is None and path == CONFIG_FILE:  # the default may be a table, as for `fatwheel plan`
            text, path = _project_with_table(fetch), PROJECT_FILE
        if isinstance(text, str):
            outline, folder = read_config(text, path), path.rpartition("/")[0]
            tables = {name: _text_at(fetch, f"{folder}/{file}".lstrip("/")) for name, file in outline.included.items()}
            own = {name: read_included(table, path) for name, table in tables.items() if isinstance(table, str)}
            return outline._replace(platforms={**outline.platforms, **own})
    except InputError as error:
        text = Unseen("", f"a readable file: {one_line(error.message)}")
    return text and text._replace(what=f"the targets and platforms of {path}")


def _project_with_table(fetch: Fetch) -> str | None:
    """Return the text of the pyproject.toml at the root if the config is a table in it."""
    text = _text_at(fetch, PROJECT_FILE)
    is_there = isinstance(text, str) and TABLE[-1] in text and find_table(text, PROJECT_FILE, TABLE) is not None
    return text if is_there and isinstance(text, str) else None


def _text_at(fetch: Fetch, path: str) -> str | Unseen | None:
    """Return a file of the repository; None for a path that leaves it."""
    return None if ".." in path.split("/") else fetch("", path, "")  # or a hostile one would read any file here

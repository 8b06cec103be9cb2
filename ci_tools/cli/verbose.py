"""The output of `--verbose`: records of the channel `ci_tools`, HTTP requests, and the causes of errors."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

OURS = logging.getLogger("ci_tools")
HTTP = logging.getLogger("urllib3.connectionpool")  # below requests, PyGithub and boto3; it logs no header
PARTS = 8  # of its record of a request: scheme, host, port, method, path, protocol, status, size
VARIABLES = ("FATWHEEL_VERBOSE", "RUNNER_DEBUG")  # GitHub sets the second for a run with debug logging


class _Lines(logging.Handler):
    """Prints each record as one line, above the live bar if there is one."""

    def __init__(self, stderr: Console) -> None:
        super().__init__(logging.DEBUG)
        self.stderr = stderr

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; of urllib3, only connections and requests."""
        if record.name != HTTP.name or record.msg.startswith("Starting new"):  # "Starting new HTTPS connection (1): …"
            self._print(f"{record.name}: {record.getMessage()}")
        elif isinstance(record.args, tuple) and len(record.args) == PARTS:
            scheme, host, port, method, path, _, status, _ = record.args
            self._print(f"{HTTP.name}: {status} for {method} {scheme}://{host}:{port}{path}")

    def _print(self, line: str) -> None:
        from rich.text import Text

        self.stderr.print(Text(_safe(line), style="dim"), soft_wrap=True)


def is_wanted(environ: Mapping[str, str], *, asked: bool) -> bool:
    """Whether the command line or a variable asks for it."""
    return asked or any(environ.get(name) == "1" for name in VARIABLES)


def is_on() -> bool:
    """Whether records are printed."""
    return any(isinstance(handler, _Lines) for handler in OURS.handlers)


def start(stderr: Console) -> None:
    """Print records from now on, until the end of `log_until_end`; a verb that runs within another changes nothing."""
    if not is_on():
        handler = _Lines(stderr)
        for logger in (OURS, HTTP):
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)


@contextmanager
def log_until_end() -> Iterator[None]:
    """Undo `start` at the end of the body."""
    levels = [(logger, logger.level) for logger in (OURS, HTTP)]
    try:
        yield
    finally:
        for logger, level in levels:
            logger.setLevel(level)
            for handler in [handler for handler in logger.handlers if isinstance(handler, _Lines)]:
                logger.removeHandler(handler)


def causes_of(error: BaseException) -> Iterator[str]:
    """Yield a line for each cause of an error, the innermost last, without secrets."""
    seen = {id(error)}  # `raise … from …` can make a circle
    while (cause := error.__cause__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield _safe(f"caused by {type(cause).__name__}: {cause}")
        error = cause


def _safe(text: str) -> str:
    """Return a text on one line, without passwords and query strings."""
    return plain(text).replace("\n", "\\n")

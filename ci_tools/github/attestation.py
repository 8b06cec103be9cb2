"""Verifies the provenance of a release's files: gh checks the attestation that the workflow signed for each of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, MachineError, Problem, Rejected
from ci_tools.formats import receipts
from ci_tools.formats.markdown import one_line
from ci_tools.machine.process import clean_environment, run, tail
from ci_tools.model.names import REPOSITORY

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside

SIGNER = re.compile(rf"{REPOSITORY.pattern}/\.github/workflows/[A-Za-z0-9._-]+\.ya?ml")
FILES = ("*.whl", "*.tar.gz")
PARTS = (*FILES, "plan.json", "receipts/*.json")  # all files that publishing reads
# The environment variables that gh may see: its server and its token.
GH = ("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "GH_ENTERPRISE_TOKEN", "GH_CONFIG_DIR", "XDG_CONFIG_HOME")
TIMEOUT = 300.0  # seconds for one file
MAX_ANSWER = 400  # characters
NO_TOKEN = 4  # gh's exit status without a login (`gh help exit-codes`)


def verify(
    folder: Path, repository: str, signer: str, bundles: Path | None, outside: Outside, *, timeout: float = TIMEOUT
) -> tuple[Path, ...]:
    """Return the files of a release folder if each was attested by a workflow in a run of a repository.

    `repository` (OWNER/REPO) is the repository of the run, `signer` (OWNER/REPO/.github/workflows/FILE) the workflow
    that signed, and `bundles` a folder with the attestation; without it, gh asks GitHub. `timeout` is in seconds per
    file. Raises Rejected with every file that is not attested, InputError if there are no files or gh has no token, and
    MachineError if gh is missing or does not answer.
    """
    for name, pattern, text in (("repository", REPOSITORY, repository), ("signer", SIGNER, signer)):
        if not pattern.fullmatch(text):
            shape = f"OWNER/REPO{'/.github/workflows/FILE' if name == 'signer' else ''}"
            raise InputError(f'--{name}: "{one_line(text)}" is not valid, expected {shape}')
    files = _list_files(folder, PARTS)
    policy = [f"--repo={repository}", f"--signer-workflow={signer}", *_bundles(bundles)]
    verifier = _Verifier(_gh(outside), tuple(policy), outside, timeout)
    refused = [problem for path in files for problem in verifier.verify(path)]
    if refused:
        raise Rejected("\n".join(map(str, refused)), hint="publish none of these files")
    return files


def hold_to_receipts(folder: Path) -> tuple[Path, ...]:
    """Return the wheels and the sdist of a release folder if the bytes of each match its receipt.

    Raises Rejected with every file that does not match, and InputError if there are no files.
    """
    files = _list_files(folder, FILES)
    wrong = [path for path in files if receipts.load(path) is None]
    if wrong:
        problems = (Problem(one_line(path), "it has no receipt of its present bytes") for path in wrong)
        raise Rejected("\n".join(map(str, problems)), hint="publish none of these files")
    return files


def _list_files(folder: Path, patterns: Iterable[str]) -> tuple[Path, ...]:
    """Return the files of a release folder; raise InputError if there are none."""
    files = tuple(sorted(path for pattern in patterns for path in folder.glob(pattern)))
    if not files:
        raise InputError(f"{folder} has no wheel or sdist, expected a folder that `fatwheel ci gather` wrote")
    return files


def _gh(outside: Outside) -> str:
    gh = shutil.which("gh", path=outside.environ.get("PATH"))
    if gh is None:
        msg = "gh, which verifies attestations, is not installed"
        raise MachineError(msg, hint="install the GitHub CLI; runners that GitHub hosts have it")
    return gh


def _bundles(folder: Path | None) -> Iterator[str]:
    """Yield the option that names the attestation; raise InputError unless the folder has exactly one file."""
    if folder is None:
        return
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    if len(found) != 1:
        raise InputError(f"{folder} has {len(found)} attestations, expected the one bundle of a run")
    yield f"--bundle={found[0].absolute()}"


class _Verifier(NamedTuple):
    """gh, and the policy that it enforces."""

    gh: str
    policy: tuple[str, ...]
    outside: Outside
    timeout: float

    def verify(self, path: Path) -> Iterator[Problem]:
        """Yield why a file is not attested; an absolute path cannot be taken for an option or an OCI address."""
        name = one_line(path.name)
        environ = self.outside.environ
        variables = clean_environment(environ, {name: environ[name] for name in GH if name in environ})
        command: list[str | Path] = [self.gh, "attestation", "verify", path.absolute(), *self.policy]
        with self.outside.reporter.step(f"verify {name}"):
            ended = run(command, log=self.outside.cache / "attested.log", env=variables, timeout=self.timeout)
        if ended.timed_out:
            msg = f"gh did not verify {name} within {self.timeout:.0f} seconds"
            raise MachineError(msg, hint="try again; nothing has been published")
        said = " ".join(tail(ended.log, 3, ended.start).split())[-MAX_ANSWER:]
        if ended.status == NO_TOKEN:
            msg = f"gh has no token: {one_line(said)}"
            raise InputError(msg, hint="env: GH_TOKEN: ${{ github.token }}, and permissions: attestations: read")
        if ended.status:
            yield Problem(one_line(path), f"it is not attested: {one_line(said)}")

"""Verifies where the files of a release came from: gh checks the signature that the workflow gave each of them."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from ci_tools.errors import InputError, MachineError, Problem, Rejected
from ci_tools.process import clean_environment, run, tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci_tools.outside import Outside

__all__ = ["verify"]

REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
SIGNER = re.compile(rf"{REPOSITORY.pattern}/\.github/workflows/[A-Za-z0-9._-]+\.ya?ml")
PARTS = ("*.whl", "*.tar.gz", "plan.json", "receipts/*.json")  # all that publishing reads
# What gh is to see of our variables: who it asks, and as whom.
GH = ("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "GH_ENTERPRISE_TOKEN", "GH_CONFIG_DIR", "XDG_CONFIG_HOME")
TIMEOUT = 300  # seconds for one file


def verify(folder: Path, repository: str, signer: str, bundles: Path | None, outside: Outside) -> tuple[Path, ...]:
    """Return the files of a release folder once all of them are what a workflow signed in a repository's run.

    `repository` (OWNER/REPO) is where the run was; `signer` (OWNER/REPO/.github/workflows/FILE) the workflow that
    signed; `bundles` a folder with the attestations, which GitHub is asked for otherwise. Raises Rejected with every
    file that is not, InputError where there is none, MachineError without gh.
    """
    for name, pattern, text in (("repository", REPOSITORY, repository), ("signer", SIGNER, signer)):
        if not pattern.fullmatch(text):
            msg = f'--{name}: "{text}" is none, expected OWNER/REPO{"/.github/workflows/FILE" if name == "signer" else ""}'
            raise InputError(msg)
    files = tuple(sorted(path for part in PARTS for path in folder.glob(part)))
    if not files:
        msg = f"{folder} has no release, expected what `fatwheel gather` wrote"
        raise InputError(msg)
    gh = shutil.which("gh", path=outside.environ.get("PATH"))
    if gh is None:
        msg = "there is no gh on this machine, which verifies attestations"
        raise MachineError(msg, hint="every hosted runner of GitHub has it")
    policy = [f"--repo={repository}", f"--signer-workflow={signer}", *_bundles(bundles)]
    refused = [problem for path in files for problem in _refused(gh, path, policy, outside)]
    if refused:
        raise Rejected("\n".join(map(str, refused)), hint="nothing of it has been published")
    return files


def _bundles(folder: Path | None) -> Iterator[str]:
    """Yield the option that names the attestations; raise InputError where the folder has not just one file."""
    if folder is None:
        return
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    if len(found) != 1:
        msg = f"{folder} has {len(found)} attestations, expected the one bundle of a run"
        raise InputError(msg)
    yield f"--bundle={found[0]}"


def _refused(gh: str, path: Path, policy: list[str], outside: Outside) -> Iterator[Problem]:
    log = outside.cache / "attested.log"
    variables = clean_environment(outside.environ, _known(outside.environ))
    with outside.reporter.step(f"verify {path.name}"):
        ended = run([gh, "attestation", "verify", path, *policy], log=log, env=variables, timeout=TIMEOUT)
    if ended.timed_out:
        msg = f"gh gave no answer about {path.name} in {TIMEOUT} seconds"
        raise MachineError(msg)
    if ended.status:
        yield Problem(str(path), f"it is not attested: {tail(log, 3, ended.start)}")


def _known(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in GH if name in environ}

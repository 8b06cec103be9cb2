"""Who attested a wheel: the run that signed its provenance, and whether Sigstore's root vouches for the signature."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.errors import FatwheelError, InputError
from ci_tools.github.attested import read_provenance
from ci_tools.machine.http.policy import explain_unanswered

API, API_VARIABLE = "https://api.github.com", "GITHUB_API_URL"
# GitHub answers 404 for a private repository as for one without an attestation, and we send no token.
UNSHOWN = "; one of a private repository is only taken from a file: `gh attestation download`, then `--bundle FILE`"
REPOSITORY = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?(?:/.*)?\Z")


class WheelAttestation(NamedTuple):
    """The run that signed a wheel's provenance, and what of it is not checked, or does not hold; `by` is an address."""

    by: str = ""
    signer: str = ""
    unchecked: str = ""


def find_attestation(
    sha256: str, addresses: tuple[str, ...], bundle: Path | None, environ: Mapping[str, str]
) -> WheelAttestation:
    """Return the attestation of a wheel, from a file or from GitHub; `addresses` are those of its source and itself."""
    try:
        own = {match[1] for address in addresses if (match := REPOSITORY.match(address))}
        found = _read_bundles(bundle) if bundle else _ask_github(sha256, own, environ)
        provenance = [(read_provenance(one, sha256), one) for one in found]
    except FatwheelError as error:
        return WheelAttestation(unchecked=f"its attestation does not hold, or is not known: {error.message}")
    for signed, one in provenance:
        if bundle or signed.repository.lower() in {f"https://github.com/{name}".lower() for name in own}:
            return WheelAttestation(signed.repository, signed.signer, _check_root(one))
    private = UNSHOWN if own and not bundle else ""
    return WheelAttestation(unchecked=f"no attestation of it is known: nothing signed says who made it{private}")


def _read_bundles(path: Path) -> list[Any]:
    """Return the bundle of a file, or those of its lines, as `gh attestation download` writes them."""
    try:
        content = path.read_text(encoding="utf-8")
        return [json.loads(line) for line in (content.splitlines() if "\n{" in content else [content])]
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not an attestation, expected a bundle of Sigstore's in JSON: {error}") from error


def _ask_github(sha256: str, repositories: set[str], environ: Mapping[str, str]) -> list[Any]:
    """Return the bundles that GitHub keeps of a file for some repositories; anybody may ask."""
    from ci_tools.machine.http.client import open_session, read_document  # noqa: PLC0415 - it loads long

    found: list[Any] = []
    for repository in sorted(repositories):
        url = f"{environ.get(API_VARIABLE) or API}/repos/{repository}/attestations/sha256:{sha256}"
        with open_session() as session, explain_unanswered(f"GitHub does not answer for {repository}", "", KeyError):
            found += [one["bundle"] for one in json.loads(read_document(session, url) or b"{}").get("attestations", ())]
    return found


def _check_root(bundle: Any) -> str:  # noqa: ANN401 - JSON
    """Return why Sigstore's root does not vouch for a bundle; "" if it does."""
    try:
        from sigstore.models import Bundle  # noqa: PLC0415 - it need not be installed
        from sigstore.verify import Verifier, policy  # noqa: PLC0415
    except ImportError:
        why = "Sigstore's root has not vouched for its certificate: the library sigstore is not installed"
        return f"{why} (`pip install sigstore`; `gh attestation verify` does it as well)"
    try:
        # Who signed is compared with the source's address, not with a policy.
        Verifier.production().verify_dsse(Bundle.from_json(json.dumps(bundle)), policy.UnsafeNoOp())
    except Exception as error:  # noqa: BLE001 - TUF's and cryptography's errors have no class in common
        return f"Sigstore's root has not vouched for its certificate: {type(error).__name__}: {error}"
    return ""

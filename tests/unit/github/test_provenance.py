from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from ci_tools.errors import InputError
from ci_tools.github.attested import Provenance, read_provenance
from tests.builders.attestations import WORKFLOW, sign_provenance

HERE = "https://github.com/octo/wheels"
DIGEST = "0123456789abcdef" * 4
Bundle = dict[str, Any]


def test_a_bundle_says_which_run_signed_it_and_by_which_workflow() -> None:
    assert read_provenance(sign_provenance(DIGEST, HERE), DIGEST) == Provenance(HERE, WORKFLOW)


def test_a_long_address_is_read() -> None:
    long = f"https://github.com/octo/{'w' * 100}/.github/workflows/a.yml@main"
    assert read_provenance(sign_provenance(DIGEST, HERE, signer=long), DIGEST).signer == long


def test_a_bundle_of_an_older_format_has_a_chain() -> None:
    bundle = sign_provenance(DIGEST, HERE)
    chain = {"certificates": [bundle["verificationMaterial"]["certificate"]]}
    assert (
        read_provenance({**bundle, "verificationMaterial": {"x509CertificateChain": chain}}, DIGEST).repository == HERE
    )


def restate(bundle: Bundle) -> None:
    """Change a statement that is signed."""
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    statement["subject"].append({"name": "b.whl", "digest": {"sha256": "f" * 64}})
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()


def exchange_certificate(bundle: Bundle) -> None:
    """Give a bundle the certificate of another run."""
    bundle["verificationMaterial"] = sign_provenance(DIGEST, HERE)["verificationMaterial"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(restate, "its signature is not that of its certificate", id="another-statement"),
        pytest.param(exchange_certificate, "its signature is not that of its certificate", id="another-certificate"),
        pytest.param(
            lambda one: one["dsseEnvelope"].update(payloadType="text/plain"),
            "another kind than a provenance",
            id="no-in-toto",
        ),
        pytest.param(lambda one: one["dsseEnvelope"].update(payload="*"), "cannot be read: Error", id="no-base64"),
        pytest.param(
            lambda one: one["dsseEnvelope"].update(signatures=[]), "cannot be read: IndexError", id="unsigned"
        ),
        pytest.param(lambda one: one["dsseEnvelope"].update(payload="W10="), "cannot be read: TypeError", id="a-list"),
        pytest.param(dict.clear, "cannot be read: KeyError", id="empty"),
    ],
)
def test_a_bundle_that_does_not_hold_is_refused_with_the_reason(change: Callable[[Bundle], None], why: str) -> None:
    bundle = sign_provenance(DIGEST, HERE)
    change(bundle)
    with pytest.raises(InputError, match=why):
        read_provenance(bundle, DIGEST)


def test_a_bundle_of_other_bytes_is_refused() -> None:
    with pytest.raises(InputError, match="it is of other bytes"):
        read_provenance(sign_provenance("f" * 64, HERE), DIGEST)


def test_an_attestation_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="another kind than a provenance"):
        read_provenance(sign_provenance(DIGEST, HERE, kind="https://spdx.dev/Document"), DIGEST)


@pytest.mark.parametrize("bundle", [None, [], "text", 1])
def test_what_is_no_bundle_is_refused(bundle: object) -> None:
    with pytest.raises(InputError, match="it cannot be read: TypeError"):
        read_provenance(bundle, DIGEST)

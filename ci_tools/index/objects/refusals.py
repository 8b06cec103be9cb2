"""The errors of requests to a bucket, in the words of Fatwheel: who is to do what."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
)
from botocore.parsers import ResponseParserError

from ci_tools.errors import InputError, MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


HINT = "the same command goes on where this one stopped"

CREDENTIALS = frozenset({"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"})
DENIED = frozenset({"401", "403", "AccessDenied", "AllAccessDisabled"})
# The permissions of an operation, where their names differ from its own. S3 answers 403 instead of 404 for a missing
# key unless the caller may list the bucket.
PERMISSIONS = {
    "GetObject": "s3:GetObject and s3:ListBucket",
    "HeadObject": "s3:GetObject and s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
}


@contextmanager
def explain_errors(where: str) -> Iterator[None]:
    """Convert errors of boto3 into errors that the user understands."""
    try:
        yield
    except ClientError as error:
        raise explain_refusal(where, error) from error
    except (NoCredentialsError, PartialCredentialsError, ProfileNotFound, NoRegionError) as error:
        msg = f"{where}: {describe_error(error)}"
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; in a workflow, assume a role before"
        raise InputError(msg, hint=hint) from error
    except (ParamValidationError, ValueError) as error:  # ValueError: the endpoint is not an address
        raise InputError(f"{where}: {describe_error(error)}") from error
    except ResponseParserError as error:  # none of BotoCoreError's
        raise _not_s3(where) from error
    except BotoCoreError as error:
        raise MachineError(f"{where}: {describe_error(error)}", hint=HINT) from error


def explain_refusal(where: str, error: ClientError) -> InputError | MachineError:
    """Return the error that an error answer of the server means."""
    code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
    if code in CREDENTIALS:
        return InputError(f"{where}: the credentials are refused: {said}", hint="renew them, or name other ones")
    if code in DENIED:
        operation = error.operation_name
        needed = PERMISSIONS.get(operation, f"s3:{operation}")
        return InputError(f"{where}: these credentials may not {operation}", hint=f"allow them {needed} there")
    if code == "NoSuchBucket":
        return InputError(f"{where}: there is no such bucket")
    if code == "RequestTimeTooSkewed":
        hint = "set it and run the same command again"
        return MachineError(f"{where}: this machine's clock is wrong: {said}", hint=hint)
    return MachineError(f"{where}: {code}: {said}", hint=HINT)


def tag_of(answer: Mapping[str, Any], where: str) -> str:
    """Return the ETag of an answer about an object; raise MachineError if it has none, as a proxy's page has."""
    refuse_page(answer, where, "ETag")
    return str(answer["ETag"])


def refuse_page(answer: Mapping[str, Any], where: str, sign: str = "") -> None:
    """Raise MachineError for an answer that is not S3's: one without the field `sign`, or a page."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if sign not in answer if sign else str(headers.get("content-type", "")).startswith("text/html"):
        raise _not_s3(where)


def _not_s3(where: str) -> MachineError:
    msg = f"{where}: what answers is not S3: the answer has not what an answer of S3's has"
    return MachineError(msg, hint=f"look for a proxy, or a login page, between here and the server; {HINT}")


def code_of(error: ClientError) -> str:
    """Return the code of an error as S3 names it, such as NoSuchKey."""
    return str(error.response.get("Error", {}).get("Code", ""))


def describe_error(error: Exception) -> str:
    """Return the start of an error's words, in one line."""
    return " ".join(str(error).split())[:300]

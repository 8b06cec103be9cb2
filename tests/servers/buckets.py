"""S3 servers on this machine, for tests: moto in every run, localstack and s3rver where they can be had."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import boto3
from botocore.config import Config
from botocore.session import Session

from ci_tools.index.objects.bucket_reader import parse_time
from ci_tools.machine.process import output
from ci_tools.machine.storage import cache_folder, fill_once
from tests.servers.prepared import S3, run_server
from tests.servers.uploads import UV, free_port, running

BUCKET = "bucket"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "sEcReT", "AWS_DEFAULT_REGION": "us-east-1"}
LOCALSTACK_PYTHON = "3.13"
LOCALSTACK = (
    "localstack-core[runtime]==2026.3.0",
    "cbor2<5.8",
    "cryptography<46",
    "pyOpenSSL<25.2",
    "service_identity",
)
S3RVER = "s3rver@3.7.1"  # it ignores every condition of a write
SETTINGS = {"DISABLE_EVENTS": "1", "SERVICES": "s3", "SKIP_SSL_CERT_DOWNLOAD": "1"}
NO_PROXY = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


class Bucket(NamedTuple):
    """A bucket that everybody may read, and those with the credentials may write."""

    port: int
    key: str = "tester"  # the ID of the one who may write
    secret: str = "sEcReT"  # noqa: S105 - the server is a test's own

    @property
    def environ(self) -> Mapping[str, str]:
        """Return the variables in which a publisher finds the credentials."""
        return {**CREDENTIALS, "AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    def target(self, prefix: str = "whl", port: int = 0, **options: str) -> str:
        """Return a part of the bucket as a user names it, reached at another port where one is given."""
        endpoint = f"http://127.0.0.1:{port or self.port}"
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"s3://{BUCKET}/{prefix}?endpoint={endpoint}{more}"

    def url(self, key: str = "") -> str:
        """Return where anybody reads a key."""
        return f"{self.endpoint}/{BUCKET}/{key}"

    def client(self) -> Any:  # noqa: ANN401 - boto3 makes its types at run time
        """Return a client with the credentials."""
        config = Config(s3={"addressing_style": "path"})
        return _open_session(self.key, self.secret).client("s3", endpoint_url=self.endpoint, config=config)


@functools.cache  # each session parses the descriptions of S3's API anew
def _open_session(key: str, secret: str) -> boto3.Session:
    inner = Session()
    inner.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_time)
    keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
    return boto3.Session(region_name="us-east-1", botocore_session=inner, **keys)


@contextmanager
def moto() -> Iterator[Bucket]:
    """Serve an empty bucket with moto."""
    with run_server(S3) as port:
        bucket = Bucket(int(port))
        make_bucket(bucket)
        yield bucket


@contextmanager
def localstack() -> Iterator[Bucket]:
    """Serve an empty bucket with localstack, which checks checksums; raise LookupError where it cannot be had."""
    bucket = Bucket(free_port())
    environ = {**os.environ, **SETTINGS, "GATEWAY_LISTEN": f"127.0.0.1:{bucket.port}"}
    command = ["env", *(f"{name}={environ[name]}" for name in (*SETTINGS, "GATEWAY_LISTEN"))]
    with running([*command, str(localstack_python()), "-m", "localstack.runtime.main"], bucket.endpoint):
        make_bucket(bucket)
        yield bucket


@contextmanager
def s3rver() -> Iterator[Bucket]:
    """Serve an empty bucket with s3rver, which knows no conditions; raise LookupError where it cannot be had."""
    program = s3rver_program()
    bucket = Bucket(free_port(), "S3RVER", "S3RVER")
    with tempfile.TemporaryDirectory(prefix="fatwheel-s3rver-") as folder:
        place = ["--directory", folder, "--address", "127.0.0.1", "--port", str(bucket.port)]
        with running([str(program), *place, "--silent", "--configure-bucket", BUCKET], bucket.endpoint):
            yield bucket


def s3rver_program() -> Path:
    """Return s3rver's program, installed into the user's cache once."""
    npm = shutil.which("npm")
    folder = cache_folder(os.environ) / "servers" / S3RVER.replace("@", "-")
    if not npm and not folder.is_dir():
        raise LookupError(f"{S3RVER} needs npm, which is not here")

    def fill(folder: Path) -> None:
        options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([str(npm), "install", *options, "--prefix", str(folder), S3RVER], check=True)

    if not folder.is_dir():
        try:
            fill_once(folder, fill, print)
        except subprocess.CalledProcessError as error:
            raise LookupError(f"{S3RVER} cannot be installed: {error}") from None
    return folder / "node_modules" / ".bin" / "s3rver"


def localstack_python() -> Path:
    """Return a Python that has localstack, installed into the user's cache once."""
    python = output([UV, "python", "find", "--offline", LOCALSTACK_PYTHON]) or _pyenv_python()

    def fill(folder: Path) -> None:
        subprocess.run([UV, "venv", "--quiet", "--relocatable", "--python", python, str(folder)], check=True)
        install = [UV, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *LOCALSTACK]
        subprocess.run(install, check=True)

    folder = cache_folder(os.environ) / "servers" / "localstack"
    if not folder.is_dir():
        try:
            fill_once(folder, fill, print)
        except subprocess.CalledProcessError as error:
            raise LookupError(f"localstack cannot be installed: {error}") from None
    return folder / "bin" / "python"


def _pyenv_python() -> str:
    """Return the Python of pyenv, which uv does not look for."""
    found = sorted(Path.home().glob(f".pyenv/versions/{LOCALSTACK_PYTHON}.*/bin/python"))
    if not found:
        raise LookupError(f"localstack needs Python {LOCALSTACK_PYTHON}, which is not here")
    return str(found[-1])


def make_bucket(bucket: Bucket) -> None:
    """Make the bucket, with a policy that lets everybody read."""
    client = bucket.client()
    client.create_bucket(Bucket=BUCKET)
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{BUCKET}/*",
    }
    client.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))


def keys(client: Any, prefix: str = "") -> list[str]:  # noqa: ANN401 - see Bucket.client
    """Return every key below a prefix, less the prefix."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [entry["Key"].removeprefix(prefix) for page in pages for entry in page.get("Contents", ())]


def objects(client: Any, prefix: str = "") -> Mapping[str, bytes]:  # noqa: ANN401 - see Bucket.client
    """Return every object below a prefix."""
    found = {}
    for key in keys(client, prefix):
        with client.get_object(Bucket=BUCKET, Key=f"{prefix}{key}")["Body"] as body:
            found[key] = body.read()
    return found


def copy(client: Any, source: str, target: str, *, less: tuple[str, ...] = ()) -> None:  # noqa: ANN401 - see Bucket.client
    """Copy every object below a prefix to another one, with its metadata, less some folders."""
    for key in (key for key in keys(client, source) if not key.startswith(less)):
        client.copy_object(Bucket=BUCKET, Key=f"{target}{key}", CopySource={"Bucket": BUCKET, "Key": f"{source}{key}"})

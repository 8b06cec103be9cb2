"""What a user may write after `--to`: each place has one name, and nothing that is wrong or secret goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.publish.targets.addresses import index_of, targets_of
from tests.builders.sources import world


@pytest.mark.slow
def test_a_bucket_is_one_target_however_it_is_written(tmp_path: Path) -> None:
    spellings = (
        "s3://bucket/whl?endpoint=http://host:1&region=here",
        "s3://bucket/whl/?region=here&endpoint=HTTP://HOST:1/&timeout=5&acl=public-read",
    )
    targets = targets_of(spellings, world(tmp_path))
    assert [target.address for target in targets] == ["s3://bucket/whl?endpoint=http://host:1&region=here"]


@pytest.mark.slow
def test_two_servers_with_a_bucket_of_one_name_are_two_places(tmp_path: Path) -> None:
    addresses = ["s3://bucket/whl?endpoint=http://host:1&region=a", "s3://bucket/whl?endpoint=http://host:2&region=a"]
    assert [target.address for target in targets_of(addresses, world(tmp_path))] == addresses


ENDPOINTS = """
[profile path]
region = eu-west-3
s3 =
  addressing_style = path

[profile other]
region = eu-west-3
endpoint_url = https://objects.test
"""
KEY = "cu130/demo-1.0+cu130-py3-none-any.whl"
SHOWN = "cu130/demo-1.0%2Bcu130-py3-none-any.whl"
REGION, URL, URL_S3, PROFILE = "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "environ", "shown"),
    [
        pytest.param("s3://b-1/whl", {}, "https://b-1.s3.amazonaws.com/whl/", id="no-region"),
        pytest.param("s3://b-1", {}, "https://b-1.s3.amazonaws.com/", id="no-prefix"),
        pytest.param("s3://b-1/a b", {}, "https://b-1.s3.amazonaws.com/a%20b/", id="a-space"),
        pytest.param(
            "s3://b-1/whl", {REGION: "eu-central-1"}, "https://b-1.s3.eu-central-1.amazonaws.com/whl/", id="a-region"
        ),
        pytest.param(
            "s3://b-1/whl?region=ap-south-1",
            {REGION: "eu-central-1"},
            "https://b-1.s3.ap-south-1.amazonaws.com/whl/",
            id="the-region-of-the-address",
        ),
        pytest.param(
            "s3://b.1/whl", {REGION: "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com/b.1/whl/", id="a-dot-in-the-name"
        ),
        pytest.param(
            "s3://b-1/whl", {REGION: "cn-north-1"}, "https://b-1.s3.cn-north-1.amazonaws.com.cn/whl/", id="china"
        ),
        pytest.param(
            "s3://b-1/whl", {REGION: "us-gov-west-1"}, "https://b-1.s3.us-gov-west-1.amazonaws.com/whl/", id="govcloud"
        ),
        pytest.param(
            "s3://b-1/whl",
            {REGION: "us-east-2", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
            "https://b-1.s3.dualstack.us-east-2.amazonaws.com/whl/",
            id="dualstack",
        ),
        pytest.param("s3://b-1/whl", {URL: "http://127.0.0.1:9000"}, "http://127.0.0.1:9000/b-1/whl/", id="a-number"),
        pytest.param("s3://b-1/whl", {URL: "https://minio.test"}, "https://minio.test/b-1/whl/", id="any-service"),
        pytest.param(
            "s3://b-1/whl",
            {URL: "https://no.test", URL_S3: "https://s3.test"},
            "https://s3.test/b-1/whl/",
            id="s3-alone",
        ),
        pytest.param("s3://b-1/whl", {PROFILE: "other"}, "https://objects.test/b-1/whl/", id="a-profile-s-endpoint"),
        pytest.param(
            "s3://b-1/whl", {PROFILE: "path"}, "https://s3.eu-west-3.amazonaws.com/b-1/whl/", id="a-profile-s-style"
        ),
        pytest.param(
            "s3://b-1/whl?endpoint=https://s3.test/deep",
            {URL: "https://no.test"},
            "https://s3.test/deep/b-1/whl/",
            id="the-endpoint-of-the-address",
        ),
        pytest.param(
            "s3://b-1/whl?endpoint=https://s3.test&public=https://wheels.test/x",
            {},
            "https://wheels.test/x/",
            id="the-address-that-clients-know",
        ),
    ],
)
def test_the_address_that_is_shown_is_the_endpoint_s_own(
    address: str, environ: dict[str, str], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text(ENDPOINTS)
    nobody = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in {**nobody, **environ}.items():
        monkeypatch.setenv(name, value)
    assert index_of(address, world(tmp_path)).store.url(KEY) == f"{shown}{SHOWN}"

"""The bucket that indexes are tried in."""

from tests.integration.index.bucket.conftest import bucket, credentials, here

__all__ = ["bucket", "credentials", "here"]

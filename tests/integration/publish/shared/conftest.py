"""The bucket that compile units are shared by."""

from tests.integration.index.bucket.conftest import bucket, credentials, here

__all__ = ["bucket", "credentials", "here"]

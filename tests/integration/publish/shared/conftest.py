"""The bucket that compile units are shared by."""

from tests.integration.index.bucket.conftest import credentials, here

__all__ = ["credentials", "here"]

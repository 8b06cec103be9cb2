"""The bucket that indexes are tried in."""

from tests.integration.index.bucket.conftest import credentials, here

__all__ = ["credentials", "here"]

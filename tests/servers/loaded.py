"""Makes a bucket's client as it is imported: the process from which others are forked has then read what each needs."""

from __future__ import annotations

from ci_tools.index.objects.bucket import BucketStore
from ci_tools.index.objects.place import Place
from ci_tools.machine.context import Silent

BucketStore(Place("any", region="us-east-1"), Silent())

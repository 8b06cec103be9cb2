"""Makes a bucket's client as it is imported: the process from which others are forked has then read what each needs."""

from __future__ import annotations

from ci_tools.machine.context import Silent
from ci_tools.machine.objects.bucket import BucketStore
from ci_tools.machine.objects.place import Place

BucketStore(Place("any", region="us-east-1"), Silent())

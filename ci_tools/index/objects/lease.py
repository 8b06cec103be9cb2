"""A lock in a store that can only put, get, list and remove objects: for buckets without conditional writes.

These are, by their own documentation in November 2026, Google Cloud Storage, where If-Match is for requests that read
(https://cloud.google.com/storage/docs/request-preconditions), Alibaba OSS, whose PutObject refuses it
(https://help.aliyun.com/en/oss/user-guide/0017-00000245), and Backblaze B2, whose PutObject does not know it
(https://www.backblaze.com/apidocs/s3-put-object). Amazon S3, Cloudflare R2, MinIO, Ceph, OVHcloud and Scaleway have
conditional writes, so this lock can go once those three have them.

Lamport's bakery algorithm (L. Lamport, "A New Solution of Dijkstra's Concurrent Programming Problem", CACM 17(8),
1974): each waiting process draws a number higher than all it sees, and the lowest number holds the lock. The algorithm
needs no conditional write. It only needs listings that show every put that finished before the listing began; Amazon
S3 and similar servers guarantee this (strong read-after-write consistency).

A claim is an object whose key holds all its information: `choosing-ID` while the process draws a number, `NUMBER-ID`
afterwards. A claim is a lease: its holder rewrites it regularly, and it expires if the holder dies. The age of a claim
is taken from the server's clock, so no other clock has to be right. A holder that could not renew its lease in time
stops before its next write. Such a store cannot stop a write that is already on its way, so the holder checks its
lease again after each write; see Kleppmann, "How to do distributed locking", 2016.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import FatwheelError, MachineError
from ci_tools.index.objects.bucket_reader import BucketReader, explain_errors, refuse_page, tag_of
from ci_tools.index.objects.place import Place
from ci_tools.machine.http.policy import BEAT, QUEUE

if TYPE_CHECKING:
    from ci_tools.machine.context import Reporter


CHOOSING = "choosing-"
ABOUT = "about"  # the key of a permanent note for people who find the folder
NOTE = b"Publishers to a store without conditional writes wait for each other here; what lies here expires by itself.\n"
BEATS = 5  # renewals per duration of a lease
TRUSTED = 0.6  # the fraction of that duration for which the holder trusts it, counted from the last renewal's start


class Terms(NamedTuple):
    """The durations of a lock, in seconds."""

    lease: float = 60.0  # until the claim of a dead process expires
    limit: float = 600.0  # the longest wait for the lock
    every: float = 5.0  # between two messages about who holds it


class Lease:
    """A number in the queue, which a thread renews until it is released."""

    def __init__(self, board: LockBoard, key: str, who: str, seconds: float) -> None:
        self.key = key
        self._board, self._who, self._seconds = board, who.encode(), seconds
        self._renewed = time.monotonic()
        self._is_late = False
        self._over = threading.Event()
        self._renew()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @property
    def is_lost(self) -> bool:
        """Whether other processes may consider the holder dead."""
        return self._is_late or time.monotonic() - self._renewed > self._seconds * TRUSTED

    def count_from(self, began: float) -> None:
        """Mark the lease as lost if it was drawn too long after `began`."""
        self._is_late = self._is_late or time.monotonic() - began > self._seconds * TRUSTED

    def check(self, where: str) -> None:
        """Raise MachineError if the lease is lost."""
        if self.is_lost:
            msg = f"the lock of {where} could not be renewed in time, and another publisher may have it by now"
            raise MachineError(msg, hint="run the same command again: it goes on where this one stopped")

    def end(self) -> None:
        """Release the lease; if it cannot be removed, it expires by itself."""
        self._over.set()
        self._thread.join(self._seconds)
        with suppress(FatwheelError):
            self._board.erase(self.key)

    def _beat(self) -> None:
        while not self._over.wait(self._seconds / BEATS) and not self.is_lost:
            with suppress(FatwheelError):  # the next beat tries again, until it is too late
                self._renew()

    def _renew(self) -> None:
        began = time.monotonic()
        self._board.write(self.key, self._who)
        # After so long a write, other processes may have seen the claim expire before it arrived.
        self._is_late = self._is_late or time.monotonic() - self._renewed > self._seconds * TRUSTED
        self._renewed = began


class Lock:
    """The lock whose claims lie below `folder`; `where` names the locked index and `who` this process, for messages."""

    def __init__(self, board: LockBoard, folder: str, where: str, who: str, terms: Terms) -> None:
        self.board, self.folder, self.where, self.who, self.terms = board, folder, where, who, terms

    @contextmanager
    def held(self, say: Callable[[str], None]) -> Iterator[Lease]:
        """Hold the lock while the body runs; while waiting, report who holds it.

        Raises MachineError if the lock does not become free in time.
        """
        lease = self._take(_Patience(self, say))
        try:
            yield lease
        finally:
            lease.end()

    def living(self) -> list[str]:
        """Return the names of all claims that have not expired, and remove the expired ones."""
        names = []
        for claim in self.board.claims(self.folder):
            if claim.age <= self.terms.lease:
                names.append(claim.key.removeprefix(self.folder))
            elif not claim.key.endswith(ABOUT):
                self.board.erase(claim.key)
        return [name for name in names if name != ABOUT]

    def _take(self, patience: _Patience) -> Lease:
        while True:
            lease = self._draw()
            try:
                if self._comes_first(lease, patience) and not lease.is_lost:
                    return lease
            except BaseException:
                lease.end()
                raise
            lease.end()

    def _draw(self) -> Lease:
        """Draw a number; a draw that took too long is lost, since others may have seen its `choosing` expire."""
        name = secrets.token_hex(8)
        choosing = f"{self.folder}{CHOOSING}{name}"
        if not self.board.read(f"{self.folder}{ABOUT}"):
            self.board.write(f"{self.folder}{ABOUT}", NOTE)
        began = time.monotonic()
        self.board.write(choosing, self.who.encode())
        try:
            number = 1 + max(map(_number, self.living()), default=0)
            lease = Lease(self.board, f"{self.folder}{number:010}-{name}", self.who, self.terms.lease)
        finally:
            with suppress(FatwheelError):  # in that case it expires
                self.board.erase(choosing)
        lease.count_from(began)
        return lease

    def _comes_first(self, lease: Lease, patience: _Patience) -> bool:
        """Wait until nobody has a lower number; return False if this lease was lost meanwhile.

        A process that is choosing at the first look may still draw a lower number. So the numbers are compared only
        when all those processes have chosen; a process that begins to choose later sees this number.
        """
        choosing = {name for name in self.living() if name.startswith(CHOOSING)}
        while choosing:
            patience.wait(min(choosing))
            choosing &= set(self.living())
        own = lease.key.removeprefix(self.folder)
        while not lease.is_lost:
            numbers = sorted(name for name in self.living() if not name.startswith(CHOOSING))
            if own not in numbers:
                return False
            if numbers[0] == own:
                return True
            patience.wait(numbers[0])
        return False


class _Patience:
    """One wait for the lock: its duration so far, and the claim it waits for."""

    def __init__(self, lock: Lock, say: Callable[[str], None]) -> None:
        self._lock, self._say = lock, say
        self._began = self._spoke = self._since = time.monotonic()
        self._first = ""
        self._pauses = QUEUE.attempts()

    def wait(self, first: str) -> None:
        """Pause, and report the holder if a message is due; raise MachineError if the time is over."""
        now = time.monotonic()
        if first != self._first:
            self._first, self._since, self._pauses = first, now, QUEUE.attempts()
        if now - self._began > self._lock.terms.limit:
            msg = f"{self._describe_holder()}; it was waited for {now - self._began:.0f} s"
            raise MachineError(msg, hint="run the same command again once the other publisher is done")
        if now - self._spoke >= self._lock.terms.every:
            self._spoke = now
            self._say(f"{self._describe_holder()}; waiting for {now - self._began:.0f} s")
        next(self._pauses)

    def _describe_holder(self) -> str:
        read = self._lock.board.read(f"{self._lock.folder}{self._first}")
        who = read[0].decode(errors="replace").strip() if read else ""
        seconds = time.monotonic() - self._since
        return f"the lock of {self._lock.where} is held by {who or 'another publisher'} for {seconds:.0f} s or more"


def _number(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


# ---------------------------------------------------------------- the claims in a bucket


class Claim(NamedTuple):
    """One object below the lock's folder."""

    key: str
    age: float  # seconds since it was written, by the server's clock


class LockBoard(BucketReader):
    """The claims of a lock in a bucket, with its own client, whose timeouts are shorter than a lease (seconds)."""

    def __init__(self, place: Place, reporter: Reporter, lease: float) -> None:
        super().__init__(place, reporter, BEAT, max(lease / 5, 1))

    def claims(self, folder: str) -> list[Claim]:
        """Return every object below a folder, with its age by the server's clock."""
        pages = self.client.get_paginator("list_objects_v2")
        start = len(self.key_of(""))
        claims = []
        with explain_errors(self.address):
            for page in pages.paginate(Bucket=self.place.bucket, Prefix=self.key_of(folder)):
                refuse_page(page, self.address, "IsTruncated")
                entries = page.get("Contents", ())
                newest = max((entry["LastModified"] for entry in entries), default=None)
                date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
                now = parsedate_to_datetime(date) if date else newest
                claims += [Claim(one["Key"][start:], (now - one["LastModified"]).total_seconds()) for one in entries]
        return claims

    def write(self, key: str, data: bytes) -> None:
        """Write an object unconditionally."""
        with explain_errors(self.address):
            tag_of(self.client.put_object(**self._where(key), Body=data), self.address)

    def erase(self, key: str) -> None:
        """Remove an object, if it exists."""
        with explain_errors(self.address):
            self.client.delete_object(**self._where(key))

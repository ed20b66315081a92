"""`WorkInHand`: the pieces of work that a worker has begun, known to the worker after it.

A request may end the process that answers it: a model's library crashes, the kernel kills for
memory, a node calls `os.abort`. The next worker must not begin with the same request for ever. So a
worker writes what it begins into a file, and what the file has at the start of the next worker was
in hand when the process ended. Such pieces are suspects, and the store counts against a piece the
ends that can only be its own: it was in hand alone. The next worker runs each suspect alone, one
after the other, while everything else pauses; a piece that ends is no suspect any more. A piece
that has ended the worker twice ends its batch (`BatchRun`).

An end of the worker together with its server may be the work of somebody who killed the server, and
counts half. Pieces with the fewest ends run first, so that random kills hit another one
each time.

The file needs neither `fsync` nor room on the disk: it survives the process, and after the machine
restarted nobody is to blame. A worker that receives the message to end leaves it empty.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from servers.batches.objects import Phase, StoreError, UploadPiece
from servers.batches.store import BatchStore

_log: Final = logging.getLogger(__name__)

#: What an end of the worker counts, alone and together with its server, and the sum at which a
#: piece is not tried again.
_OWN_END: Final = 2
_END_WITH_SERVER: Final = 1
MOST_ENDS: Final = 2 * _OWN_END

_SLOT: Final = 64
_ENTRY: Final = re.compile(r"(\d{1,18}) (check|answer|results) (\d{1,18}) ([01])")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class WorkInHand:
    """The work that one worker has in hand. Belongs to one event loop, but for `end_in_order`."""

    def __init__(self, store: BatchStore) -> None:
        self._store = store
        self._file: int | None = None
        self._slots = 0
        self._free: list[int] = []
        self._suspects: dict[UploadPiece, int] = {}
        self._inside = 0
        self._is_alone = False
        #: The ends of each suspect that waits until it is alone.
        self._wishes: list[int] = []
        self._waiting: list[asyncio.Future[None]] = []

    def open(self) -> None:
        """Find what the last worker had in hand when it ended. Blocks.

        Raises:
            StoreError: the findings cannot be kept.
        """
        self.close()
        path = self._store.directory / "in_hand"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600)
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise OSError(f"{path} is not a file")
            server, found = _pieces_of(os.pread(self._file, 1 << 20, 0))
        except OSError as error:
            _log.error("the end of this process will not be traced to a batch: %s", error)
            self.close()
            server, found = "", []
        if found:
            # People and orchestrators kill servers, so an end with the server counts half; but a
            # container without memory is killed as a whole, so it does count (decision 0084).
            weight = _OWN_END if server == _server_id() else _END_WITH_SERVER
            self._store.note_ends(
                [
                    # Up to `--batch_width` requests are in hand, and only one is to blame: an end
                    # counts only against a piece that was alone (decision 0084).
                    (piece, weight if was_alone or len(found) == 1 else 0)
                    for piece, was_alone in found
                ]
            )
            _log.warning(
                "the last worker of batches ended in the middle of %d pieces of work; each runs "
                "alone now", len(found),
            )  # fmt: skip
        self._suspects = self._store.suspects()
        self.end_in_order()
        self._write(f"{_boot_id()} {_server_id()}", 0)

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def end_in_order(self) -> None:
        """Empty the file: the worker ends on request. May be called from any thread."""
        if self._file is not None:
            with suppress(OSError):
                os.ftruncate(self._file, 0)

    def blamed(self, batch: int) -> UploadPiece | None:
        """Return the piece of a batch that has ended the worker too often."""
        for piece, ends in self._suspects.items():
            if piece.batch == batch and ends >= MOST_ENDS:
                return piece
        return None

    @asynccontextmanager
    async def piece(self, batch: int, phase: Phase, line: int = 0) -> AsyncIterator[None]:
        """Have a piece of work in hand. Pauses while a suspect runs; a suspect runs alone."""
        piece = UploadPiece(batch, phase, line)
        is_suspect = piece in self._suspects
        # Work on whole files takes long; answers of others need not wait for it.
        is_counted = is_suspect or phase is Phase.ANSWER
        if is_counted:
            await self._enter(self._suspects.get(piece))
        slot = self._free.pop() if self._free else self._slots
        self._slots = max(self._slots, slot + 1)
        self._write(f"{batch} {phase} {line} {int(is_suspect)}", 1 + slot)
        try:
            yield
        finally:
            self._write("", 1 + slot)
            self._free.append(slot)
            if is_counted:
                self._leave()
        if is_suspect:
            del self._suspects[piece]
            with suppress(StoreError):  # it will only run alone once more
                await asyncio.to_thread(self._store.clear_suspect, piece)

    async def _enter(self, ends: int | None) -> None:
        """Wait for the turn of a piece. ``ends``: of a suspect, which has to be alone."""
        if ends is not None:
            self._wishes.append(ends)
        try:
            while not self._may_enter(ends):
                left = asyncio.get_running_loop().create_future()
                self._waiting.append(left)
                await left
        finally:
            if ends is not None:
                self._wishes.remove(ends)
                self._wake()
        self._inside += 1
        self._is_alone = ends is not None

    def _may_enter(self, ends: int | None) -> bool:
        if ends is None:
            return not self._is_alone and not self._wishes
        # Fewest ends first: who kills at random hits another piece each time (decision 0084).
        return not self._inside and ends == min(self._wishes)

    def _leave(self) -> None:
        self._inside -= 1
        self._is_alone = False
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _write(self, text: str, slot: int) -> None:
        if self._file is not None:
            with suppress(OSError):  # a full disk; then an end is not traced
                # Into blocks that exist, without fsync: it has to survive the process, not the
                # machine (decision 0084).
                os.pwrite(self._file, text.encode().ljust(_SLOT - 1) + b"\n", slot * _SLOT)


def _pieces_of(content: bytes) -> tuple[str, list[tuple[UploadPiece, bool]]]:
    """Return the server, the pieces that were in hand, and whether each was alone."""
    head, *slots = content.decode("ascii", "replace").split("\n")
    boot, _, server = head.strip().partition(" ")
    # The machine has restarted: nobody is to blame.
    if boot != _boot_id():
        return "", []
    entries = (_ENTRY.fullmatch(slot.strip(" \0")) for slot in slots)
    return server, [
        (UploadPiece(int(found[1]), Phase(found[2]), int(found[3])), found[4] == "1")
        for found in entries
        if found is not None
    ]


def _boot_id() -> str:
    """Return a text that changes when the machine restarts, or "unknown"."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"


def _server_id() -> str:
    """Return a text that names the process that started this one, also among later processes."""
    pid = os.getppid()
    try:
        begun = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        begun = "?"
    return f"{pid} {begun}"

"""Download of single files: resumed where an earlier one ended, and checked."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from io import FileIO
from pathlib import Path
from typing import Final

from servers.hub.errors import HubError
from servers.hub.hub import Hub
from servers.hub.model_reference import ModelReference
from servers.hub.wanted_files import HubFile

#: A file that is not whole yet.
PART_SUFFIX: Final = ".part"

#: Tries that bring no byte, one after the other, until the transfer ends.
_TRIES: Final = 5
#: Seconds before the second try; each further one waits twice as long, up to the longest.
FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8.0


class Transfer:
    """Downloads files of one commit into a directory.

    A file has the suffix `PART_SUFFIX` until it has its size and checksum, and its bytes reach the
    disk in order: whatever ends the process, the next transfer goes on behind the last of them.
    """

    def __init__(
        self,
        hub: Hub,
        reference: ModelReference,
        commit: str,
        directory: Path,
        *,
        on_bytes: Callable[[int], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """``on_bytes`` receives the number of new bytes; negative if some are discarded."""
        self._hub = hub
        self._reference = reference
        self._commit = commit
        self._directory = directory
        self._on_bytes = on_bytes
        self._pause = pause

    def read_all(self, files: Iterable[HubFile]) -> None:
        """Download files one after the other; raises the errors of `read`."""
        for file in files:
            self.read(file)

    def read(self, file: HubFile) -> None:
        """Download a file into the directory unless it is there.

        Raises:
            HubError: the hub does not answer, or gives other bytes than its listing promises.
            OSError: the file cannot be written.
        """
        whole = self._directory / file.name
        if whole.is_file():
            return
        part = whole.with_name(whole.name + PART_SUFFIX)
        part.parent.mkdir(parents=True, exist_ok=True)
        if part.is_symlink() or (part.exists() and not part.is_file()):
            # Opening a pipe would wait for a reader.
            shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()
        for retries_for_content in (1, 0):
            self._fill(part, file)
            if _has_checksum(part, file):
                os.replace(part, whole)
                return
            # Perhaps an earlier transfer left other bytes here: once more from the beginning.
            self._on_bytes(-part.stat().st_size)
            part.unlink()
            if not retries_for_content:
                raise HubError(
                    f"{file.name} of {self._reference} has another checksum than the hub promises",
                    hint="try again; if it stays so, the hub or a proxy before it gives wrong data",
                )

    def _fill(self, part: Path, file: HubFile) -> None:
        """Append to a part until it has the file's size."""
        failures = 0
        # Without a buffer, so that an error of the disk belongs to the write that it concerns.
        with part.open("ab", buffering=0) as stream:
            while (start := stream.tell()) < file.size:
                failure = self._append(stream, start, file)
                if stream.tell() >= file.size:
                    return
                failures = 1 if stream.tell() > start else failures + 1
                if failures >= _TRIES:
                    raise failure
                self._pause(min(_LONGEST_PAUSE, FIRST_PAUSE * 2**failures))

    def _append(self, stream: FileIO, start: int, file: HubFile) -> HubError:
        """Append the missing bytes as far as one response delivers them.

        Returns:
            The error if this was all.

        Raises:
            HubError: another try would not help.
        """
        try:
            with (
                self._hub.errors(self._reference),
                self._hub.open(self._reference, self._commit, file.name, start) as (begins, pieces),
            ):
                if begins != start:
                    # A hub that knows no ranges begins at the first byte.
                    self._on_bytes(begins - start)
                    stream.truncate(begins)
                for piece in pieces:
                    self._write(stream, piece)
                    self._on_bytes(len(piece))
                    if stream.tell() > file.size:
                        raise HubError(
                            f"{file.name} of {self._reference} is longer than the {file.size} "
                            "bytes that the hub promises"
                        )
        except HubError as error:
            cause = error.__cause__
            if not isinstance(cause, Exception) or not self._hub.is_momentary(cause):
                raise
            return error
        return HubError(
            f"{file.name} of {self._reference} ends after {stream.tell()} of {file.size} bytes",
            hint="try again: what was read is kept",
        )

    def _write(self, stream: FileIO, piece: bytes) -> None:
        """Write a piece whole.

        Raises:
            HubError: the disk does not take it.
        """
        rest = memoryview(piece)
        try:
            while rest:
                rest = rest[stream.write(rest) :]
        except OSError as error:
            raise HubError(
                f"{self._directory} cannot be written: {error.strerror or error}",
                hint="try again when there is room: what was read is kept",
            ) from error


def _has_checksum(path: Path, file: HubFile) -> bool:
    """Return whether a file matches the checksum in the hub's listing, if there is one."""
    if file.sha256 is not None:
        digest, expected = hashlib.sha256(), file.sha256
    elif file.git_sha1 is not None:
        digest, expected = hashlib.sha1(usedforsecurity=False), file.git_sha1
        digest.update(f"blob {path.stat().st_size}\0".encode())
    else:
        return True
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest() == expected

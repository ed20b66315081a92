"""`StoredModel`: a model in an object store, and the copies of its files in the cache.

A copy is an entry of `calculators.kit.model_cache.ModelCache`: one for each version of a plain
model, one for everything else. Its key follows from the names, sizes and marks (ETags) of the
files, so a copy never changes: other files are another copy, and what has been loaded keeps its
own. A copy is complete or not there, and several servers may share the cache: one downloads, the
others wait for it.

The last listing of each address is a file beside the copies. By it the copies are found while the
store does not answer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from calculators.kit.file_threads import DaemonThreads
from calculators.kit.model_cache import BeingMade, CacheEntry, ModelCache, size_of
from graphrt_base.regular_file import read_regular_file
from servers.model_store.model_reference import ModelError
from servers.model_store.object_store import (
    AccessRefusedError,
    ObjectStore,
    RemoteFile,
    StoreAddress,
    StoreDownError,
)
from servers.model_store.progress import size_text

_log: Final = logging.getLogger(__name__)

_KIND: Final = "stored"
#: Below the entry's folder, whose own file could have the name of one of the model's.
_FILES: Final = "files"
#: Bytes of one request, and requests at a time.
PIECE: Final = 8 << 20
AT_A_TIME: Final = 4
#: Tries of one piece, and seconds before the second one; each has the store's own tries.
TRIES: Final = 3
PAUSE_SECONDS: Final = 2.0
#: Seconds without a byte after which a download of another server is given up.
OTHERS_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.2
#: The longest listing that is read: that of as many files as an address may have.
_LISTING_BYTES: Final = 32 << 20

#: Files of one copy by the version; None for a model that has no versions.
Copies = Mapping[int | None, tuple[RemoteFile, ...]]


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The copies of a model's files.

    Attributes:
        path: the directory, or the model's file; None if there are versions.
        folders: the folder of each version.
    """

    path: Path | None = None
    folders: Mapping[int, Path] = field(default_factory=dict)


class StoredModel:
    """One model in a store. `look` and `fetch` wait for the store: call each in one thread."""

    def __init__(
        self,
        address: StoreAddress,
        cache: ModelCache,
        chosen: Callable[[Iterable[int]], Sequence[int]] | None,
    ) -> None:
        """
        Args:
            chosen: returns the versions to serve of those that exist; None: it has no versions.
        """
        self._address = address
        self._cache = cache
        self._chosen = chosen
        self._store = ObjectStore(address)
        #: What `fetch` returned last, and the entries that hold it.
        self._fetched: Copies = {}
        self._held: dict[str, CacheEntry] = {}
        self._let_go: dict[str, CacheEntry] = {}
        self._looked: tuple[RemoteFile, ...] = ()
        self._is_settled = False
        self.has_ended = threading.Event()

    def look(self) -> None:
        """List the files for `has_changed`.

        Raises:
            ModelError: the store refuses or does not answer, or has nothing.
        """
        self._is_settled = False
        files = self._store.list_files()
        # An upload of several files has ended once two listings agree.
        self._is_settled = files == self._looked
        self._looked = files

    def has_changed(self) -> bool:
        """Return True if `fetch` would find other files than the last time."""
        return self._is_settled and self._copies(self._looked) != self._fetched

    def fetch(self, report: Callable[[int, int], object]) -> LocalFiles:
        """Download what is not here, and return the place of all files.

        While the store does not answer, they are the copies of its last listing, if these are here.
        The copies stay until `release` after the next `fetch`, or until `close`.

        Args:
            report: receives the bytes that have arrived, and the bytes of all files.

        Raises:
            ModelError: the store refuses or does not answer, has nothing, or gives other bytes
                than its listing promises; the disk has no room; or `has_ended` is set.
        """
        try:
            files, is_listed = self._store.list_files(), True
        except StoreDownError as error:
            files, is_listed = self._last_files(error), False
        copies = self._copies(files)
        if not copies:
            raise ModelError("no version that is to be served is at its base_path in its store")
        total = sum(file.size for each in copies.values() for file in each)
        done = 0
        held: dict[str, CacheEntry] = {}
        try:
            for each in copies.values():
                key = _key_of(self._address, each)
                before = done

                def count(size: int, before: int = before) -> None:
                    report(before + size, total)

                held[key] = (
                    self._held.get(key) or self._let_go.get(key) or self._hold(key, each, count)
                )
                done += sum(file.size for file in each)
            self._rest(0)
        except BaseException:
            for key, entry in held.items():
                if key not in self._held and key not in self._let_go:
                    entry.close()
            raise
        self._let_go |= {key: entry for key, entry in self._held.items() if key not in held}
        self._let_go = {key: entry for key, entry in self._let_go.items() if key not in held}
        self._held, self._fetched, self._looked = held, copies, files
        if is_listed:
            self._keep_listing(files)
        else:
            _log.warning("%s: its store does not answer: the last copy is used", self._address.name)
        places = {
            version: self._directory(held[_key_of(self._address, each)].path)
            for version, each in copies.items()
        }
        if None not in places:
            return LocalFiles(
                folders={number: path / str(number) for number, path in places.items() if number}
            )
        path = places[None]
        return LocalFiles(path / self._address.name if self._store.is_file else path)

    @property
    def _listing(self) -> Path:
        digest = hashlib.sha256(repr(self._address).encode()).hexdigest()[:32]
        return self._cache.folder / f"{_KIND}-{digest}.json"

    def _keep_listing(self, files: Iterable[RemoteFile]) -> None:
        """Write the listing of which the cache has all copies."""
        told = [[file.name, file.size, file.mark] for file in files]
        text = json.dumps({"is_file": self._store.is_file, "files": told})
        part = self._listing.with_suffix(f".{os.getpid()}")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(self._listing)
        except OSError as error:
            _log.debug("a listing cannot be kept: %s", error.strerror)

    def _last_files(self, failure: StoreDownError) -> tuple[RemoteFile, ...]:
        """Return the files of the last listing.

        Raises:
            StoreDownError: ``failure``, where there is no listing, or not all of its copies.
        """
        try:
            told = json.loads(read_regular_file(self._listing, _LISTING_BYTES))
            files = tuple(RemoteFile(*each) for each in told["files"])
            copies = self._copies(files)
            keys = [_key_of(self._address, each) for each in copies.values()]
            self._store.is_file = told["is_file"]
        except (OSError, ValueError, TypeError, KeyError):
            raise failure from None
        if not keys or not all(self._cache.find(_KIND, key) for key in keys):
            raise failure
        return files

    def release(self) -> None:
        """Let the cache remove the copies that the last `fetch` did not return."""
        while self._let_go:
            self._let_go.popitem()[1].close()

    def close(self) -> None:
        """End a running `fetch` soon, and let the cache remove all copies."""
        self.has_ended.set()
        self.release()
        while self._held:
            self._held.popitem()[1].close()

    def _directory(self, folder: Path) -> Path:
        """Return the directory of the files in the folder of an entry.

        Its name is the address's, as errors and guesses of a model's task read it.
        """
        parts = (self._address.bucket, *filter(None, self._address.path.split("/")))
        return folder.joinpath(_FILES, *parts[-2:])

    def _copies(self, files: Iterable[RemoteFile]) -> Copies:
        by_version: dict[int, list[RemoteFile]] = {}
        names = set()
        for file in files:
            first, is_below, _ = file.name.partition("/")
            names.add(file.name)
            if is_below and first.isascii() and first.isdecimal() and first[0] != "0":
                by_version.setdefault(int(first), []).append(file)
        is_graph = not names.isdisjoint(("graph.pbtxt", "1/graph.pbtxt"))
        if self._chosen is None or is_graph or not by_version:
            return {None: tuple(files)}
        chosen = self._chosen(by_version)
        return {each: tuple(by_version[each]) for each in chosen if each in by_version}

    def _hold(
        self, key: str, files: Sequence[RemoteFile], report: Callable[[int], object]
    ) -> CacheEntry:
        """Return the complete entry of a copy, by downloading it or waiting for who does."""
        size = sum(file.size for file in files)
        entry = self._claimed(key, size, report)
        if entry.is_complete:
            return entry
        began = time.monotonic()
        try:
            self._download(files, self._directory(entry.path), report)
            if not entry.complete():
                raise ModelError(f"{self._cache.name} cannot be written")
        except OSError as error:
            raise self._no_room(error) from error
        finally:
            if not entry.is_complete:
                entry.close()  # which removes it
        seconds = time.monotonic() - began
        _log.info(
            "%d files, %s, downloaded in %.1f s: %s",
            len(files),
            size_text(size),
            seconds,
            self._address.name,
        )
        return entry

    def _claimed(self, key: str, size: int, report: Callable[[int], object]) -> CacheEntry:
        """Return the entry, complete or to be filled, once no other server is filling it."""
        folder = self._cache.folder / f"{_KIND}-{key}"
        deadline, before = time.monotonic() + OTHERS_SECONDS, -1
        while True:
            try:
                return self._cache.claim(_KIND, key, size)
            except BeingMade:
                there = size_of(folder)
                report(min(there, size))
                if there != before:
                    deadline, before = time.monotonic() + OTHERS_SECONDS, there
            except OSError as error:
                raise self._no_room(error) from error
            if time.monotonic() > deadline:
                raise ModelError("another server is downloading it, and makes no progress")
            self._rest(_LOOK_SECONDS)

    def _no_room(self, error: OSError) -> ModelError:
        return ModelError(
            f"{self._cache.name} has no room for its files: {error.strerror or error}",
            hint="--cache_dir names another directory, --cache_dir_size its bound",
        )

    def _download(
        self, files: Sequence[RemoteFile], directory: Path, report: Callable[[int], object]
    ) -> None:
        """Write the files. Pieces of them are read ahead, and written in their order."""
        directory.mkdir(parents=True)
        for file in files:
            (directory / file.name).parent.mkdir(parents=True, exist_ok=True)
            (directory / file.name).touch()
        done = 0
        threads = DaemonThreads(AT_A_TIME)
        reading: deque[tuple[RemoteFile, Future[memoryview]]] = deque()
        pieces = _pieces(files)
        try:
            while True:
                while len(reading) < AT_A_TIME and (piece := next(pieces, None)) is not None:
                    reading.append((piece[0], threads.submit(self._read, *piece)))
                if not reading:
                    return
                file, future = reading.popleft()
                data = future.result()
                with (directory / file.name).open("ab") as stream:
                    stream.write(data)
                done += len(data)
                report(done)
        finally:
            threads.shutdown()
            for _, future in reading:
                future.cancel()

    def _read(self, file: RemoteFile, start: int, end: int) -> memoryview:
        for tries in range(1, TRIES + 1):
            self._rest(0 if tries == 1 else PAUSE_SECONDS * (tries - 1))
            try:
                return self._store.read(file, start, end)
            except AccessRefusedError:
                raise
            except ModelError:
                if tries == TRIES:
                    raise
        raise AssertionError

    def _rest(self, seconds: float) -> None:
        """Wait; raises ModelError when the server ends, or no longer serves the model."""
        if self.has_ended.wait(seconds):
            raise ModelError("its download was interrupted")


def _pieces(files: Iterable[RemoteFile]) -> Iterator[tuple[RemoteFile, int, int]]:
    for file in files:
        for start in range(0, file.size, PIECE):
            yield file, start, min(start + PIECE, file.size)


def _key_of(address: StoreAddress, files: Iterable[RemoteFile]) -> str:
    """Return the key of a copy: files of one place with the same marks have the same content."""
    text = repr((address, [(file.name, file.size, file.mark) for file in files]))
    return hashlib.sha256(text.encode()).hexdigest()[:32]

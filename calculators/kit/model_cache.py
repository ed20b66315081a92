"""`ModelCache`: a directory of entries, bounded, which several servers may share.

Layout::

    DIRECTORY/graphrt/KIND-KEY/...          the files of an entry
    DIRECTORY/graphrt/KIND-KEY/entry.json   their names, and digests of their sizes and of samples
                                            of their contents; written last: without it, or with
                                            other digests, the folder is not an entry

An entry in use has a lock on its folder (``flock``): shared while it is read, exclusive while it is
made or removed. Locks end with their process, so a crash leaves only an incomplete folder. A server
that removes entries, or makes an exclusive lock a shared one, has a lock on ``DIRECTORY/graphrt``
too: ``flock`` gives the old lock up before it takes the new one.

OpenVINO neither bounds its own cache of compiled models (`CACHE_DIR`) nor guards it against a
second process that writes the same file. `hold_compiled` gives each model a folder of its own, with
the rules of `ModelCache`, which do both. OpenVINO checks the content of what it reads, so a wrong
entry costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import platform
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, Final

from graphrt_base.regular_file import open_regular_file, read_regular_file

#: Incremented when an entry of an older graphrt must not be used.
_FORM: Final = "1"
_PACKAGES: Final = ("openvino", "openvino-genai", "openvino-tokenizers")
#: Files of up to this size are read whole. Of larger ones the beginning, which has the header, and
#: windows spread over the file: a whole model of 16 GB takes 10 s to digest.
_WHOLE: Final = 4 << 20
_WINDOW: Final = 64 << 10
_WINDOWS: Final = 16


def key_of(files: Iterable[Path], *options: object) -> str:
    """Return a key that changes with the files' content, the libraries, the machine and options.

    A file's path does not count. Its size, time and sampled content do. ``options`` must have
    texts (`repr`) that are the same in every process. Reads files: call it in a thread.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for text in (_FORM, *_versions(), _processor(), *map(repr, options)):
        digest.update(text.encode(errors="backslashreplace") + b"\0")
    for file in files:
        _add_file(digest, file)
    return digest.hexdigest()


def sample_of(path: Path) -> str:
    """Return a digest of a file's size and sampled content, whatever its name and time.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    with open_regular_file(path) as file:
        _add_content(digest, file)
    return digest.hexdigest()


def _add_file(digest: hashlib.blake2b, path: Path) -> None:
    with open_regular_file(path) as file:
        status = os.fstat(file.fileno())
        # Not the path: a model on a share, or moved, is the same model. The samples may miss a
        # change in between; the time does not.
        digest.update(f"{path.name} {status.st_mtime_ns}\0".encode())
        _add_content(digest, file)


def _add_content(digest: hashlib.blake2b, file: BinaryIO) -> None:
    size = os.fstat(file.fileno()).st_size
    digest.update(f"{size}\0".encode())
    digest.update(file.read(_WHOLE))
    if size > _WHOLE:
        stride = (size - _WHOLE) // _WINDOWS
        for number in range(1, _WINDOWS + 1):
            file.seek(max(_WHOLE, _WHOLE + number * stride - _WINDOW))
            digest.update(file.read(_WINDOW))


@cache
def _versions() -> tuple[str, ...]:
    return tuple(f"{package} {_version(package)}" for package in _PACKAGES)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def _processor() -> str:
    """Return the processor's kind: compiled models use its instructions, and may be on a share."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features")
    found = dict(line.split(":", 1) for line in lines if line.startswith(wanted) and ":" in line)
    return f"{platform.machine()} {sorted(found.items())}"


_log: Final = logging.getLogger("graphrt.cache")

#: The folder within the operator's directory: everything in it may be removed.
FOLDER: Final = "graphrt"
MANIFEST: Final = "entry.json"
#: Bytes that stay free on the disk beside what an entry is expected to take.
_SPARE: Final = 64 << 20
_MANIFEST_BYTES: Final = 1 << 20

#: The most that the user's cache holds where nobody names a bound.
_MOST_BYTES: Final = 32 << 30

#: Directories about which a warning was logged.
_warned: set[str] = set()
_warning = threading.Lock()


class BeingMade(Exception):
    """Another thread or process makes the entry now."""


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The entries below one directory. Methods read and write files: call them in threads.

    Attributes:
        directory: the operator's; it is made when the first entry is.
        most_bytes: bound on all entries together; 0: none.
        name: of the directory, for the log.
    """

    directory: Path
    most_bytes: int = 0
    name: str = "--cache_dir"

    @property
    def folder(self) -> Path:
        """The folder that holds the entries."""
        return self.directory / FOLDER

    def hold(self, kind: str, key: str, expected_bytes: int = 0) -> CacheEntry | None:
        """Return an entry as `claim` does.

        Returns:
            None: it does not exist and cannot be made; a warning is logged once.

        Raises:
            BeingMade: it is not complete yet.
        """
        try:
            return self.claim(kind, key, expected_bytes)
        except OSError as error:
            self.warn(f"{error.strerror or error}")
            return None

    def claim(self, kind: str, key: str, expected_bytes: int = 0) -> CacheEntry:
        """Return an entry, complete or to be filled by the caller, locked until it is closed.

        Args:
            kind: a word in the folder's name.
            key: from `key_of`.
            expected_bytes: estimate of a new entry's size.

        Raises:
            BeingMade: it is not complete yet.
            OSError: it does not exist and cannot be made, as when there is no room for it.
        """
        path = self.folder / f"{kind}-{key}"
        try:
            _clear(path)
            found = _locked(path, fcntl.LOCK_SH)
            if found is not None:
                if _is_complete(path):
                    with contextlib.suppress(OSError):  # others may own it, or it is read-only
                        # The entries that were used longest ago go first, and access times are off
                        # on most mounts.
                        os.utime(path / MANIFEST)
                    return CacheEntry(self, path, found, is_complete=True)
                os.close(found)
            self._check_room(expected_bytes)
            path.mkdir(parents=True, exist_ok=True)
            made = _locked(path, fcntl.LOCK_EX)
            if made is None or _is_complete(path):
                # It was removed or completed between the two checks: the next check decides.
                if made is not None:
                    os.close(made)
                raise BeingMade
            _empty(path)  # of an attempt that ended early, or of a damaged entry
            return CacheEntry(self, path, made, is_complete=False)
        except BlockingIOError:
            raise BeingMade from None

    def find(self, kind: str, key: str) -> Path | None:
        """Return the folder of a complete entry; None if there is none.

        The entry may be removed unless it is held.
        """
        path = self.folder / f"{kind}-{key}"
        return path if _is_complete(path) else None

    def warn(self, reason: str) -> None:
        """Warn, once for each directory, that models are loaded without the cache."""
        with _warning:
            is_first = str(self.directory) not in _warned
            _warned.add(str(self.directory))
        if is_first:
            _log.warning(
                "%s cannot be used: %s; models are loaded as without it", self.name, reason
            )

    def _check_room(self, expected_bytes: int) -> None:
        # A model that cannot stay would push all others out first.
        if self.most_bytes and expected_bytes > self.most_bytes:
            raise OSError(f"a model needs {expected_bytes} bytes, more than --cache_dir_size")
        there = self.directory
        while not there.exists() and there.parent != there:
            there = there.parent
        free = shutil.disk_usage(there).free
        if free < expected_bytes + _SPARE:
            raise OSError(f"the disk has only {free} bytes left")

    def trim(self) -> None:
        """Remove what is no entry, and the entries that were used longest ago beyond the bound."""
        with contextlib.suppress(OSError), self.guarded():
            self._trim()

    def _trim(self) -> None:
        sizes: list[tuple[float, int, Path]] = []
        for path in self._folders():
            try:
                sizes.append(((path / MANIFEST).stat().st_mtime, size_of(path), path))
            except OSError:
                self._remove(path)
        total = sum(size for _, size, _ in sizes)
        for _, size, path in sorted(sizes) if self.most_bytes else ():
            if total <= self.most_bytes:
                break
            if self._remove(path):
                total -= size

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Wait until no other thread or process is in this block, and keep them out of it.

        Raises:
            OSError: the folder cannot be opened, or the file system has no locks.
        """
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def entries(self) -> Mapping[str, int]:
        """Return the bytes of each entry by the name of its folder."""
        return {path.name: size_of(path) for path in self._folders()}

    def _folders(self) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if path.is_dir())
        except OSError:
            return []

    def _remove(self, path: Path) -> bool:
        """Remove a folder unless it is in use."""
        try:
            descriptor = _locked(path, fcntl.LOCK_EX)
        except OSError:
            return False
        if descriptor is None:
            return True
        try:
            _empty(path)
            path.rmdir()
        except OSError as error:
            _log.debug("%s stays: %s", path.name, error.strerror)
            return False
        finally:
            os.close(descriptor)
        return True


def user_cache(most_bytes: int = 0) -> ModelCache:
    """Return the cache of this user's converted models; nothing is written yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    directory = Path(caches).expanduser() / "graphrt" / "converted"
    return ModelCache(directory, most_bytes or _MOST_BYTES, str(directory))


class CacheEntry:
    """One entry, in use until it is closed.

    Attributes:
        path: its folder.
        is_complete: the entry can be read. Otherwise its holder fills it, and calls `complete`.
    """

    def __init__(
        self, cache: ModelCache, path: Path, descriptor: int, *, is_complete: bool
    ) -> None:
        self.path = path
        self.is_complete = is_complete
        self._cache = cache
        self._descriptor = descriptor

    def complete(self) -> bool:
        """Make the entry readable for all, now that its files are written.

        False if that fails, which is logged, or if there are no files.

        The entry stays in use, and others beyond the bound are removed.
        """
        try:
            files = _files_of(self.path)
            if not files:
                return False
            for name in files:
                _sync(self.path / name)
            draft = self.path / f"{MANIFEST}.new"
            draft.write_text(json.dumps({"files": files}), encoding="utf-8")
            _sync(draft)
            # Last of all: a crash before leaves a folder without a manifest, which is no entry
            # (decision 0051).
            draft.rename(self.path / MANIFEST)
            _sync(self.path)
            with self._cache.guarded():
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        except OSError as error:
            self._cache.warn(f"{error.strerror or error}")
            return False
        self.is_complete = True
        self._cache.trim()
        return True

    def close(self) -> None:
        """End the use. An entry that is not complete is removed."""
        if self._descriptor < 0:
            return
        if not self.is_complete:
            with contextlib.suppress(OSError):
                _empty(self.path)
                self.path.rmdir()
        os.close(self._descriptor)
        self._descriptor = -1


def _locked(path: Path, kind: int) -> int | None:
    """Lock a folder; return the descriptor that holds the lock, None if there is no folder.

    Raises:
        BlockingIOError: somebody else has a lock.
        OSError: the folder cannot be opened, or the file system has no locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        # It may have been removed, and made again, between opening and locking.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except FileNotFoundError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    raise BlockingIOError


def _clear(path: Path) -> None:
    """Remove what stands at the path of an entry's folder and is none: a file, pipe or link."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink(missing_ok=True)


def _is_complete(path: Path) -> bool:
    """Return True if the manifest is there and all files are as it says."""
    try:
        manifest = json.loads(read_regular_file(path / MANIFEST, _MANIFEST_BYTES))
        files = manifest["files"]
        return bool(files) and all(_is_as(path / name, was) for name, was in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _is_as(file: Path, was: object) -> bool:
    """Return whether a file is as it was: its digest, or its size in entries of older versions."""
    return sample_of(file) == was if isinstance(was, str) else file.stat().st_size == was


def _files_of(path: Path) -> dict[str, str]:
    """Return digests of the files of an entry by their names relative to it."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and file.name != MANIFEST)
    return {file.relative_to(path).as_posix(): sample_of(file) for file in files}


def size_of(path: Path) -> int:
    """Return the bytes of all files below a folder; files that vanish meanwhile do not count."""
    total = 0
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.lstat().st_size if not file.is_dir() else 0
    return total


def _empty(path: Path) -> None:
    """Remove all that is in a folder, the manifest first: what is left is never an entry."""
    manifest = path / MANIFEST
    for each in (manifest, *(each for each in path.iterdir() if each != manifest)):
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk, so that it survives a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


#: OpenVINO's property for the folder.
PROPERTY: Final = "CACHE_DIR"
_KIND: Final = "compiled"
#: A compiled model is about as large as its weights: of 95 MB 135 (openvino 2026.4.1).
_GROWTH: Final = 1.5


def hold_compiled(
    cache: ModelCache,
    files: Iterable[Path],
    device: str,
    properties: Mapping[str, Any],
    *options: object,
) -> CacheEntry | None:
    """Return the entry of a model that is about to be compiled; reads files: for a thread.

    Once the model is compiled, call `finish`.

    Args:
        files: the model's files.
        device, properties, options: all that has an influence on the compiled model.

    Returns:
        None: compile without a cache. The operator's properties name another cache, the directory
        cannot be used, or another process compiles the same model now.
    """
    # Operators who name OpenVINO's own cache keep it, unbounded as it is.
    if PROPERTY in properties:
        return None
    found = list(files)
    try:
        key = key_of(found, device, sorted(properties.items()), *options)
        size = sum(file.stat().st_size for file in found)
        return cache.hold(_KIND, key, int(size * _GROWTH))
    except (BeingMade, OSError):  # loading reports a file that cannot be read
        return None


def compiling_with(properties: Mapping[str, Any], entry: CacheEntry | None) -> dict[str, object]:
    """Return OpenVINO's properties with those that make it use an entry."""
    return {**properties, PROPERTY: str(entry.path)} if entry is not None else {**properties}


def finish(entry: CacheEntry | None) -> None:
    """Keep what OpenVINO has written, now that the model is compiled."""
    if entry is not None and not entry.is_complete and not entry.complete():
        entry.close()

"""Keys of cache entries: digests of a model's files, of versions and of options."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO, Final

from graphrt_base.regular_file import open_regular_file

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

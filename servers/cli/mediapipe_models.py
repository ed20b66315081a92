"""`graphrt pull mediapipe`: MediaPipe's models, copied out of its wheel."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Final
from zipfile import BadZipFile, ZipFile

from calculators.mediapipe_directory import pulled_directory
from servers.cli.messages import CommandFailed

NAME: Final = "mediapipe"

_FOLDER: Final = "mediapipe/modules/"
_ENDINGS: Final = (".tflite", ".txt", ".binarypb")
#: Of one file of a wheel; the largest model has 6 MB.
_MAX_BYTES: Final = 100 << 20
_HINT: Final = "pip download --no-deps mediapipe==0.10.21, then graphrt pull mediapipe"


def is_mediapipe(source: str) -> bool:
    """Return True if SOURCE of ``graphrt pull`` is MediaPipe's wheel, and no model of a hub."""
    name = os.path.basename(source)
    return source == NAME or (name.startswith(f"{NAME}-") and name.endswith(".whl"))


def pull_mediapipe(source: str, target: Path | None = None) -> Path:
    """Copy models, labels and graphs out of a wheel; return the directory that holds them.

    Code in the wheel is neither copied nor run.

    Args:
        source: the wheel's path, or "mediapipe": the newest wheel in the working directory.
        target: the directory that gets the folder ``mediapipe``; else `pulled_directory`.

    Raises:
        CommandFailed: there is no wheel, or it holds no models.
    """
    wheel = Path(source) if source != NAME else _newest_wheel()
    target = target or pulled_directory()
    copied = 0
    try:
        with ZipFile(wheel) as archive:
            for entry in archive.infolist():
                path = PurePosixPath(entry.filename)
                if not entry.filename.startswith(_FOLDER) or path.suffix not in _ENDINGS:
                    continue
                if ".." in path.parts or entry.file_size > _MAX_BYTES:
                    raise CommandFailed(f'"{entry.filename}" in the wheel is not a model')
                _copy(archive, entry.filename, target / path)
                copied += 1
    except FileNotFoundError:
        raise CommandFailed(f'there is no wheel "{wheel}"', hint=_HINT) from None
    except BadZipFile:
        raise CommandFailed(f'"{wheel}" is not a whole wheel', hint=_HINT) from None
    except OSError as error:
        raise CommandFailed(f"the models cannot be copied: {error.strerror}") from error
    if not copied:
        raise CommandFailed(f'"{wheel}" holds no models', hint=_HINT)
    print(f"Models: {copied} files copied to: {target / NAME}")
    return target


def _newest_wheel() -> Path:
    found = sorted(Path().glob(f"{NAME}-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise CommandFailed("there is no wheel of MediaPipe in this directory", hint=_HINT)
    return found[-1]


def _copy(archive: ZipFile, name: str, target: Path) -> None:
    """Copy a file so that nobody ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        archive.open(name) as source,
        tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file,
    ):
        shutil.copyfileobj(source, file)
    os.replace(file.name, target)

"""Ways in which a file that was written once is found later: the kinds of damage of a disk."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        remove(path)
        make(path)

    return damage


def remove(path: Path) -> None:
    """Remove a file or a directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _make_socket(path: Path) -> None:
    # The path of a socket has at most 107 characters.
    here = os.open(path.parent, os.O_RDONLY)
    try:
        with closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), 7):
        content[place] ^= 0xFF
    path.write_bytes(content)


#: What stands at the path of a file instead of it, by the words that say so.
INSTEAD: Final[dict[str, Callable[[Path], None]]] = {
    "gone": remove,
    "a directory": _replaced(Path.mkdir),
    "a pipe": _replaced(os.mkfifo),
    "a socket": _replaced(_make_socket),
    "a link to a device": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "a link to nothing": _replaced(lambda path: path.symlink_to("nothing")),
    "a circle of links": _replaced(lambda path: path.symlink_to(path.name)),
    "forbidden": lambda path: path.chmod(0),
}
#: What has become of its bytes.
BYTES: Final[dict[str, Callable[[Path], None]]] = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "flipped": _flip,
}
EVERY: Final = {**INSTEAD, **BYTES}

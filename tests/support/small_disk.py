"""A disk of a few megabytes, for tests of what happens when it is full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory. ``path``: where it is mounted."""

    def __init__(self, path: Path, size: int) -> None:
        """
        Raises:
            OSError: this user may not mount.
        """
        self.path = path
        path.mkdir(exist_ok=True)
        self._mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs")

    def fill(self) -> None:
        """Leave no room."""
        with suppress(OSError), (self.path / "ballast").open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def empty(self) -> None:
        """Give the room back that `fill` has taken."""
        (self.path / "ballast").unlink()

    def resize(self, size: int) -> None:
        self._mount("-o", f"remount,size={size}")

    def close(self) -> None:
        subprocess.run(("umount", "--lazy", self.path), check=False)

    def _mount(self, *words: str) -> None:
        done = subprocess.run(("mount", *words, self.path), capture_output=True, check=False)
        if done.returncode:
            raise PermissionError(done.stderr.decode())


def small_disk(path: Path, size: int) -> Iterator[SmallDisk]:
    """Yield a disk, for a fixture; skip the test for a user who may not mount."""
    try:
        disk = SmallDisk(path, size)
    except OSError as error:
        pytest.skip(f"no disk can be mounted: {error}")
    try:
        yield disk
    finally:
        disk.close()

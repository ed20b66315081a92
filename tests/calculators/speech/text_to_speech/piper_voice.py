"""A voice of Piper's form made by hand: an ONNX file that makes samples of each letter's number.

Each number of a phoneme, the marks between them too, becomes `SAMPLES` samples at speed 1, whose
value is the number, plus ten times the speaker's, by 100.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

RATE: Final = 16000
SAMPLES: Final = 400
LETTERS: Final = "_^$ abcdefghijklmnopqrstuvwxyz.,!?"
SPEAKERS: Final = {"ana": 0, "ben": 3}
_INT64, _FLOAT = 7, 1


def make_voice(directory: Path, *, speakers: bool = False, **settings: Any) -> Path:
    """Write the voice's two files; ``settings`` replace members of the second one."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "en_test.onnx").write_bytes(_onnx(speakers=speakers))
    config = {
        "audio": {"sample_rate": RATE},
        "espeak": {"voice": "en-us"},
        "phoneme_type": "text",
        "inference": {"noise_scale": 0.5, "length_scale": 1, "noise_w": 0.5},
        "phoneme_id_map": {letter: [number] for number, letter in enumerate(LETTERS)},
        "num_speakers": len(SPEAKERS) if speakers else 1,
        "speaker_id_map": SPEAKERS if speakers else {},
        **settings,
    }
    (directory / "en_test.onnx.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


def expected(text: str, speaker: int = 0, speed: float = 1.0) -> NDArray[np.float32]:
    """Return the samples of a text that is one sentence."""
    numbers = [LETTERS.index("^"), 0]
    for letter in text.lower():
        if letter in LETTERS:
            numbers += [LETTERS.index(letter), 0]
    numbers.append(LETTERS.index("$"))
    values = (np.array(numbers, np.float32) + 10 * speaker) / 100
    return np.repeat(values, int(SAMPLES / speed))


def _message(*fields: tuple[int, bytes | int]) -> bytes:
    """Return a protobuf message of numbers and of texts, arrays or messages."""
    return b"".join(
        _varint(number << 3) + _varint(value)
        if isinstance(value, int)
        else _varint(number << 3 | 2) + _varint(len(value)) + value
        for number, value in fields
    )


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _node(kind: str, inputs: str, output: str, **attributes: int) -> bytes:
    return _message(
        *((1, each.encode()) for each in inputs.split()),
        (2, output.encode()),
        (4, kind.encode()),
        *(
            (5, _message((1, name.encode()), (3, value), (20, 2)))
            for name, value in attributes.items()
        ),
    )


def _constant(name: str, *values: int | float) -> bytes:
    kind, form = (_FLOAT, "f") if isinstance(values[0], float) else (_INT64, "q")
    shape = ((1, len(values)),)
    data = struct.pack(f"<{len(values)}{form}", *values)
    return _message(*shape, (2, kind), (8, name.encode()), (9, data))


def _port(name: str, kind: int, *shape: int | str) -> bytes:
    sizes = [(1, each) if isinstance(each, int) else (2, each.encode()) for each in shape]
    dimensions = _message(*((1, _message(size)) for size in sizes))
    tensor = _message((1, kind), (2, dimensions))
    return _message((1, name.encode()), (2, _message((1, tensor))))


def _onnx(*, speakers: bool) -> bytes:
    nodes = [
        _node("Cast", "input", "numbers", to=_FLOAT),
        _node("Gather", "scales one", "slow"),
        _node("Mul", "slow samples", "long"),
        _node("Cast", "long", "count", to=_INT64),
        _node("Unsqueeze", "numbers last", "columns"),
        _node("Concat", "ones count", "repeats", axis=0),
        _node("Tile", "columns repeats", "repeated"),
        _node("Reshape", "repeated flat", "line"),
        _node("Mul", "line hundredth", "quiet"),
    ]
    inputs = [
        _port("input", _INT64, "batch", "phonemes"),
        _port("input_lengths", _INT64, "batch"),
        _port("scales", _FLOAT, 3),
    ]
    if speakers:
        nodes += [
            _node("Cast", "sid", "speaker", to=_FLOAT),
            _node("Mul", "speaker tenth", "own"),
            _node("Add", "quiet own", "output"),
        ]
        inputs.append(_port("sid", _INT64, "batch"))
    else:
        nodes.append(_node("Identity", "quiet", "output"))
    constants = [
        _constant("one", 1),
        _constant("samples", float(SAMPLES)),
        _constant("last", 2),
        _constant("ones", 1, 1),
        _constant("flat", 1, 1, 1, -1),
        _constant("hundredth", 0.01),
        _constant("tenth", 0.1),
    ]
    graph = _message(
        *((1, each) for each in nodes),
        (2, b"voice"),
        *((5, each) for each in constants),
        *((11, each) for each in inputs),
        (12, _port("output", _FLOAT, "batch", 1, 1, "time")),
    )
    return _message((1, 8), (7, graph), (8, _message((2, 13))))

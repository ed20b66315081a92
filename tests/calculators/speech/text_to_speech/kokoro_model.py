# ruff: noqa: RUF001 - phonemes that look like letters
"""A model of Kokoro's form made by hand: a tone of 100 ms for each phoneme.

It speaks two English words, whose phonemes are in the dictionaries that are written beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from openvino import opset13 as op

from calculators.speech.text_to_speech.node_options import DICTIONARIES

RATE: Final = 24000
SAMPLES_OF_PHONEME: Final = 2400
#: The numbers of a voice.
VOICE_SIZE: Final = 510 * 256
_PHONEMES: Final = " Oabcdefghijklmnopqrstuvwxyzæðøŋɐɑɒɔɕəɚɛɜɡɪɫɬɲɹɾʁʃʊʌʒʔˈˌː.,!?"


#: Phonemes of words.
WORDS: Final = {"hello": "həlˈO", "world": "wˈɜɹld"}


def make_kokoro(directory: Path, graph: str = "") -> Path:
    """Write the model's files, and a graph if there is a text."""
    directory.mkdir(parents=True, exist_ok=True)
    ids = _parameter([1, -1], np.int64, "input_ids")
    voice = _parameter([1, 256], np.float32, "ref_s")
    speed = _parameter([1], np.float32, "speed")
    phonemes = op.gather(op.shape_of(ids), _constant([1]), _constant(0))
    long = op.multiply(op.convert(phonemes, "f32"), _constant(SAMPLES_OF_PHONEME, np.float32))
    count = op.convert(op.floor(op.divide(long, speed)), "i64")
    places = op.range(_constant(0), op.squeeze(count, _constant([0])), _constant(1), "i64")
    times = op.divide(op.convert(places, "f32"), _constant(RATE, np.float32))
    tone = op.sin(op.multiply(times, _constant(2 * np.pi * 440, np.float32)))
    sound = op.multiply(tone, op.reduce_mean(voice, _constant([0, 1]), False))
    sound.output(0).set_names({"waveform"})
    model = ov.Model([op.result(sound)], [ids, voice, speed], "kokoro")
    ov.save_model(model, directory / "openvino_model.xml", compress_to_fp16=False)
    vocabulary = {phoneme: number for number, phoneme in enumerate(_PHONEMES, 1)}
    config = {"n_mels": 80, "vocab": vocabulary, "plbert": {"max_position_embeddings": 512}}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (directory / "data").mkdir(exist_ok=True)
    for name in DICTIONARIES:
        words = WORDS if name.endswith("gold.json") else {"there": "ðˈɛɹ"}
        (directory / "data" / name).write_text(json.dumps(words), encoding="utf-8")
    if graph:
        (directory / "graph.pbtxt").write_text(graph, encoding="utf-8")
    return directory


def _constant(value: Any, dtype: Any = np.int64) -> Any:
    return op.constant(np.array(value, dtype))


def _parameter(shape: list[int], dtype: Any, name: str) -> Any:
    parameter = op.parameter(shape, dtype, name)
    parameter.output(0).set_names({name})
    return parameter

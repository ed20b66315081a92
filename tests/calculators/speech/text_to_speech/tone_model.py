"""A model of SpeechT5's form made by hand: it speaks a tone of 64 ms for each token.

A few KB of OpenVINO's operations and the demo's tokenizer. The pitch follows from the token and the
loudness from the voice, so the sound can be computed here: `expected` is the model in NumPy.
"""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
from numpy.typing import NDArray
from openvino import opset13 as op

from tests.support.checkout import ROOT

RATE = 16000
#: Steps of the decoder for a token, frames of a step, and samples of a frame.
STEPS, FRAMES, HOP = 2, 2, 256
SAMPLES_OF_TOKEN = STEPS * FRAMES * HOP
CHANNELS = 80
VOICE_SIZE = 512
_DEMO = ROOT / "examples" / "models" / "demo"

#: The text that OpenVINO Model Server's ``--pull`` writes.
GRAPH = """\
# File created with: OpenVINO Model Server 2026.2

input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
    name: "T2sExecutor"
    calculator: "T2sCalculator"
    input_side_packet: "TTS_NODE_RESOURCES:t2s_servable"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    node_options: {
        [type.googleapis.com / mediapipe.T2sCalculatorOptions]: {
            models_path: "./"
            target_device: "CPU"
            plugin_config: '{"NUM_STREAMS":"1"}'
            %s
        }
    }
}
"""


def graph(options: str = "") -> str:
    """Return `GRAPH` with further options."""
    return GRAPH % options


def make_model(directory: Path, text: str = "") -> Path:
    """Write the model's files, and a graph if there is a text."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, model in (
        ("encoder_model", _encoder()),
        ("decoder_model", _decoder()),
        ("postnet", _postnet()),
        ("vocoder", _vocoder()),
    ):
        ov.save_model(model, directory / f"openvino_{name}.xml", compress_to_fp16=False)
    config = {
        "architectures": ["SpeechT5ForTextToSpeech"],
        "model_type": "speecht5",
        "reduction_factor": FRAMES,
        "num_mel_bins": CHANNELS,
        "max_text_positions": 600,
        "max_speech_positions": 1876,
    }
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for file in _DEMO.glob("*token*"):
        shutil.copy(file, directory)
    if text:
        (directory / "graph.pbtxt").write_text(text, encoding="utf-8")
    return directory


def make_voice(file: Path, loudness: float, size: int = VOICE_SIZE) -> Path:
    """Write a voice of this loudness, from 0 to 1."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(np.full(size, loudness, np.float32).tobytes())
    return file


def tokens(text: str) -> list[int]:
    """The tokens of a text, by the tokenizer itself."""
    encoded = _tokenizer().encode(text, add_special_tokens=True)
    return [int(each) for each in encoded.input_ids.data.reshape(-1)]


@functools.cache
def _tokenizer() -> genai.Tokenizer:
    return genai.Tokenizer(str(_DEMO))


def expected(text: str, loudness: float) -> NDArray[np.float32]:
    """Return the sound of a text that is one sentence, shape ``[N]``."""
    ids = np.repeat(np.array(tokens(text), np.float32), SAMPLES_OF_TOKEN)
    times = np.arange(len(ids), dtype=np.float32) / np.float32(RATE)
    return np.asarray(loudness * np.sin(2 * np.pi * _pitch(ids) * times), np.float32)


def seconds(*sentences: str) -> float:
    """Return the duration of sentences."""
    return sum(len(tokens(each)) for each in sentences) * SAMPLES_OF_TOKEN / RATE


def _pitch(ids: Any) -> Any:
    return 200 + 10 * (ids % 50)


def _constant(value: Any, dtype: Any = np.int64) -> Any:
    return op.constant(np.array(value, dtype))


def _parameter(shape: list[int], dtype: Any, name: str) -> Any:
    parameter = op.parameter(shape, dtype, name)
    parameter.output(0).set_names({name})
    return parameter


def _result(node: Any, name: str) -> Any:
    node.output(0).set_names({name})
    return op.result(node)


def _length(node: Any, axis: int) -> Any:
    return op.gather(op.shape_of(node), _constant([axis]), _constant(0))


def _encoder() -> ov.Model:
    ids = _parameter([1, -1], np.int64, "input_ids")
    hidden = op.unsqueeze(op.convert(ids, "f32"), _constant([2]))
    mask = op.convert(op.greater_equal(ids, _constant(0)), "i64")
    results = [_result(hidden, "last_hidden_state"), _result(mask, "encoder_attention_mask")]
    return ov.Model(results, [ids], "encoder")


def _decoder() -> ov.Model:
    frames = _parameter([1, -1, CHANNELS], np.float32, "inputs_embeds")
    voice = _parameter([1, VOICE_SIZE], np.float32, "speaker_embeddings")
    hidden = _parameter([1, -1, 1], np.float32, "encoder_hidden_states")
    mask = _parameter([1, -1], np.int64, "encoder_attention_mask")
    beam = _parameter([-1], np.int32, "beam_idx")
    step = _length(frames, 1)
    place = op.divide(op.subtract(step, _constant([1])), _constant([STEPS]))
    # A last token that is none would have no place.
    place = op.minimum(place, op.subtract(_length(mask, 1), _constant([1])))
    token = op.reshape(op.gather(hidden, place, _constant(1)), _constant([1, 1, 1]), False)
    token = op.add(token, op.convert(op.multiply(op.reduce_sum(beam, _constant([0]), True),
                                                 _constant([0], np.int32)), "f32"))  # fmt: skip
    loudness = op.reshape(
        op.reduce_mean(op.abs(voice), _constant([1]), True), _constant([1, 1, 1]), False
    )
    half = _constant([1, FRAMES, CHANNELS // 2])
    spectrum = op.concat([op.broadcast(token, half), op.broadcast(loudness, half)], 2)
    following = op.concat([frames, op.slice(spectrum, *map(_constant, ([0], [1], [1], [1])))], 1)
    is_last = op.greater_equal(step, op.multiply(_length(hidden, 1), _constant([STEPS])))
    results = [
        _result(following, "output_sequence_out"),
        _result(spectrum, "spectrum"),
        _result(op.convert(is_last, "f32"), "prob"),
    ]
    return ov.Model(results, [frames, voice, hidden, mask, beam], "decoder")


def _postnet() -> ov.Model:
    raw = _parameter([-1, 1, FRAMES, CHANNELS], np.float32, "raw_spectrogram")
    frames = op.reshape(raw, _constant([-1, CHANNELS]), False)
    return ov.Model([_result(frames, "postnet_spectrogram")], [raw], "postnet")


def _vocoder() -> ov.Model:
    frames = _parameter([-1, CHANNELS], np.float32, "spectrogram")
    long = op.tile(op.unsqueeze(frames, _constant([1])), _constant([1, HOP, 1]))
    samples = op.reshape(long, _constant([-1, CHANNELS]), False)
    ids = op.gather(samples, _constant(0), _constant(1))
    loudness = op.gather(samples, _constant(CHANNELS - 1), _constant(1))
    count = op.squeeze(_length(ids, 0), _constant([0]))
    places = op.range(_constant(0), count, _constant(1), "i64")
    times = op.divide(op.convert(places, "f32"), _constant(RATE, np.float32))
    fifty, ten, base = (_constant(each, np.float32) for each in (50, 10, 200))
    pitch = op.add(op.multiply(op.mod(ids, fifty), ten), base)
    turns = op.multiply(op.multiply(pitch, times), _constant(2 * np.pi, np.float32))
    return ov.Model(
        [_result(op.multiply(op.sin(turns), loudness), "waveform")], [frames], "vocoder"
    )

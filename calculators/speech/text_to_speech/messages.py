"""The protocol between the server and the process of a speech model; MessagePack.

One text at a time, each with one answer.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild

#: Piper's names of what stands at the beginning and the end of a text, and between phonemes.
BEGIN: Final = "^"
END: Final = "$"
PAD: Final = "_"


class PiperSettings(msgspec.Struct, frozen=True, array_like=True):
    """The settings of a Piper voice, out of its ``.onnx.json``.

    Attributes:
        model: the path of the ONNX file.
        rate: samples per second.
        language: espeak-ng's name of the language; "": a text's letters are its phonemes.
        ids: the numbers of each phoneme.
        scales: how much the sound varies, how slow it is, how much the lengths vary.
        speakers: numbers by name; empty for a voice of one speaker.
        has_speakers: the model takes a speaker's number.
    """

    model: str
    rate: int
    language: str
    ids: dict[str, list[int]]
    scales: tuple[float, float, float]
    speakers: dict[str, int]
    has_speakers: bool


class VoiceLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message: the model and its voices.

    Attributes:
        model_path: its directory.
        memory_limit: bytes that the process may grow by when it has loaded.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        voices: names, and files of 32-bit floats.
        keeps_state: the model has a state, which a failed call would leave changed.
        piper: the settings of a Piper voice, which OpenVINO GenAI does not speak with.
    """

    model_path: str
    memory_limit: int
    device: str
    properties: dict[str, Any]
    voices: dict[str, str]
    keeps_state: bool
    piper: PiperSettings | None = None


class VoiceReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model and its voices are loaded."""


class Speak(msgspec.Struct, frozen=True, tag="speak", array_like=True):
    """Speak one text.

    Attributes:
        voice: a name of `VoiceLoad.voices`; "" is the model's own voice.
        language: a code that the model knows; "" for its own.
        speed: for models that can change it; 1.0 is natural.
    """

    text: str
    voice: str
    language: str
    speed: float


class Spoken(msgspec.Struct, frozen=True, tag="spoken", array_like=True):
    """The answer.

    Attributes:
        samples: 32-bit floats in this machine's byte order.
        sample_rate: samples per second, in Hz.
    """

    samples: bytes
    sample_rate: int


class VoiceRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The text cannot be spoken; ``reason`` is for the client."""

    reason: str


ToModel = VoiceLoad | Speak | StopChild
FromModel = VoiceReady | LoadingPhase | LoadFailed | Log | Spoken | VoiceRefused

to_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToModel)
from_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromModel)

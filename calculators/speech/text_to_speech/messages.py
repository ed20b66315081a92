"""The protocol between the server and the process of a speech model; MessagePack.

One text at a time, each with one answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild


class VoiceLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message: the model and its voices.

    Attributes:
        model_path: its directory.
        memory_limit: bytes that the process may grow by when it has loaded.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        voices: names, and files of 32-bit floats.
        keeps_state: the model has a state, which a failed call would leave changed.
    """

    model_path: str
    memory_limit: int
    device: str
    properties: dict[str, Any]
    voices: dict[str, str]
    keeps_state: bool


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

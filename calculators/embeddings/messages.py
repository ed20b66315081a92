"""The protocol between the server and the process of an embedding model; MessagePack.

One question at a time, each with one answer.
"""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.child_process.messages import LoadFailed, Loading, Log, Stop


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message: the model, and the way from its output to embeddings.

    Attributes:
        model_path: its directory.
        memory_limit: bytes that the process may grow by when it has loaded.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        pooling: "CLS", "LAST" or "MEAN".
        normalizes: scale embeddings to length 1.
        max_tokens: the most tokens of one text, special ones included.
        truncates: cut longer texts off; otherwise they are refused.
    """

    model_path: str
    memory_limit: int
    device: str
    properties: dict[str, Any]
    pooling: str
    normalizes: bool
    max_tokens: int
    truncates: bool


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model is loaded. ``size``: numbers of an embedding; 0 if unknown before a run."""

    size: int


class Embed(msgspec.Struct, frozen=True, tag="embed", array_like=True):
    """Embed texts.

    Attributes:
        first: the index of the first text in the request, for errors.
        is_base64: return embeddings as base64 of their floats.
        dimensions: the numbers to return of each embedding; None: all.
    """

    texts: list[str]
    first: int
    is_base64: bool
    dimensions: int | None


class Embedded(msgspec.Struct, frozen=True, tag="embedded", array_like=True):
    """The answer.

    Attributes:
        embeddings: each as JSON: an array of numbers, or a string of base64.
        tokens: the number of tokens of all texts, without padding.
    """

    embeddings: list[bytes]
    tokens: int


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The texts cannot be embedded; ``reason`` is for the client, ``code`` a `Code`."""

    reason: str
    param: str | None = None
    code: str = "INVALID_ARGUMENT"


ToModel = Load | Embed | Stop
FromModel = Ready | Loading | LoadFailed | Log | Embedded | Refused

to_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToModel)
from_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromModel)

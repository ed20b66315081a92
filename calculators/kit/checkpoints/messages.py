"""The protocol between the server and a process that converts a GGUF file; MessagePack."""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild


class ConversionLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """Convert a file; the first message.

    Attributes:
        model_path: the GGUF file; of a split model any of its files.
        directory: an empty folder for the converted model.
        form: of weights with offsets; see `calculators.kit.checkpoints.packed.OffsetForm`.
        size: bytes that the converted weights will take.
        batches: for continuous batching; see `read_decoder`.
        memory_limit: bytes that the process may grow by after the conversion.
    """

    model_path: str
    directory: str
    form: str
    size: int
    batches: bool = True
    memory_limit: int = 1 << 30


class Converted(msgspec.Struct, frozen=True, tag="converted", array_like=True):
    """The folder holds the model."""


ToConverter = ConversionLoad | StopChild
FromConverter = Converted | LoadingPhase | LoadFailed | Log

to_converter_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToConverter)
from_converter_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromConverter)

"""The protocol between the server and the process of an encoder model; MessagePack.

Many questions are in flight at once; answers come in any order.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild

#: Types of models, by config.json, that judge a pair of texts by the word after a prompt.
PROMPTED: Final = frozenset({"qwen3"})


class EncoderLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message: the model, and how it is computed.

    Attributes:
        model_path: its directory.
        memory_limit: bytes that the process may grow by when it has loaded.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        max_tokens: the most tokens of one sequence, special ones included.
        head: the task's own settings.
    """

    model_path: str
    memory_limit: int
    device: str
    properties: dict[str, Any]
    max_tokens: int
    head: dict[str, Any]


class EncoderReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model is loaded.

    Attributes:
        columns: numbers for each sequence; 0 if unknown before a run.
        vocabulary: token ids are smaller.
        streams: batches that are computed at the same time.
    """

    columns: int
    vocabulary: int
    streams: int


class EncoderQuestion(msgspec.Struct, frozen=True, tag="ask", array_like=True):
    """A question of a client; ``question`` is the task's, `Tokenize` or `Detokenize`."""

    number: int
    client: str
    question: msgspec.Raw


class EncoderCancel(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    """Cancels a question: its answer is not wanted any more."""

    number: int


class EncoderAnswer(msgspec.Struct, frozen=True, tag="answer", array_like=True):
    """The answer to a question.

    Attributes:
        values: a row of 32-bit floats for each sequence, in order; little-endian.
        tokens: the number of tokens of each sequence.
        note: as the task's function has it.
    """

    number: int
    values: bytes
    tokens: list[int]
    note: Any = None


class EncoderRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """A question is not answered; ``reason`` is for the client, ``code`` a `Code`."""

    number: int
    reason: str
    param: str | None = None
    code: str = "INVALID_ARGUMENT"


class Computed(msgspec.Struct, frozen=True, tag="computed", array_like=True):
    """A batch is done, and with it some questions.

    Attributes:
        tokens: the tokens of the batch.
        padded: its tokens with padding.
        waits: seconds that each of its sequences has waited.
    """

    answers: list[EncoderAnswer | EncoderRefused]
    tokens: int
    padded: int
    waits: list[float]


class EncoderWorking(msgspec.Struct, frozen=True, tag="working", array_like=True):
    """The process is alive, and computes."""


ToModel = EncoderLoad | EncoderQuestion | EncoderCancel | StopChild
FromModel = (
    EncoderReady
    | LoadingPhase
    | LoadFailed
    | Log
    | EncoderAnswer
    | EncoderRefused
    | Computed
    | EncoderWorking
)

to_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToModel)
from_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromModel)

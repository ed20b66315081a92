"""The protocol between the server and an engine process. Versioned; encoded as MessagePack.

::

    server -> engine   Load, then Add, Cancel, Stop
    engine -> server   Ready or LoadFailed, then at most a Step per step, Metrics now and then
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from calculators.child_process.messages import LoadFailed, Stop
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.media.image import Image

#: Raised with every change of a message. Both sides come from one installation, so it differs
#: only when the files under a running server were replaced.
VERSION: Final = 3

#: Why a sequence ended: "stop" by an end token or stop string, "length" by a limit of tokens,
#: "cache" because the cache had no room left, "cancelled" on request.
FinishReason = Literal["stop", "length", "cache", "cancelled"]


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message to an engine: what to load, and how."""

    version: int
    settings: EngineSettings


class Add(msgspec.Struct, frozen=True, tag="add", array_like=True):
    """Generate; the engine's part of one choice.

    Attributes:
        input_ids: the prompt's tokens; int64, native byte order.
        text: the prompt, for pipelines that see images: they tokenize it themselves.
        images: what the tags ``<ov_genai_image_0>``, ``<ov_genai_image_1>``, ... in ``text`` mean.
        group: the same number for all requests of one answer.
    """

    request_id: int
    input_ids: bytes
    settings: GenerationSettings
    text: str = ""
    images: tuple[Image, ...] = ()
    group: int = 0


class Cancel(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    """Stop generating, free the cache. Nothing more comes for this id."""

    request_id: int


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model is loaded.

    Attributes:
        device: where.
        engine: library and version.
        cache_tokens: that the key-value cache holds; 0: it grows, or does not tell.
    """

    version: int
    device: str
    engine: str
    seconds: float
    cache_tokens: int = 0


class Tokens(msgspec.Struct, frozen=True, array_like=True):
    """What one sequence gained in one step, or a few.

    Attributes:
        sequence: 0, or with beam search the place among the results, best first.
        token_ids: maybe none, when it only ended.
        logprobs: one per token when asked for, else empty. Above 0: the engine has none.
        finish_reason: set in the last one of a sequence.
        prompt_tokens: those of the prompt with its images; set beside it by pipelines that see
            images, else 0.
    """

    request_id: int
    sequence: int
    token_ids: list[int]
    logprobs: list[float] = []
    finish_reason: FinishReason | None = None
    prompt_tokens: int = 0

    def followed_by(self, after: Tokens) -> Tokens:
        """These and the next ones of the same sequence as one."""
        return Tokens(
            after.request_id,
            after.sequence,
            self.token_ids + after.token_ids,
            self.logprobs + after.logprobs,
            after.finish_reason,
            after.prompt_tokens,
        )


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """A request that the engine refused; the others go on. ``reason`` has no internals."""

    request_id: int
    reason: str


class Step(msgspec.Struct, frozen=True, tag="step", array_like=True):
    """New tokens of sequences (`StepCoalescer`), and refused requests. Also the sign of life."""

    tokens: list[Tokens]
    failed: list[Failed] = []


class Metrics(msgspec.Struct, frozen=True, tag="metrics", array_like=True):
    """How the engine fares. ``cache_usage``: 0..1 of ``cache_bytes``.

    Of candidates, which a draft model or the prompt proposes: the passes of the model over some of
    one request, and how many of them it accepted, since the engine was started.
    """

    running: int = 0
    waiting: int = 0
    cache_usage: float = 0.0
    cache_bytes: int = 0
    steps: int = 0
    candidate_passes: int = 0
    accepted_candidates: int = 0


ToEngine = Load | Add | Cancel | Stop
FromEngine = Ready | LoadFailed | Step | Metrics

to_engine_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToEngine)
from_engine_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromEngine)

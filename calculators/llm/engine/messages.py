"""The protocol between the server and an engine process. Versioned; encoded as MessagePack.

::

    server -> engine   EngineLoad, then Add, CancelGeneration, StopChild
    engine -> server   LoadingPhase and Log now and then, EngineReady or LoadFailed; then at most a
                       Step per step, Metrics now and then
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from calculators.images.media.image import Image
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild
from calculators.kit.requests.client_identity import UNKNOWN_CLIENT, ClientIdentity
from calculators.llm.engine.settings import EngineSettings, GenerationSettings, TalkerSettings

#: Incremented with every change of a message. Both sides come from one installation, so versions
#: differ only when the files under a running server were replaced.
VERSION: Final = 11

#: The reason why a sequence ended: "stop" by an end token or stop string, "length" by a limit of
#: tokens, "cache" because the cache had no room left, "cancelled" on request.
FinishReason = Literal["stop", "length", "cache", "cancelled"]


class EngineLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """Load a model; the first message to an engine."""

    version: int
    settings: EngineSettings


class InfillTurn(msgspec.Struct, frozen=True, array_like=True):
    """A request to fill in text: it ends earlier requests of the same client.

    Attributes:
        client: a text by which the client is known, whichever worker it asks.
        began: nanoseconds of the machine's monotonic clock, the same for all parts of an answer.
    """

    client: str
    began: int


class Add(msgspec.Struct, frozen=True, tag="add", array_like=True):
    """Generate from one prompt.

    Attributes:
        input_ids: the prompt's tokens; int64, native byte order.
        text: the prompt, for pipelines that see images: they tokenize it themselves.
        images: for the tags ``<ov_genai_image_0>``, ``<ov_genai_image_1>``, ... in ``text``;
            videos for ``<ov_genai_video_0>``, ....
        sounds: in the order of their tokens in ``text``; samples as
            `calculators.speech.audio.sound` has them, at 16 kHz.
        speech: speak the answer; None: write it only.
        group: the same number for all requests of one answer.
        client: who asks.
        param: the member of the client's request with the prompt, for errors.
        turn: None unless a newer request of the client is to end this one.

    It makes ``settings.num_return_sequences`` choices. `Requests.submit` sets ``request_id``,
    ``group`` and ``client``.
    """

    request_id: int
    input_ids: bytes
    settings: GenerationSettings
    text: str = ""
    images: tuple[Image, ...] = ()
    sounds: tuple[bytes, ...] = ()
    speech: TalkerSettings | None = None
    group: int = 0
    client: ClientIdentity = UNKNOWN_CLIENT
    param: str | None = None
    turn: InfillTurn | None = None


class CancelGeneration(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    """Stop generating and free the cache. No further message has this id."""

    request_id: int


class EngineReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model is loaded.

    Attributes:
        device: the one that runs it.
        engine: library and version.
        seconds: the time that loading took.
        cache_tokens: the size of the key-value cache; 0: it grows, or is unknown.
    """

    version: int
    device: str
    engine: str
    seconds: float
    cache_tokens: int = 0


class NewTokens(msgspec.Struct, frozen=True, array_like=True):
    """New tokens of one sequence, of one step or a few.

    Attributes:
        sequence: 0, or with beam search the place among the results, best first.
        token_ids: empty when the sequence only ended.
        logprobs: one per token if asked for, else empty; above 0: unknown.
        finish_reason: set in the last message of a sequence.
        prompt_tokens: tokens of the prompt with its images; set in the last message by pipelines
            that see images, else 0.
        speech: the next samples of the spoken answer, as `calculators.speech.audio.sound` has them,
            at 24 kHz. They come after all tokens, but before the finish reason.
        speech_tokens: the frames of these samples.
    """

    request_id: int
    sequence: int
    token_ids: list[int]
    logprobs: list[float] = []
    finish_reason: FinishReason | None = None
    prompt_tokens: int = 0
    speech: bytes = b""
    speech_tokens: int = 0

    def followed_by(self, after: NewTokens) -> NewTokens:
        """Join these with the next tokens of the same sequence."""
        return NewTokens(
            after.request_id,
            after.sequence,
            self.token_ids + after.token_ids,
            self.logprobs + after.logprobs,
            after.finish_reason,
            after.prompt_tokens,
            self.speech + after.speech,
            self.speech_tokens + after.speech_tokens,
        )


class FailedGeneration(msgspec.Struct, frozen=True, array_like=True):
    """A request that failed alone.

    Attributes:
        reason: may go to a client.
        is_too_long: the prompt and the tokens that were asked for do not fit the model.
        lacks_memory: nothing is wrong with the request.
        is_superseded: a newer request of the client took its place.
    """

    request_id: int
    reason: str
    is_too_long: bool = False
    lacks_memory: bool = False
    is_superseded: bool = False


class Step(msgspec.Struct, frozen=True, tag="step", array_like=True):
    """New tokens of sequences (`StepCoalescer`), and refused requests. Also the sign of life."""

    tokens: list[NewTokens]
    failed: list[FailedGeneration] = []


class Metrics(msgspec.Struct, frozen=True, tag="metrics", array_like=True):
    """Metrics of the engine.

    Attributes:
        cache_usage: 0..1 of ``cache_bytes``.
        candidate_passes: passes of the model over tokens that a draft model or the prompt proposed,
            per request, since the engine was started.
        accepted_candidates: the proposed tokens that the model accepted, since then.
    """

    running: int = 0
    waiting: int = 0
    cache_usage: float = 0.0
    cache_bytes: int = 0
    steps: int = 0
    candidate_passes: int = 0
    accepted_candidates: int = 0


ToEngine = EngineLoad | Add | CancelGeneration | StopChild
FromEngine = EngineReady | LoadingPhase | Log | LoadFailed | Step | Metrics

to_engine_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToEngine)
from_engine_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromEngine)

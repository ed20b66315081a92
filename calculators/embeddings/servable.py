"""`EmbeddingsServable`: the resource of an embeddings node."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from calculators.child_process.question_lane import QuestionLane
from calculators.child_process.supervisor import LoadError
from calculators.embeddings.messages import (
    Embed,
    Embedded,
    Load,
    Ready,
    Refused,
    from_model_decoder,
)
from calculators.embeddings.node_options import EmbeddingsOptions
from calculators.embeddings.request import EmbeddingsRequest
from calculators.model_cache import CacheEntry
from calculators.model_cache.compiled_models import PROPERTY, finish
from calculators.requests.http_payload import RequestError
from graph_runtime import Code, LoadProgress, ResourceError

#: A request goes to the process in parts of this size, so that clients take turns in between.
_TEXTS: Final = 32
_CHARACTERS: Final = 64 * 1024
#: Processor seconds that one question may take, and seconds after which its process is replaced.
_CPU_SECONDS: Final = 120.0
_WALL_SECONDS: Final = 120.0
#: Bytes by which the process may grow after loading.
_MEMORY: Final = 8 * 1024**3
_MOST_WAITING: Final = 1024
#: Estimated processor seconds per character, for the order of clients.
_COST_OF_CHARACTER: Final = 5e-5


class EmbeddingsServable:
    """A model in a supervised process, and its answers as JSON."""

    def __init__(
        self, options: EmbeddingsOptions, name: str, entry: CacheEntry | None = None
    ) -> None:
        """``name``: the served model's name, for messages; ``entry``: of the compiled model."""
        self._entry = entry
        properties = dict(options.properties)
        if entry is not None:
            properties[PROPERTY] = str(entry.path)
        self._encode = msgspec.msgpack.Encoder().encode
        #: The most tokens of one text.
        self.max_tokens = options.max_tokens
        load = Load(
            str(options.directory),
            _MEMORY,
            options.device,
            properties,
            options.pooling,
            options.normalizes,
            options.max_tokens,
            options.truncates,
        )
        self._lane = QuestionLane(
            "calculators.embeddings.process",
            load,
            decode=from_model_decoder.decode,
            ready=Ready,
            name=f'embedding process of "{name}"',
            subject="embedding",
            cpu_seconds=_CPU_SECONDS,
            wall_seconds=_WALL_SECONDS,
            most_waiting=_MOST_WAITING,
        )

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        try:
            await self._lane.start(progress)
            await asyncio.to_thread(finish, self._entry)
        except BaseException as error:
            await self.close()
            if isinstance(error, LoadError):
                raise ResourceError(f"the model cannot be loaded: {error}") from None
            raise

    @property
    def pid(self) -> int | None:
        """The model's process, while there is one."""
        return self._lane.pid

    @property
    def unavailable_reason(self) -> str:
        return self._lane.unavailable_reason

    async def close(self) -> None:
        await self._lane.close()
        if self._entry is not None:
            self._entry.close()

    async def answer(self, request: EmbeddingsRequest) -> bytes:
        """OpenAI's answer to a request, as JSON.

        Raises:
            RequestError: a text is too long for the model; too many wait; the process is down.
        """
        embeddings: list[bytes] = []
        tokens = 0
        while len(embeddings) < len(request.texts):
            part = _next_part(request.texts, len(embeddings))
            done = await self._ask(
                Embed(part, len(embeddings), request.is_base64, request.dimensions)
            )
            embeddings += done.embeddings
            tokens += done.tokens
        data = b",".join(
            b'{"object":"embedding","index":%d,"embedding":%b}' % (place, embedding)
            for place, embedding in enumerate(embeddings)
        )
        model = msgspec.json.encode(request.model)
        return (
            b'{"object":"list","data":[%b],"model":%b,'
            b'"usage":{"prompt_tokens":%d,"total_tokens":%d}}' % (data, model, tokens, tokens)
        )

    async def _ask(self, question: Embed) -> Embedded:
        try:
            body = self._encode(question)
        except UnicodeEncodeError:
            raise RequestError(
                "the input has a text that is not Unicode (half of a surrogate pair)",
                param="input",
            ) from None
        cost = sum(map(len, question.texts)) * _COST_OF_CHARACTER
        answer: Embedded | Refused = await self._lane.ask(body, cost)
        if isinstance(answer, Refused):
            raise RequestError(answer.reason, param=answer.param, code=Code[answer.code])
        return answer


def _next_part(texts: list[str], first: int) -> list[str]:
    """Return the texts from ``first`` on for one question: at least one."""
    last = first + 1
    characters = len(texts[first])
    while last < len(texts) and last - first < _TEXTS:
        characters += len(texts[last])
        if characters > _CHARACTERS:
            break
        last += 1
    return texts[first:last]

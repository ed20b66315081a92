"""`LlmServable`: the resource of one LLM node: engine, prompts, and what its options say."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from calculators.http_payload import RequestError
from calculators.llm.child.supervisor import LoadError
from calculators.llm.engine.engine import Engine
from calculators.llm.engine.messages import Ready
from calculators.llm.engine.process_engine import ProcessEngine
from calculators.llm.gguf import read_gguf_length
from calculators.llm.node_options import NodeOptions
from calculators.llm.openai.model_defaults import ModelDefaults, read_generation_defaults
from calculators.llm.openai.model_length import read_model_length
from calculators.llm.openai.request_limits import RequestLimits
from calculators.llm.prompt.client import PromptProcess
from calculators.llm.prompt.messages import Prompt
from calculators.llm.text.text_stream import DecodedText, TableText, TextStream
from calculators.llm.text.token_table import TokenTable
from graph_runtime import Code, ResourceError

log = logging.getLogger("graphrt.llm")


class Prompts(Protocol):
    """What makes prompts; see `PromptProcess`."""

    @property
    def unavailable_reason(self) -> str: ...

    async def chat(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        template_kwargs: dict[str, Any] | None = None,
    ) -> Prompt: ...

    async def encode(self, text: str, *, add_special_tokens: bool = True) -> Prompt: ...

    async def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """What the node and the server allow.

    Attributes:
        request: of one request.
        queue: requests in the engine, running and waiting; more are refused with 429.
        batch_without_split: tokens of a prompt where prompts may not be split
            (``dynamic_split_fuse: false``), else None.
    """

    request: RequestLimits
    queue: int
    batch_without_split: int | None = None


class LlmServable:
    """Everything that answers the requests of one LLM node. See `NodeResource`."""

    def __init__(
        self,
        *,
        engine: Engine,
        prompts: Prompts,
        tokens: TokenTable,
        defaults: ModelDefaults,
        limits: ServingLimits,
        fingerprint: str | None = None,
    ) -> None:
        self.engine = engine
        self.prompts = prompts
        self.tokens = tokens
        self.defaults = defaults
        self.limits = limits
        #: OpenAI's ``system_fingerprint``: engine and model as they are now.
        self.fingerprint = fingerprint
        self._visible = tokens.visible()

    @property
    def unavailable_reason(self) -> str:
        return self.engine.unavailable_reason or self.prompts.unavailable_reason

    async def close(self) -> None:
        await asyncio.gather(self.engine.close(), self.prompts.close())

    def check_room(self) -> None:
        """Refuse a request when too many are waiting.

        Raises:
            RequestError: RESOURCE_EXHAUSTED.
        """
        if self.engine.unfinished >= self.limits.queue:
            raise RequestError(
                f"{self.engine.unfinished} requests are running or waiting; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1.0,
            )

    def check_prompt(self, input_ids: bytes, *, param: str) -> int:
        """The number of tokens of a prompt that the engine can take.

        Raises:
            RequestError: an empty prompt, or one longer than the engine takes in one piece.
        """
        count = len(input_ids) // np.dtype(np.int64).itemsize
        if count == 0:
            raise RequestError("the prompt has no tokens", param=param)
        batch = self.limits.batch_without_split
        if batch is not None and count > batch:
            raise RequestError(
                f"the prompt has {count} tokens; this model takes at most {batch} at once "
                "(max_num_batched_tokens)",
                param=param,
                code=Code.OUT_OF_RANGE,
            )
        return count

    def token_ids(self, ids: tuple[int, ...], *, param: str) -> bytes:
        """Ids that a client gave, for the engine.

        Raises:
            RequestError: one is no token of the model; the engine would not notice.
        """
        array = np.array(ids, dtype=np.int64)
        size = len(self.tokens.pieces)
        wrong = np.flatnonzero((array < 0) | (array >= size))
        if len(wrong):
            place = int(wrong[0])
            raise RequestError(
                f"token id {ids[place]} is not in the vocabulary, which has {size} tokens",
                param=f"{param}[{place}]",
            )
        return array.tobytes()

    def text_stream(self, *, skip_special_tokens: bool) -> TextStream:
        """What makes the text of one sequence."""
        if self.tokens.is_exact:
            pieces = self._visible if skip_special_tokens else self.tokens.pieces
            return TableText(pieces, strips_space=self.tokens.strips_space)
        return DecodedText(partial(self._decode, skip_special_tokens))

    async def _decode(self, skip_special_tokens: bool, ids: Any) -> str:
        return await self.prompts.decode(list(ids), skip_special_tokens=skip_special_tokens)


async def load_servable(options: NodeOptions, *, name: str, queue: int) -> LlmServable:
    """Start the processes of a node and load its model.

    Raises:
        ResourceError: the model cannot be loaded; nothing is left running.
    """
    directory = options.model_directory
    defaults = read_generation_defaults(directory)
    is_gguf = options.model_path.is_file()
    length = read_gguf_length(options.model_path) if is_gguf else read_model_length(directory)
    for warning in options.warnings:
        log.warning("%s: %s", name, warning)
    engine = ProcessEngine(options.engine, name=name)
    prompts = PromptProcess(str(options.model_path), name=name, max_tokens=length)
    try:
        ready, prompts_ready = await asyncio.gather(engine.start(), prompts.start())
    except BaseException as error:
        await asyncio.gather(engine.close(), prompts.close())
        if isinstance(error, LoadError):
            size = options.engine.cache_size
            hint = f" (cache_size: {size} means {size} GB)" if "cache size" in str(error) else ""
            raise ResourceError(f"the model cannot be loaded: {error}{hint}") from None
        raise
    if prompts_ready.template_problem:
        log.warning("%s: chat completions: %s", name, prompts_ready.template_problem)
    if not prompts_ready.tokens.is_exact:
        log.warning("%s: text is decoded by the tokenizer itself, which costs time", name)
    log.info("%s: %s on %s, loaded in %.1f s", name, ready.engine, ready.device, ready.seconds)
    return LlmServable(
        engine=engine,
        prompts=prompts,
        tokens=prompts_ready.tokens,
        defaults=defaults,
        limits=ServingLimits(
            request=RequestLimits(
                max_tokens_limit=options.max_tokens_limit,
                best_of_limit=options.best_of_limit,
                max_model_length=length,
            ),
            queue=queue,
            batch_without_split=None
            if options.engine.dynamic_split_fuse
            else options.engine.max_num_batched_tokens,
        ),
        fingerprint=_fingerprint(ready, options),
    )


def _fingerprint(ready: Ready, options: NodeOptions) -> str:
    """The same as long as the same seed may be expected to give the same answer."""
    weights = options.model_path / "openvino_model.bin" if options.model_path.is_dir() else None
    status = (weights or options.model_path).stat()
    parts = (ready.engine, ready.device, options.engine, status.st_size, status.st_mtime_ns)
    return f"fp_{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"

"""`LlmServable`: the resource of one LLM node: engine, prompts, and what its options say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np

from calculators.llm.answers.choice_output import ChoiceOutput, Parser, RawText
from calculators.llm.answers.reasoning_count import ReasoningCount, turning_tokens
from calculators.llm.answers.response import Verbose
from calculators.llm.engine.engine import Engine
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.grammar_process.client import Grammars
from calculators.llm.options.llm_settings import LlmSettings
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.trimmed_stream import TrimmedStream
from calculators.llm.prompt.messages import Prompt
from calculators.llm.requests.chat_request import ChatRequest
from calculators.llm.requests.generation_request import GenerationRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.model_length import TOO_LONG
from calculators.llm.requests.request_grammar import request_grammar
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import refuse_settings
from calculators.llm.requests.tools import Tools
from calculators.llm.text.choice_text import ChoiceText
from calculators.llm.text.stop_strings import StopStrings
from calculators.llm.text.text_stream import DecodedText, TableText, TextStream
from calculators.llm.text.token_table import TokenTable
from calculators.media.encoded_image import EncodedImage, ImageReference
from calculators.media.reader import ImageReader
from calculators.media.tags import with_tags
from calculators.requests.http_payload import RequestError
from graph_runtime import Code

_NO_PARSERS: Final = OutputParsers(None, None)


class Prompts(Protocol):
    """What makes prompts; see `PromptProcess`."""

    @property
    def unavailable_reason(self) -> str: ...

    async def chat(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        template_kwargs: dict[str, Any] | None = None,
        images: list[EncodedImage] | None = None,
    ) -> Prompt: ...

    async def encode(self, text: str, *, add_special_tokens: bool = True) -> Prompt: ...

    async def tokenize(self, texts: Sequence[str], **options: Any) -> list[bytes]: ...

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
        prompt: tokens that the device takes (``MAX_PROMPT_LEN``); None is no limit.
        cache: tokens that the key-value cache holds; None where it grows.
    """

    request: RequestLimits
    queue: int
    batch_without_split: int | None = None
    prompt: int | None = None
    cache: int | None = None


class _VisibleTokens(NamedTuple):
    """What is shown of the tokens, and in which of them reasoning may begin or end (None: any)."""

    hidden: frozenset[int]
    pieces: Sequence[bytes]
    turning: frozenset[int] | None


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
        grammars: Grammars,
        parsers: OutputParsers | None = None,
        guides_tools: bool = False,
        adapters: Sequence[str] = (),
        fingerprint: str | None = None,
        settings: LlmSettings | None = None,
        images: ImageReader | None = None,
    ) -> None:
        """``images``: gets those of requests; None where the model reads text only."""
        self.engine = engine
        self.prompts = prompts
        self.tokens = tokens
        self.defaults = defaults
        self.limits = limits
        #: OpenAI's ``system_fingerprint``: engine and model as they are now.
        self.fingerprint = fingerprint
        self.grammars = grammars
        self.guides_tools = guides_tools
        self._adapters = frozenset(adapters)
        self.parsers = parsers or _NO_PARSERS
        self._turning = self._find_turning()
        self._without_tools = OutputParsers(None, self.parsers.reasoning)
        #: What the operator set for all language models.
        self.settings = settings or LlmSettings()
        self._images = images
        #: Called before it is closed.
        self.on_close: Callable[[], None] = lambda: None
        #: By the special tokens that are shown, None is all.
        self._tables: dict[frozenset[str] | None, _VisibleTokens] = {}

    @property
    def unavailable_reason(self) -> str:
        return self.engine.unavailable_reason or self.prompts.unavailable_reason

    async def close(self) -> None:
        self.on_close()
        await asyncio.gather(self.engine.close(), self.prompts.close(), self.grammars.close())

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

    @property
    def sees_images(self) -> bool:
        """Does the engine take text and images, and chats only?"""
        return self._images is not None

    async def chat_prompt(
        self,
        messages: list[dict[str, Any]],
        images: Sequence[ImageReference],
        tools: Tools,
        template_kwargs: dict[str, Any],
    ) -> Prompt:
        """The prompt that a chat becomes, with its images.

        Raises:
            RequestError: an image cannot be had or read; the template refuses it.
        """
        encoded: list[EncodedImage] = []
        if images:
            assert self._images is not None
            encoded = await self._images.read(images)
            messages = with_tags(messages)
        return await self.prompts.chat(messages, tools.items or None, template_kwargs, encoded)

    def check_prompt(self, input_ids: bytes, *, param: str) -> int:
        """The number of tokens of a prompt that the engine can take.

        Raises:
            RequestError: an empty prompt, or one longer than engine or device take.
        """
        count = len(input_ids) // np.dtype(np.int64).itemsize
        if count == 0:
            raise RequestError("the prompt has no tokens", param=param)
        for most, what in (
            (
                self.limits.batch_without_split,
                "this model takes at most {} at once (max_num_batched_tokens)",
            ),
            (self.limits.prompt, "this model takes at most {} at once (MAX_PROMPT_LEN)"),
            (self.limits.cache, "the key-value cache of this model holds {} (cache_size)"),
        ):
            if most is not None and count > most:
                raise RequestError(
                    f"the prompt has {count} tokens; {what.format(most)}",
                    param=param,
                    code=Code.OUT_OF_RANGE,
                    reason=TOO_LONG,
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

    def output(
        self,
        request: GenerationRequest,
        prompt: str,
        prompt_tokens: int,
        *,
        has_form: bool,
        verbose: Verbose | None,
    ) -> ChoiceOutput:
        """What makes one choice of a prompt from its tokens.

        ``has_form``: it follows a grammar. ``verbose`` is told the raw text.
        """
        shown: frozenset[str] = frozenset()
        parser: Parser | None = None
        max_calls: int | None = None
        thinks = False
        if isinstance(request, ChatRequest):
            schemas = request.tools.schemas if request.tools.items else None
            parsers = self.parsers if schemas is not None else self._without_tools
            thinks = parsers.reasoning is not None
            if parsers != _NO_PARSERS:
                stream = parsers.start(tools=schemas, prompt=prompt)
                parser = TrimmedStream(stream) if has_form else stream
                shown = parsers.special_tokens
            max_calls = None if request.parallel_tool_calls or schemas is None else 1
        visible = self._visible(skip_special_tokens=request.skip_special_tokens, shown=shown)
        return ChoiceOutput(
            ChoiceText(
                self._text_stream(visible),
                StopStrings(
                    request.settings.stop_strings, include=request.include_stop_str_in_output
                ),
                echoed=prompt_tokens if request.settings.echo else 0,
            ),
            parser,
            max_calls=max_calls,
            raw=None
            if verbose is None
            else RawText(self._text_stream(self._visible(skip_special_tokens=False)), verbose),
            reasoning=ReasoningCount(visible.turning, visible.hidden) if thinks else None,
        )

    def with_adapter(self, settings: GenerationSettings, model: str) -> GenerationSettings:
        """The settings for a request to ``model``: an adapter's name, or any other."""
        if model not in self._adapters:
            return settings
        return msgspec.structs.replace(settings, adapter=model)

    async def with_grammar(
        self, settings: GenerationSettings, request: GenerationRequest, prompt: str
    ) -> GenerationSettings:
        """The settings with the grammar that the answer has to follow, if there is one.

        Raises:
            RequestError: it cannot be honoured.
        """
        is_chat = isinstance(request, ChatRequest)
        tools = request.tools if isinstance(request, ChatRequest) else Tools()
        form = request_grammar(
            request.structured,
            tools,
            tool_parser=self.parsers.tool,
            reasoning_parser=self.parsers.reasoning if is_chat else None,
            reasoning_is_open=is_chat and self.parsers.reasoning_is_open(prompt),
            guides_tools=self.guides_tools,
            parallel=not isinstance(request, ChatRequest) or request.parallel_tool_calls,
        )
        if form is None:
            return settings
        param = "tools" if request.structured is None else request.structured.param
        refuse_settings(settings, param)
        return msgspec.structs.replace(settings, grammar=await self.grammars.check(form, param))

    def _visible(
        self, *, skip_special_tokens: bool, shown: frozenset[str] = frozenset()
    ) -> _VisibleTokens:
        """``shown``: special tokens that are not skipped."""
        key = shown if skip_special_tokens else None
        table = self._tables.get(key)
        if table is None:
            hidden = frozenset[int]() if key is None else self.tokens.hidden(key)
            turning = None if self._turning is None else self._turning - hidden
            pieces = self.tokens.visible(hidden)
            table = self._tables[key] = _VisibleTokens(hidden, pieces, turning)
        return table

    def _find_turning(self) -> frozenset[int] | None:
        """The tokens in which reasoning may begin or end, all shown; None where that is unknown."""
        reasoning = self.parsers.reasoning
        if reasoning is None or not self.tokens.is_exact:
            return None
        tags = (*reasoning.start_tags, reasoning.end_tag, *reasoning.special_tokens)
        return turning_tokens(tags, self.tokens.pieces)

    def _text_stream(self, visible: _VisibleTokens) -> TextStream:
        """What makes the text of one sequence."""
        if self.tokens.is_exact:
            return TableText(visible.pieces, strips_space=self.tokens.strips_space)
        return DecodedText(partial(self._decode, visible.hidden))

    async def _decode(self, hidden: frozenset[int], ids: Sequence[int]) -> str:
        if len(hidden) == len(self.tokens.special):
            return await self.prompts.decode(list(ids), skip_special_tokens=True)
        shown = [each for each in ids if each not in hidden]
        return await self.prompts.decode(shown, skip_special_tokens=False) if shown else ""

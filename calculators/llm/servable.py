"""`LlmServable`: the resource of one LLM node: engine, prompts, parsers and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np

from calculators.language.template_arguments import TemplateArguments
from calculators.language.tools import NO_TOOLS, Tools
from calculators.llm.answers.choice_output import ChoiceOutput, Parser, RawText
from calculators.llm.answers.reasoning_count import ReasoningCount, turning_tokens
from calculators.llm.answers.response import Verbose
from calculators.llm.engine.engine import Engine
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.grammar_process.client import Grammars
from calculators.llm.options.llm_settings import LlmSettings
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.output_stream import TrimmedStream
from calculators.llm.prompt.messages import Prompt
from calculators.llm.requests.chat_request import ChatRequest
from calculators.llm.requests.generation_request import GenerationRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.model_length import TOO_LONG
from calculators.llm.requests.request_grammar import request_grammar
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import refuse_settings
from calculators.llm.requests.truncation import TRUNCATES, Truncation
from calculators.llm.text.choice_text import ChoiceText
from calculators.llm.text.stop_strings import StopStrings
from calculators.llm.text.text_stream import DecodedText, TableText, TextStream
from calculators.llm.text.token_table import TokenTable
from calculators.media.image import EncodedImage, ImageReference
from calculators.media.reader import ImageReader
from calculators.media.tags import with_tags
from calculators.requests.http_payload import RequestError
from graph_runtime import Code

_NO_PARSERS: Final = OutputParsers(None, None)


class Prompts(Protocol):
    """The interface of `PromptProcess`."""

    @property
    def unavailable_reason(self) -> str: ...

    async def chat(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        template_kwargs: dict[str, Any] | None = None,
        images: list[EncodedImage] | None = None,
        *,
        continues: bool = False,
        will_be_cut: bool = False,
    ) -> Prompt: ...

    async def encode(
        self, text: str, *, add_special_tokens: bool = True, will_be_cut: bool = False
    ) -> Prompt: ...

    async def tokenize(self, texts: Sequence[str], **options: Any) -> list[bytes]: ...

    async def decode(self, ids: list[int], *, skip_special_tokens: bool = True) -> str: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """The limits of the node and the server.

    Attributes:
        request: the limits of one request.
        queue: requests in the engine, running and waiting; more are refused with 429.
        batch_without_split: tokens of a prompt if prompts may not be split
            (``dynamic_split_fuse: false``), else None.
        prompt: tokens of the device's longest prompt (``MAX_PROMPT_LEN``); None is no limit.
        cache: tokens of the key-value cache; None if the cache grows.
    """

    request: RequestLimits
    queue: int
    batch_without_split: int | None = None
    prompt: int | None = None
    cache: int | None = None

    @property
    def length(self) -> int | None:
        """The most tokens of prompt and answer together; None is no limit."""
        known = (self.request.max_model_length, self.cache)
        return min((each for each in known if each is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProcesses:
    """The child processes of one node, seen from the server."""

    engine: Engine
    prompts: Prompts
    grammars: Grammars
    #: Called when all of them have ended: nothing needs the model's files any more.
    on_end: Callable[[], None] = lambda: None

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(self.engine.close(), self.prompts.close(), self.grammars.close())
        self.on_end()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The facts of a loaded model that requests and answers depend on.

    Attributes:
        tokens: the vocabulary.
        defaults: settings of requests that leave them out, from the model's files.
        parsers: the parsers of tool calls and reasoning.
        guides_tools: does the grammar of a request with tools follow the tools' schemas?
        adapters: names of adapters, which requests give as their model.
        fingerprint: OpenAI's ``system_fingerprint``: engine and model as they are now.
    """

    tokens: TokenTable
    defaults: ModelDefaults
    parsers: OutputParsers = _NO_PARSERS
    guides_tools: bool = False
    adapters: Sequence[str] = ()
    fingerprint: str | None = None


class _VisibleTokens(NamedTuple):
    """The visible text of tokens.

    Attributes:
        hidden: ids of tokens without text.
        pieces: the bytes of each token by id.
        turning: ids of tokens in which reasoning may begin or end; None: any.
    """

    hidden: frozenset[int]
    pieces: Sequence[bytes]
    turning: frozenset[int] | None


class LlmServable:
    """Everything that requests to one LLM node need. See `NodeResource`."""

    def __init__(
        self,
        processes: ModelProcesses,
        profile: ModelProfile,
        limits: ServingLimits,
        *,
        settings: LlmSettings,
        images: ImageReader | None = None,
    ) -> None:
        """Make the resource of a model that is loaded.

        Args:
            settings: the operator's, of all language models.
            images: reads the images of requests; None where the model takes text only.
        """
        self._processes = processes
        self.engine = processes.engine
        self.prompts = processes.prompts
        self.tokens = profile.tokens
        self.defaults = profile.defaults
        self.limits = limits
        self.fingerprint = profile.fingerprint
        self.guides_tools = profile.guides_tools
        self._adapters = frozenset(profile.adapters)
        self.parsers = profile.parsers
        self._turning = self._find_turning()
        self._without_tools = OutputParsers(None, self.parsers.reasoning)
        self.settings = settings
        self._images = images
        #: Does the model read images? Then the engine answers only chats.
        self.sees_images = images is not None
        #: Called by `close`, before anything is closed.
        self.on_close: Callable[[], None] = lambda: None
        #: By the texts of the special tokens that are shown; None: all are.
        self._tables: dict[frozenset[str] | None, _VisibleTokens] = {}

    @property
    def unavailable_reason(self) -> str:
        return self.engine.unavailable_reason or self.prompts.unavailable_reason

    async def close(self) -> None:
        self.on_close()
        await self._processes.close()

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

    async def chat_prompt(
        self,
        messages: list[dict[str, Any]],
        images: Sequence[ImageReference],
        tools: Tools,
        template: TemplateArguments,
        *,
        will_be_cut: bool = False,
    ) -> Prompt:
        """Make the prompt of a chat, with its images.

        ``will_be_cut``: the prompt may be longer than the model.

        Raises:
            RequestError: an image cannot be fetched or read, or the template refuses the chat.
        """
        encoded: list[EncodedImage] = []
        if images:
            assert self._images is not None
            encoded = await self._images.read(images)
            messages = with_tags(messages)
        return await self.prompts.chat(
            messages,
            tools.items or None,
            template.all_values,
            encoded,
            continues=template.continues,
            will_be_cut=will_be_cut,
        )

    def cut_prompt(self, ids: bytes, truncation: Truncation, answer_tokens: int) -> bytes:
        """Return the token ids that are left of a prompt beside an answer of ``answer_tokens``.

        Raises:
            RequestError: the model cannot take so many tokens, or reads images, whose places in
                the prompt would be lost.
        """
        if self.sees_images:
            raise RequestError(
                "a model that sees images takes prompts whole: leave out truncate_prompt_tokens",
                param=TRUNCATES,
            )
        limits = self.limits
        length = limits.request.max_model_length
        beside = None if length is None else length - answer_tokens
        rooms = (beside, limits.batch_without_split, limits.prompt, limits.cache)
        return truncation.cut(ids, min((each for each in rooms if each is not None), default=None))

    def check_prompt(self, input_ids: bytes, *, param: str) -> int:
        """Check that the engine can take a prompt, and return its number of tokens.

        ``input_ids``: 64-bit integers in the machine's byte order.

        Raises:
            RequestError: the prompt is empty, or too long for engine, device or cache.
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
        """Return a client's token ids for the engine, as 64-bit integers.

        Raises:
            RequestError: an id is not in the vocabulary, which the engine does not check.
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
        """Make the output of one choice.

        ``has_form``: does it follow a grammar? ``verbose`` receives the raw text.
        """
        shown: frozenset[str] = frozenset()
        parser: Parser | None = None
        max_calls: int | None = None
        thinks = False
        if isinstance(request, ChatRequest):
            schemas = request.tools.schemas if request.tools.items else None
            parsers = self.parsers if schemas is not None else self._without_tools
            thinks = parsers.reasoning is not None
            if thinks or parsers.tool is not None:
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
        """Return the settings of a request to ``model``, with the adapter of that name, if any."""
        if model not in self._adapters:
            return settings
        return msgspec.structs.replace(settings, adapter=model)

    async def with_grammar(
        self, settings: GenerationSettings, request: GenerationRequest, prompt: str
    ) -> GenerationSettings:
        """Return the settings with the grammar that the answer must follow, if there is one.

        Raises:
            RequestError: the grammar cannot be made or combined with the settings.
        """
        is_chat = isinstance(request, ChatRequest)
        tools = request.tools if isinstance(request, ChatRequest) else NO_TOOLS
        if request.structured is None and not tools.items:
            return settings
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
        return msgspec.structs.replace(
            settings, grammar=await self._processes.grammars.check(form, param)
        )

    def _visible(
        self, *, skip_special_tokens: bool, shown: frozenset[str] = frozenset()
    ) -> _VisibleTokens:
        """Return the table for these tokens. ``shown``: texts of special tokens not to skip."""
        key = shown if skip_special_tokens else None
        table = self._tables.get(key)
        if table is None:
            hidden = frozenset[int]() if key is None else self.tokens.hidden(key)
            turning = None if self._turning is None else self._turning - hidden
            pieces = self.tokens.visible(hidden)
            table = self._tables[key] = _VisibleTokens(hidden, pieces, turning)
        return table

    def _find_turning(self) -> frozenset[int] | None:
        """Return the tokens in which reasoning may begin or end; None if that is unknown."""
        reasoning = self.parsers.reasoning
        if reasoning is None or not self.tokens.is_exact:
            return None
        tags = (*reasoning.start_tags, reasoning.end_tag, *reasoning.special_tokens)
        return turning_tokens(tags, self.tokens.pieces)

    def _text_stream(self, visible: _VisibleTokens) -> TextStream:
        """Make the decoder of one sequence."""
        if self.tokens.is_exact:
            return TableText(visible.pieces, strips_space=self.tokens.strips_space)
        return DecodedText(partial(self._decode, visible.hidden))

    async def _decode(self, hidden: frozenset[int], ids: Sequence[int]) -> str:
        if len(hidden) == len(self.tokens.special):
            return await self.prompts.decode(list(ids), skip_special_tokens=True)
        shown = [each for each in ids if each not in hidden]
        return await self.prompts.decode(shown, skip_special_tokens=False) if shown else ""

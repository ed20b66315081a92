"""`LlmServable`: the resource of one LLM node: engine, prompts, parsers and limits."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import getrandbits
from time import monotonic_ns, perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from calculators.images.media.image import MAX_REQUEST_PIXELS, EncodedImage, Image, ImageReference
from calculators.images.media.reader import ImageReader
from calculators.images.media.tags import with_sound_tags, with_tags
from calculators.kit.model_card import NO_CARD, ModelCard
from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import GenerationRecord
from calculators.language.delta import Begun, ResolvedSampling, Usage
from calculators.language.generation_request import (
    NO_TOOLS,
    Api,
    GenerationRequest,
    Infill,
    TemplateArguments,
    Tools,
)
from calculators.llm.answers.answer import Answer, parts_of
from calculators.llm.answers.choice import Choice, ChoiceFactory
from calculators.llm.api.neutral_request import resolved_request
from calculators.llm.engine.engine import TOO_LONG, Engine
from calculators.llm.engine.messages import Add, EngineReady, InfillTurn
from calculators.llm.engine.scoring_engine import ScoringEngine
from calculators.llm.engine.settings import GenerationSettings, TalkerSettings
from calculators.llm.grammar_process.client import Grammars, leave_unenforced
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.prompt.messages import Prompt, PromptReady
from calculators.llm.requests.checked_request import TRUNCATES, CheckedRequest, PromptTruncation
from calculators.llm.requests.completions_request import ChatRequest, CompletionRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import fit_to_model
from calculators.llm.requests.structured_output import refuse_settings, request_grammar
from calculators.llm.requests.tools import refuse_servers, refuse_unmet
from calculators.llm.task_options import LlmSettings
from graph_runtime import Cancelled, Code

if TYPE_CHECKING:
    from calculators.speech.audio.sound_reader import SoundReader

_SAMPLE_BYTES: Final = 2
_NO_PARSERS: Final = OutputParsers(None, None)
#: The member of a body with the prompt, for errors.
_PROMPT_FIELDS: Final = {
    Api.CHAT: "messages",
    Api.COMPLETIONS: "prompt",
    Api.RESPONSES: "input",
    Api.MESSAGES: "messages",
    Api.GENERATE_CONTENT: "contents",
    Api.COHERE_CHAT: "messages",
    Api.LLAMA_CPP_COMPLETION: "prompt",
    Api.INFILL: "input_prefix",
    Api.OLLAMA_CHAT: "messages",
    Api.OLLAMA_GENERATE: "prompt",
    Api.TGI: "inputs",
    Api.SGLANG: "text",
}
#: The APIs whose answers have the prompt.
_SHOWING_PROMPTS: Final = frozenset({Api.LLAMA_CPP_COMPLETION, Api.INFILL})


class Prompts(Protocol):
    """The interface of `PromptProcess`."""

    @property
    def unavailable_reason(self) -> str: ...

    async def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        images: list[EncodedImage] | None = None,
        sounds: Sequence[int] = (),
        *,
        continues: bool = False,
        will_be_cut: bool = False,
        calls: CallSyntax | None = None,
    ) -> Prompt: ...

    async def encode(
        self, text: str, *, add_special_tokens: bool = True, will_be_cut: bool = False
    ) -> Prompt: ...

    async def fill_in(
        self,
        prefix: str,
        suffix: str,
        files: Sequence[tuple[str, str]] = (),
        *,
        middle: str = "",
        room: int | None = None,
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
        return min([each for each in known if each is not None], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProcesses:
    """The child processes of one node, seen from the server.

    Attributes:
        scoring: computes log-probabilities of prompts; None: ``engine`` does.
        sounds: reads the sounds of requests; None where the model does not hear.
    """

    engine: Engine
    prompts: Prompts
    grammars: Grammars
    scoring: ScoringEngine | None = None
    sounds: SoundReader | None = None
    #: Called when all of them have ended: nothing needs the model's files any more.
    on_end: Callable[[], None] = lambda: None

    async def close(self) -> None:
        """End the processes."""
        ends = [self.engine.close(), self.prompts.close(), self.grammars.close()]
        others = (self.scoring, self.sounds)
        ends += [other.close() for other in others if other is not None]
        await asyncio.gather(*ends)
        self.on_end()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in its processes, and what is known once it is loaded.

    The resources of a graph and of the changed graph that replaces it may have it in common.

    Attributes:
        defaults: settings of requests that leave them out, from the model's files.
        length: tokens of prompt and answer together that the model can take; None: unknown.
        engine_ready, prompts_ready: the first messages of the two processes.
    """

    processes: ModelProcesses
    defaults: ModelDefaults
    length: int | None
    engine_ready: EngineReady
    prompts_ready: PromptReady


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The facts about a model and its node that requests and answers depend on.

    Attributes:
        parsers: the parsers of tool calls and reasoning.
        guides_tools: the grammar of a request with tools follows the tools' schemas.
        adapters: names of adapters, which requests give as their model.
        fingerprint: OpenAI's ``system_fingerprint``: engine and model as they are now.
        card: facts about the model that clients ask for.
    """

    parsers: OutputParsers = _NO_PARSERS
    guides_tools: bool = False
    adapters: Sequence[str] = ()
    fingerprint: str | None = None
    card: ModelCard = NO_CARD


class LlmServable:
    """Everything that requests to one LLM node need. See `NodeResource`."""

    def __init__(
        self,
        model: LoadedModel,
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
        self.model = model
        self.engine = model.processes.engine
        self.prompts = model.processes.prompts
        self.tokens = model.prompts_ready.tokens
        self.defaults = model.defaults
        self.limits = limits
        self.fingerprint = profile.fingerprint
        self.card = profile.card
        self.guides_tools = profile.guides_tools
        self._adapters = frozenset(profile.adapters)
        self.parsers = profile.parsers
        self._choices = ChoiceFactory(self.tokens, self.parsers, self.prompts.decode)
        self.settings = settings
        self._images = images
        #: The model reads images. Then the engine answers only chats.
        self.sees_images = images is not None
        #: Called by `close`, before anything is closed.
        self.on_close: Callable[[], None] = lambda: None

    @property
    def unavailable_reason(self) -> str:
        return self.engine.unavailable_reason or self.prompts.unavailable_reason

    async def close(self) -> None:
        self.on_close()
        await self.model.processes.close()

    @property
    def unfinished(self) -> int:
        """Requests that are running or waiting."""
        return self.engine.unfinished

    @property
    def queue(self) -> int:
        """The number of unfinished requests from which on further ones are refused."""
        return self.limits.queue

    async def generate(self, request: GenerationRequest, node: str) -> Answer:
        """See `LanguageModel.generate`."""
        record: GenerationRecord | None = None
        if request.record is not None:
            record = request.record.begin_generation(node, request.api)
        checked = resolved_request(request, self.limits.request, self.defaults)
        return await self.submit(checked, request, record)

    async def submit(
        self,
        checked: CheckedRequest,
        request: GenerationRequest,
        record: GenerationRecord | None,
        *,
        logs_raw_text: bool = False,
    ) -> Answer:
        """Prompt a request that is checked, and submit it to the engine.

        Args:
            request: for the answer; its messages and prompts are not read.
            logs_raw_text: where answers are logged, the record receives the model's raw text.

        Raises:
            RequestError: it cannot be answered.
            Cancelled: the client has left.
        """
        limits = self.limits.request
        turn = None
        if self.settings.infill_supersede and isinstance(checked, CompletionRequest):
            turn = self._infill_turn(checked, request)
        if self.engine.unfinished >= self.limits.queue:
            raise self._full()
        prompts = await self._prompts(checked, request.api)
        if checked.truncation is not None:
            prompts = [self._cut(prompt, checked, checked.truncation) for prompt in prompts]
        ids = None
        if checked.returns_token_ids and not self.sees_images:
            ids = [prompt.input_ids for prompt in prompts]
        parts: list[Add] = []
        choices: list[Choice] = []
        prompt_tokens = 0
        keeps_texts = record is not None and record.keeps_texts
        logs_raw_text = logs_raw_text and keeps_texts
        # Prompt and raw text beside the answer are of the first choice.
        shows_raw_text = self.settings.verbose_response
        has_tools = isinstance(checked, ChatRequest) and bool(checked.tools.items)
        is_guided = has_tools or checked.structured is not None
        is_infill = isinstance(checked, CompletionRequest) and checked.infill is not None
        ends: Collection[int] = ()
        if is_infill:
            ends = self.model.prompts_ready.infill_ends or ()
        for prompt in prompts:
            count = self.check_prompt(prompt.input_ids, param=prompt.param)
            settings = fit_to_model(
                checked.settings,
                count,
                limits.max_model_length,
                param=prompt.param,
                has_images=bool(prompt.images),
                may_be_less=not checked.limits_itself,
            )
            if is_infill:
                settings = self._infill_settings(settings)
            if checked.model in self._adapters:
                settings = msgspec.structs.replace(settings, adapter=checked.model)
            if is_guided:
                # Proven elsewhere first: a bad grammar raises out of the engine's step and ends it
                # for all requests (decision 0013).
                settings = await self.with_grammar(settings, checked, prompt.text)
            prompt_tokens += count
            text = prompt.text if self.sees_images else ""
            added = Add(
                0, prompt.input_ids, settings, text, prompt.images, param=prompt.param, turn=turn
            )
            if prompt.sounds or checked.speech is not None:
                added = msgspec.structs.replace(added, sounds=prompt.sounds, speech=_voice(checked))
            parts += parts_of(added)
            for _ in range(settings.num_return_sequences):
                choices.append(
                    self._choices.choice(
                        checked,
                        prompt.text,
                        count,
                        keeps_space=settings.grammar is not None
                        and settings.grammar.begins_with_space,
                        ends=ends,
                        keeps_raw_text=logs_raw_text or (shows_raw_text and not choices),
                    )
                )
        if self.sees_images:
            # Each sample is a request of its own (decision 0010), so its images and sounds travel
            # once for each.
            _check_pixels(parts)
            if parts[0].sounds:
                _check_sounds(parts)
        if request.client.is_disconnected:
            raise Cancelled
        scoring = self.model.processes.scoring
        # An engine that keeps prompts does not compute the kept part again, so it has no
        # log-probabilities of it (decision 0090).
        if scoring is None or not (checked.settings.echo and checked.settings.logprobs):
            generation = self.engine.submit(parts)
        elif scoring.unfinished >= self.limits.queue:
            raise self._full()
        else:
            generation = await scoring.submit(parts)
        if request.client.is_disconnected:
            generation.cancel()
            raise Cancelled
        if record is not None:
            record.submitted = perf_counter_ns()
            record.prompt_tokens = prompt_tokens
            record.max_tokens = checked.settings.max_new_tokens
            if keeps_texts:
                record.prompts = [prompt.text for prompt in prompts]
        request.client.on_disconnect(generation.cancel)
        asked = checked.settings
        sampling = ResolvedSampling(
            (asked.temperature or 0) if asked.do_sample else 0,
            1 if asked.top_p is None else asked.top_p,
            asked.max_new_tokens,
            self.limits.length,
        )
        return Answer(
            Begun(
                checked.n * len(prompts),
                Usage(
                    prompt_tokens,
                    0,
                    generation.shared_tokens,
                    heard_tokens=sum(each.sound_tokens for each in prompts) or None,
                ),
                request,
                request.answer_model,
                self.fingerprint,
                sampling,
                request.sources,
                ids,
                [prompt.text for prompt in prompts] if request.api in _SHOWING_PROMPTS else (),
            ),
            generation,
            choices,
            copies=checked.n // checked.settings.num_return_sequences,
            pieces=self.tokens.pieces,
            shown_prompt=prompts[0].text if shows_raw_text else None,
            record=record,
            logs_raw_text=logs_raw_text,
        )

    async def _prompts(self, request: CheckedRequest, api: Api) -> list[_Prompt]:
        field = _PROMPT_FIELDS[api]
        will_be_cut = request.truncation is not None
        if isinstance(request, ChatRequest):
            if request.tool_servers:
                refuse_servers(request.tool_servers)
            if request.tools.choice != "none":
                refuse_unmet(request.tools)
            sounds: list[bytes] = []
            if request.sounds:
                # Imported here: few models hear.
                from calculators.speech.audio.sound_reader import read_sounds

                reader = self.model.processes.sounds
                assert reader is not None
                sounds = await read_sounds(reader, request.sounds)
            try:
                prompt = await self.chat_prompt(
                    request.messages,
                    request.images,
                    request.tools,
                    request.template,
                    sounds=sounds,
                    will_be_cut=will_be_cut,
                )
            except RequestError as error:
                # A template fails with what is not a JSON schema, whose own error says more.
                if error.code is Code.INVALID_ARGUMENT and request.tools.items:
                    await self.with_grammar(request.settings, request, "")
                if api is not Api.CHAT:
                    # The template's messages do not correspond one by one to the client's.
                    error.param = field
                raise
            if request.context:
                prompt = await self._continued(prompt, request.context)
            return [
                _Prompt(
                    prompt.input_ids,
                    prompt.text,
                    field,
                    prompt.images,
                    tuple(sounds),
                    prompt.sound_tokens,
                )
            ]
        assert isinstance(request, CompletionRequest)
        if self.sees_images:
            raise RequestError(
                "this model sees images and answers chats only: use /v3/chat/completions, "
                "/v3/responses or /v3/messages"
            )
        made: list[_Prompt] = []
        for number, text in enumerate(request.prompts):
            param = field if len(request.prompts) == 1 else f"{field}[{number}]"
            if request.infill is not None:
                made.append(await self._infill_prompt(text, request, request.infill, param))
            elif isinstance(text, str):
                prompt = await self.prompts.encode(
                    text, add_special_tokens=request.add_special_tokens, will_be_cut=will_be_cut
                )
                made.append(_Prompt(prompt.input_ids, text, param))
            else:
                shown = self.tokens.decode(text, skip_special_tokens=False)
                made.append(_Prompt(self.token_ids(text, param=param), shown, param))
        return made

    async def _infill_prompt(
        self, prefix: object, request: CompletionRequest, infill: Infill, param: str
    ) -> _Prompt:
        if not isinstance(prefix, str):  # by a node
            raise RequestError("the text before the gap must be a text, not token ids", param=param)
        asked = request.settings.max_new_tokens if request.limits_itself else None
        room = self._room(1 if asked is None else asked) if infill.is_cut else None
        prompt = await self.prompts.fill_in(
            prefix, infill.suffix, infill.files, middle=infill.middle, room=room
        )
        return _Prompt(prompt.input_ids, prompt.text, param)

    def _infill_turn(
        self, checked: CompletionRequest, request: GenerationRequest
    ) -> InfillTurn | None:
        """Return the turn of a request that fills in text, by which it ends the client's last."""
        if checked.infill is None or request.record is None:
            return None
        client = request.record.client
        # Without its port: editors open a connection for each request.
        address = client.connection.rpartition(" ")[0]
        known = "\0".join((client.name, address, checked.infill.user, checked.model))
        # One clock for all workers of the machine.
        began = monotonic_ns()
        return InfillTurn(hashlib.sha256(known.encode("utf-8", "replace")).hexdigest(), began)

    def _infill_settings(self, settings: GenerationSettings) -> GenerationSettings:
        """Return the settings of an answer that also ends where a text that is filled in does."""
        ends = self.model.prompts_ready.infill_ends
        if not ends or settings.ignore_eos:
            return settings
        own = settings.stop_token_ids or self.defaults.eos_token_ids
        return msgspec.structs.replace(settings, stop_token_ids=tuple(dict.fromkeys((*own, *ends))))

    async def _continued(self, prompt: Prompt, context: tuple[int, ...]) -> Prompt:
        """Return the prompt of a conversation after the token ids of what was said before."""
        if self.sees_images:
            raise fields.invalid("context", "this model sees images; send the conversation")
        before = self.token_ids(context, param="context")
        # What stands before a text, such as <s>, stands before the first one only.
        first = (await self.prompts.encode("")).input_ids
        ids = before + prompt.input_ids.removeprefix(first)
        said = self.tokens.decode(context, skip_special_tokens=False)
        return msgspec.structs.replace(prompt, input_ids=ids, text=said + prompt.text)

    def _cut(
        self, prompt: _Prompt, request: CheckedRequest, truncation: PromptTruncation
    ) -> _Prompt:
        # An answer needs a token at least; no limit of the client reserves more.
        asked = request.settings.max_new_tokens if request.limits_itself else None
        ids = self.cut_prompt(prompt.input_ids, truncation, 1 if asked is None else asked)
        if len(ids) == len(prompt.input_ids):
            return prompt
        left = memoryview(ids).cast("q").tolist()
        text = self.tokens.decode(left, skip_special_tokens=False)
        return msgspec.structs.replace(prompt, input_ids=ids, text=text)

    def _full(self) -> RequestError:
        return RequestError(
            f"{self.engine.unfinished} requests are running or waiting; try again later",
            code=Code.RESOURCE_EXHAUSTED,
            retry_after=1.0,
        )

    def chat_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        images: Sequence[ImageReference],
        tools: Tools,
        template: TemplateArguments,
        *,
        sounds: Sequence[bytes] = (),
        will_be_cut: bool = False,
    ) -> Awaitable[Prompt]:
        """Make the prompt of a chat, with its images.

        Args:
            sounds: the samples of each, as `calculators.speech.audio.sound` has them.
            will_be_cut: the prompt may be longer than the model.

        Raises:
            RequestError: an image cannot be fetched or read, or the template refuses the chat.
        """
        chat = partial(
            self.prompts.chat,
            tools=tools.items or None,
            template_kwargs=template.all_values,
            continues=template.continues,
            will_be_cut=will_be_cut,
            calls=self.parsers.calls,
        )
        if sounds:
            messages = with_sound_tags(messages)
            chat = partial(chat, sounds=[len(each) // _SAMPLE_BYTES for each in sounds])
        return self._with_images(chat, messages, images) if images else chat(messages)

    async def chat_tokens(
        self,
        messages: Sequence[Mapping[str, Any]],
        images: Sequence[ImageReference],
        tools: Tools,
        template: TemplateArguments,
    ) -> int:
        """Count the tokens of a chat's prompt.

        Images are counted by the engine, which generates a token for that: how many tokens an image
        becomes is known only there.

        Raises:
            RequestError: as in `chat_prompt`; with images also if the engine refuses the prompt.
        """
        # A prompt that is too long is counted too: agents decide by the count when to shorten it.
        prompt = await self.chat_prompt(messages, images, tools, template, will_be_cut=not images)
        if not prompt.images:
            return prompt.token_count
        if self.engine.unfinished >= self.limits.queue:
            raise self._full()
        param = _PROMPT_FIELDS[Api.MESSAGES]
        settings = fit_to_model(
            GenerationSettings(max_new_tokens=1),
            self.check_prompt(prompt.input_ids, param=param),
            self.limits.request.max_model_length,
            param=param,
            has_images=True,
        )
        part = Add(0, prompt.input_ids, settings, prompt.text, prompt.images, param=param)
        _check_pixels([part])
        generation = self.engine.submit([part])
        counted = 0
        try:
            while not generation.is_finished:
                gained = await generation.read()
                counted = max(counted, *(tokens.prompt_tokens for _, tokens in gained))
        finally:
            generation.cancel()
        return counted

    async def _with_images(
        self,
        chat: Callable[..., Awaitable[Prompt]],
        messages: Sequence[Mapping[str, Any]],
        images: Sequence[ImageReference],
    ) -> Prompt:
        assert self._images is not None
        encoded = await self._images.read(images)
        return await chat(with_tags(messages), images=encoded)

    def cut_prompt(self, ids: bytes, truncation: PromptTruncation, answer_tokens: int) -> bytes:
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
        return truncation.cut(ids, self._room(answer_tokens))

    def _room(self, answer_tokens: int) -> int | None:
        """Return the most tokens of a prompt beside an answer; None: there is no limit."""
        limits = self.limits
        length = limits.request.max_model_length
        beside = None if length is None else length - answer_tokens
        rooms = (beside, limits.batch_without_split, limits.prompt, limits.cache)
        return min((each for each in rooms if each is not None), default=None)

    def check_prompt(self, input_ids: bytes, *, param: str) -> int:
        """Check that the engine can take a prompt, and return its number of tokens.

        ``input_ids``: 64-bit integers in the machine's byte order.

        Raises:
            RequestError: the prompt is empty, or too long for engine, device or cache.
        """
        count = len(input_ids) // 8
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
        size = len(self.tokens.pieces)
        # openvino-genai accepts ids out of range and generates nonsense or worse.
        if ids and not 0 <= min(ids) <= max(ids) < size:
            place = next(place for place, each in enumerate(ids) if not 0 <= each < size)
            raise RequestError(
                f"token id {ids[place]} is not in the vocabulary, which has {size} tokens",
                param=f"{param}[{place}]",
            )
        # array and not numpy: `graphrt validate` imports this module's neighbours without numpy
        # (decision 0080).
        return array("q", ids).tobytes()

    async def with_grammar(
        self, settings: GenerationSettings, request: CheckedRequest, prompt: str
    ) -> GenerationSettings:
        """Return the settings with the grammar that the answer must follow, if there is one.

        Only requests that have tools or are structured can have one.

        Raises:
            RequestError: the grammar cannot be made or combined with the settings.
        """
        is_chat = isinstance(request, ChatRequest)
        tools = request.tools if isinstance(request, ChatRequest) else NO_TOOLS
        form = request_grammar(
            request.structured,
            tools,
            tool_parser=self.parsers.tool,
            reasoning_parser=self.parsers.reasoning if is_chat else None,
            guides_tools=self.guides_tools,
            parallel=not isinstance(request, ChatRequest) or request.parallel_tool_calls,
            prompt=prompt,
            call_count=_calls_in(request) if isinstance(request, ChatRequest) else 0,
        )
        if form is None:
            for text in tools.grammars.values():
                leave_unenforced(text.path, "the form of this model's calls is unknown")
            return settings
        param = "tools" if request.structured is None else request.structured.param
        must_call = tools.choice in ("required", "named")
        refuse_settings(settings, "a tool_choice that forces a call" if must_call else param)
        return msgspec.structs.replace(
            settings, grammar=await self.model.processes.grammars.check(form, param)
        )


def _calls_in(request: ChatRequest) -> int:
    return sum(len(message.get("tool_calls") or ()) for message in request.messages)


def _check_pixels(parts: Sequence[Add]) -> None:
    """Limit the pixels of all parts, each of which sends its images to the engine.

    Raises:
        RequestError: there are too many.
    """
    pixels = sum(image.pixel_count for part in parts for image in part.images)
    if pixels > MAX_REQUEST_PIXELS:
        raise RequestError(
            f"{len(parts)} answers are too many for these images: once for each answer they have "
            f"{pixels} pixels, and {MAX_REQUEST_PIXELS} are the maximum",
            param="n",
        )


def _check_sounds(parts: Sequence[Add]) -> None:
    """Limit the sounds of all parts; see `_check_pixels`."""
    from calculators.speech.audio.sound_reader import HEARD_RATE, MAX_SOUND_SECONDS

    size = sum(len(sound) for part in parts for sound in part.sounds)
    seconds = size / (HEARD_RATE * _SAMPLE_BYTES)
    if seconds > MAX_SOUND_SECONDS:
        raise RequestError(
            f"{len(parts)} answers are too many for these sounds: once for each answer they have "
            f"{seconds:.0f} seconds, and {MAX_SOUND_SECONDS} are the maximum",
            param="n",
        )


class _Prompt(msgspec.Struct, frozen=True):
    """A prompt, and the member of the request with it."""

    input_ids: bytes
    text: str
    param: str
    images: tuple[Image, ...] = ()
    sounds: tuple[bytes, ...] = ()
    sound_tokens: int = 0


def _voice(request: CheckedRequest) -> TalkerSettings | None:
    speech = request.speech
    if speech is None:
        return None
    seed = getrandbits(32) if speech.seed is None else speech.seed
    return TalkerSettings(speech.voice, speech.chunk_frames, seed)

"""`StatefulPipeline`: one request at a time, generated in a thread, as a `Pipeline`.

openvino-genai has three such pipelines, ``LLMPipeline``, ``VLMPipeline`` and ``OmniPipeline``.
`StatefulTextModel`, `StatefulVisionModel` and `StatefulOmniModel` are their common form, which the
thread calls.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import openvino
import openvino_genai as genai

from calculators.images.media.tags import LEAST_SAMPLES
from calculators.kit.child_process.fair_turns import ClientOrder
from calculators.kit.child_process.library_errors import lacks_memory, library_reason
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.llm.engine.constrained_decoding import (
    GrammarCache,
    form_directory,
    open_form_tokenizer,
    open_grammar_cache,
)
from calculators.llm.engine.core import SIGN_SECONDS, GenerationRefused
from calculators.llm.engine.library_config import (
    Adapters,
    device_properties,
    end_with_form,
    generation_config,
    model_config,
    recommended_device,
    seen,
)
from calculators.llm.engine.messages import (
    VERSION,
    Add,
    EngineReady,
    FailedGeneration,
    FinishReason,
    Metrics,
    NewTokens,
)
from calculators.llm.engine.settings import NPU, EngineSettings, GenerationSettings
from calculators.llm.grammars.grammar import Grammar
from calculators.speech.audio.sound import BYTES_PER_SAMPLE, from_pcm16, to_pcm16

#: The property that makes an NPU's plugin compute on another device.
_EMULATION: Final = "NPUW_DEVICES"

#: Samples of a frame of speech, the last frame of a chunk may have fewer; 24 kHz.
_FRAME_SAMPLES: Final = 1920


class OnTokens(Protocol):
    """Called with new tokens, or with new speech; returns False to end the generation."""

    def __call__(self, token_ids: list[int], speech: bytes = b"", /) -> bool: ...


class GenerationEnd(NamedTuple):
    """The end of a sequence.

    Attributes:
        token_ids: the whole sequence; empty where its tokens were reported before.
        prompt_tokens: tokens of the prompt with its images; 0 for models of text only.
    """

    token_ids: list[int]
    reason: FinishReason
    prompt_tokens: int = 0


class StatefulModel(ABC):
    """A model that generates one request at a time, in the caller's thread.

    Attributes:
        device: the device that runs it.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.device = settings.device or recommended_device()
        self._adapters = Adapters(settings.adapters)
        properties = {
            **device_properties(self.device),
            **settings.plugin_config,
            **self._adapters.properties,
            **self._attention(),
        }
        if _EMULATION not in repr(settings.plugin_config):  # at any depth
            _check_device(self.device)
        #: The number of the tokenizer's tokens.
        self._token_count = 0
        self._pipeline = self._open(settings, properties)
        self._model_path = settings.model_path
        self._grammars: GrammarCache | None = None

    def _attention(self) -> dict[str, Any]:
        """Return the properties that choose how attention is computed."""
        # By default the library would use paged attention.
        return {"ATTENTION_BACKEND": "SDPA"}

    @abstractmethod
    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        """Open the library's pipeline."""

    @abstractmethod
    def _run(self, request: Add, config: Any, streamer: Any, on_tokens: OnTokens) -> Any:
        """Generate, and return the library's results."""

    @abstractmethod
    def check(self, settings: GenerationSettings) -> None:
        """Check that the model can generate with these settings.

        Raises:
            Refused: it cannot.
        """

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar, between generations, unless it is compiled already.

        The probe compiles it, not the pipeline: a bad grammar would break a pipeline of images for
        good.

        Raises:
            RuntimeError: the grammar cannot be used.
        """
        if self._grammars is None:
            self._grammars = open_grammar_cache(
                self._model_path,
                self._pipeline.get_tokenizer(),
                self._pipeline.get_generation_config(),
                self._token_count,
            )
        self._grammars.make_room()
        if not self._grammars.has(grammar):
            self._grammars.compile(grammar)

    def generate(self, request: Add, on_tokens: OnTokens) -> list[GenerationEnd]:
        """Generate to the end, or until ``on_tokens`` returns False: then the result is void.

        Beam search returns the best sequence first; it reports nothing before its end, and cannot
        be ended.

        Raises:
            RuntimeError: the library failed. `warm_up` shows whether the model can go on.
        """
        settings = request.settings
        is_beams = settings.num_beams > 1
        # The library cannot return the tokens of the prompt.
        config = generation_config(msgspec.structs.replace(settings, echo=False, logprobs=False))
        if settings.grammar is not None:
            model = self._pipeline.get_generation_config()
            end_with_form(config, model, self._pipeline.get_tokenizer())
        self._adapters.apply_to(config, settings.adapter)
        streamer = None if is_beams else _Streamer(on_tokens)
        results = self._run(request, config, streamer, on_tokens)
        reasons = [_REASONS[reason] for reason in results.finish_reasons]
        if not is_beams:
            return [GenerationEnd([], reasons[0], self._prompt_tokens(results))]
        return [
            GenerationEnd(list(ids), reason)
            for ids, reason in zip(results.tokens, reasons, strict=True)
        ]

    def _prompt_tokens(self, results: Any) -> int:
        return 0

    def warm_up(self) -> None:
        """Generate a token, with each adapter and with none.

        Raises:
            RuntimeError: the model cannot generate.
        """
        first_token = np.zeros(1, dtype=np.int64).tobytes()
        for adapter in (*self._adapters.names, ""):
            settings = GenerationSettings(max_new_tokens=1, ignore_eos=True, adapter=adapter)
            self.generate(Add(0, first_token, settings, text="a"), lambda ids, speech=b"": True)


class StatefulTextModel(StatefulModel):
    """``LLMPipeline``."""

    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        form_tokenizer = open_form_tokenizer(settings.model_path)
        self._token_count = form_tokenizer.size
        tokenizer = form_tokenizer.tokenizer
        return genai.LLMPipeline(settings.model_path, tokenizer, self.device, **properties)

    def _run(self, request: Add, config: Any, streamer: Any, on_tokens: OnTokens) -> Any:
        ids = np.frombuffer(request.input_ids, dtype=np.int64).reshape(1, -1)
        return self._pipeline.generate(openvino.Tensor(ids), config, streamer)

    def check(self, settings: GenerationSettings) -> None:
        _check_logprobs(settings)
        if self.device == NPU:
            _check_beams(settings, "an NPU")


class StatefulVisionModel(StatefulModel):
    """``VLMPipeline``."""

    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        if not settings.hears:
            with form_directory(settings.model_path) as folder:
                return genai.VLMPipeline(folder, self.device, **properties)
        # The library (2026.4) refuses an encoder of sound that is linked from another directory.
        directory = Path(settings.model_path)
        self._weights, models = _networks(directory)
        form_tokenizer = open_form_tokenizer(settings.model_path)
        self._token_count = form_tokenizer.size
        config = model_config(settings.model_path, form_tokenizer.tokenizer)
        return genai.VLMPipeline(
            models, form_tokenizer.tokenizer, directory, self.device, config, **properties
        )

    def _run(self, request: Add, config: Any, streamer: Any, on_tokens: OnTokens) -> Any:
        sounds = {"audios": list(map(_sound_tensor, request.sounds))} if request.sounds else {}
        try:
            return self._pipeline.generate(
                request.text,
                **seen(request.images),
                generation_config=config,
                streamer=streamer,
                **sounds,
            )
        except Exception:
            self._forget_prompt()
            raise

    def _forget_prompt(self) -> None:
        """Drop the prompt that the library keeps after a failure: all further ones would fail."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 2026.4 has no other way
            self._pipeline.finish_chat()

    def _prompt_tokens(self, results: Any) -> int:
        return int(results.perf_metrics.get_num_input_tokens())

    def check(self, settings: GenerationSettings) -> None:
        _check_logprobs(settings)
        # The library returns beams as text, without their tokens.
        _check_beams(settings, "pipeline_type VLM")


class StatefulOmniModel(StatefulVisionModel):
    """``OmniPipeline``: a ``VLMPipeline``, and a ``Talker`` that speaks what it wrote."""

    def _attention(self) -> dict[str, Any]:
        # Only paged attention has what the talker reads of the model's inside. What is kept of
        # earlier prompts would be missing there.
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        # A prompt is read in one step, as the library does without a scheduler of ours.
        scheduler.max_num_batched_tokens = 2**31
        return {"ATTENTION_BACKEND": "PA", "scheduler_config": scheduler}

    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        pipeline = super()._open(settings, properties)
        for name in self._attention():
            del properties[name]
        talker = genai.Talker(settings.model_path, self.device, **properties)
        self._omni = genai.OmniPipeline(pipeline, talker)
        return pipeline

    def _run(self, request: Add, config: Any, streamer: Any, on_tokens: OnTokens) -> Any:
        # The library (2026.4) keeps the sounds of a request, and puts them before the prompt of
        # the next one without sounds, of any client (tests/upstream/test_kept_sounds.py).
        self._forget_prompt()
        speech = genai.OmniTalkerSpeechConfig()
        asked = request.speech
        speech.return_audio = asked is not None
        if asked is not None:
            speech.speaker = asked.voice
            speech.rng_seed = asked.seed
            if asked.chunk_frames is not None:
                speech.audio_chunk_frames = asked.chunk_frames
        try:
            return self._omni.generate(
                request.text,
                **seen(request.images),
                audios=list(map(_sound_tensor, request.sounds)),
                text_config=config,
                talker_speech_config=speech,
                streamer=streamer,
                speech_streamer=None if asked is None else _SpeechStreamer(on_tokens),
            )
        finally:
            self._forget_prompt()

    def check(self, settings: GenerationSettings) -> None:
        _check_logprobs(settings)
        _check_beams(settings, "pipeline_type OMNI")


class _SpeechStreamer(genai.OmniSpeechStreamerBase):  # type: ignore[misc]
    """Passes samples on to a function, and its answer back to the library."""

    def __init__(self, on_tokens: OnTokens) -> None:
        super().__init__()
        self._on_tokens = on_tokens

    def write(self, audio_chunk: Any) -> Any:
        goes_on = self._on_tokens([], to_pcm16(audio_chunk.data.reshape(-1)))
        return genai.StreamingStatus.RUNNING if goes_on else genai.StreamingStatus.CANCEL

    def end(self) -> None:
        pass


def _networks(directory: Path) -> tuple[list[Any], dict[str, Any]]:
    """Return the networks of a model that hears, and what must live as long as they are used."""
    weights, models = [], {}
    for name in ("language", "text_embeddings", "vision_embeddings", "vision_embeddings_pos"):
        file = directory / f"openvino_{name}_model.xml"
        mapped = np.memmap(file.with_suffix(".bin"), np.uint8, "c")
        weights.append(mapped)
        tensor = openvino.Tensor(mapped, shared_memory=True)
        models[name] = (file.read_text(encoding="utf-8"), tensor)
    return weights, models


def _sound_tensor(pcm: bytes) -> Any:
    """Convert a sound to a tensor for the library's pipelines; float32, (samples,)."""
    samples = from_pcm16(pcm)
    missing = max(0, LEAST_SAMPLES - len(samples))
    return openvino.Tensor(np.pad(samples, (0, missing)))


def _check_device(device: str) -> None:
    """Refuse an NPU that is not there: the library's own error does not say so."""
    devices = openvino.Core().available_devices
    if device == NPU and not any(name.startswith(NPU) for name in devices):
        raise RuntimeError(f"device NPU is not on this machine, which has {', '.join(devices)}")


def _check_logprobs(settings: GenerationSettings) -> None:
    if settings.logprobs:
        raise GenerationRefused(
            "log-probabilities are not known where one request is generated at a time"
        )


def _check_beams(settings: GenerationSettings, what: str) -> None:
    if settings.num_beams > 1:
        raise GenerationRefused(f"{what} has no beam search; leave out best_of")


class _Streamer(genai.StreamerBase):  # type: ignore[misc]
    """Passes tokens on to a function, and its answer back to the library."""

    def __init__(self, on_tokens: OnTokens) -> None:
        super().__init__()
        self._on_tokens = on_tokens

    def write(self, token: int | list[int]) -> Any:
        goes_on = self._on_tokens([token] if isinstance(token, int) else token)
        return genai.StreamingStatus.RUNNING if goes_on else genai.StreamingStatus.CANCEL

    def end(self) -> None:
        pass


#: NONE: the memory of an NPU is full, or the request was cancelled.
_REASONS: dict[Any, FinishReason] = {
    genai.GenerationFinishReason.NONE: "cache",
    genai.GenerationFinishReason.STOP: "stop",
    genai.GenerationFinishReason.LENGTH: "length",
    genai.GenerationFinishReason.TOOL_CALL: "stop",
}


#: The library reports nothing during a prompt's pass or a beam search. For so many seconds this
#: counts as progress; after that, and once there are tokens, the server judges the silence.
PATIENCE: Final = 600.0


class OneRequestModel(Protocol):
    """Generates one request at a time; see `StatefulModel`."""

    @property
    def device(self) -> str: ...

    def check(self, settings: GenerationSettings) -> None: ...

    def compile(self, grammar: Grammar) -> None: ...

    def generate(self, request: Add, on_tokens: OnTokens) -> list[GenerationEnd]: ...

    def warm_up(self) -> None: ...


@dataclass(slots=True, eq=False)
class _Queued:
    """A request that waits for its turn.

    Attributes:
        number: requests are numbered as they arrive.
        rank: requests of the same answer that waited or ran then: the choices of one answer let the
            first ones of others go before.
    """

    number: int
    client: ClientIdentity
    rank: int
    request: Add


@dataclass(slots=True)
class _RunningGeneration:
    """The request whose turn it is."""

    request_id: int
    group: int
    since: float
    speaks: bool = False
    has_begun: bool = False
    is_reported: bool = False
    is_cancelled: bool = False


class StatefulPipeline:
    """A queue of requests, the thread that generates them, and its news.

    The thread takes the next request by itself; `step` only fetches new tokens.
    """

    def __init__(
        self,
        open_model: Callable[[], OneRequestModel],
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        on_opened: Callable[[], None] = lambda: None,
    ) -> None:
        """Load the model and generate a token: options that only this refuses fail the load.

        Args:
            wake: called, in any thread, when `has_news` has become true.
            on_opened: called when the model is open, before its first token.
        """
        start = time.monotonic()
        self._model = open_model()
        on_opened()
        self._model.warm_up()
        self._wake = wake
        self._clock = clock
        self._changed = Condition()
        # Guarded by the lock of the condition.
        # The same order of clients as in `Admission` (decision 0091).
        self._queue: ClientOrder[_Queued] = ClientOrder(lambda queued: queued.rank)
        self._numbers = count()
        self._running: _RunningGeneration | None = None
        self._news: list[NewTokens | FailedGeneration] = []
        #: Tokens held back by a step, returned with the next ones.
        self._held: list[NewTokens | FailedGeneration] = []
        self._breakdown: str | None = None
        #: True if a request has ended since the last step.
        self._has_ended = False
        self._reported_at = 0.0
        self.seconds = time.monotonic() - start
        # `generate()` is one call that releases the interpreter's lock: in the process's main
        # thread it could neither take nor cancel requests (decision 0022).
        Thread(target=self._work, daemon=True).start()

    def ready(self) -> EngineReady:
        """Return the message that the engine process sends once the model is loaded."""
        name = f"openvino-genai {genai.get_version()}"
        return EngineReady(VERSION, self._model.device, name, self.seconds)

    @property
    def has_work(self) -> bool:
        with self._changed:
            return self._running is not None or len(self._queue) > 0

    @property
    def has_news(self) -> bool:
        with self._changed:
            return (
                bool(self._news)
                or self._has_ended
                or self._breakdown is not None
                or self._is_sign_due()
            )

    def _is_sign_due(self) -> bool:
        running = self._running
        if running is None or (running.has_begun and not running.speaks):
            return False
        now = self._clock()
        # Before the first token, and before the first samples of speech, the library reports
        # nothing. The supervisor would take a long prompt for a hang without these signs.
        return now - self._reported_at >= SIGN_SECONDS and now - running.since < PATIENCE

    def add(self, request: Add) -> None:
        if not request.input_ids:
            raise GenerationRefused("the prompt has no tokens")
        self._model.check(request.settings)
        with self._changed:
            groups = [queued.request.group for queued in self._queue]
            if self._running is not None:
                groups.append(self._running.group)
            rank = groups.count(request.group)
            self._queue.put(_Queued(next(self._numbers), request.client, rank, request))
            self._changed.notify()

    def cancel(self, request_id: int) -> None:
        """End the generation with its next token; beam search goes on, its result is dropped."""
        with self._changed:
            for queued in self._queue:
                if queued.request.request_id == request_id:
                    self._queue.remove(queued)
                    break
            self._news = [each for each in self._news if each.request_id != request_id]
            self._held = [each for each in self._held if each.request_id != request_id]
            if self._running is not None and self._running.request_id == request_id:
                # The streamer ends the generation with its next token; a beam search has no
                # streamer and runs on.
                self._running.is_cancelled = True

    def step(self, *, reports_all: bool = True) -> list[NewTokens | FailedGeneration]:
        with self._changed:
            news, self._news = self._held + self._news, []
            self._held = []
            self._has_ended = False
            self._reported_at = self._clock()
            if not news and self._breakdown is not None:
                raise RuntimeError(self._breakdown)
            if not reports_all and all(map(self._can_wait, news)):
                self._held, news = news, []
            elif self._running is not None:
                self._running.is_reported = self._running.has_begun
            return news

    def _can_wait(self, each: NewTokens | FailedGeneration) -> bool:
        """Return True for tokens that are neither the first nor the last of an answer."""
        running = self._running
        return running is not None and running.is_reported and each.request_id == running.request_id

    def metrics(self) -> Metrics:
        with self._changed:
            running = self._running
            begun = running is not None and running.has_begun
            return Metrics(
                running=int(begun),
                waiting=len(self._queue) + int(running is not None and not begun),
            )

    def is_compiled(self, grammar: Grammar) -> bool:
        """Return True: the thread compiles a grammar in its request's own turn."""
        return True

    def make_room(self) -> None:
        """Do nothing: the thread does this."""

    def compile(self, grammar: Grammar) -> None:
        """Do nothing: the thread does this."""

    # The thread -----------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._breakdown is None:
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue) > 0)
                queued = self._queue.next()
                self._queue.take(queued)
                request = queued.request
                running = _RunningGeneration(
                    request.request_id, request.group, self._clock(), request.speech is not None
                )
                self._running = running
                self._reported_at = running.since
            last, breakdown = self._serve(request, running)
            with self._changed:
                if not running.is_cancelled:
                    self._news += last
                self._running = None
                self._has_ended = True
                self._breakdown = breakdown
            self._wake()

    def _serve(
        self, request: Add, running: _RunningGeneration
    ) -> tuple[list[NewTokens | FailedGeneration], str | None]:
        """Generate one request; return its last news, and why the model cannot go on, if so."""
        settings = request.settings
        try:
            if settings.grammar is not None:
                # First in the probe's pipeline: a bad grammar raises out of a step and would break
                # the model's own (decision 0013).
                self._model.compile(settings.grammar)
        except Exception as error:
            reason = f"the grammar cannot be used: {library_reason(error)}"
            return [FailedGeneration(request.request_id, reason)], None
        try:
            return self._generate(request, running), None
        except Exception as error:
            failed: list[NewTokens | FailedGeneration] = [
                FailedGeneration(
                    request.request_id, library_reason(error), lacks_memory=lacks_memory(error)
                )
            ]
        try:
            self._model.warm_up()
        except Exception as error:
            return failed, library_reason(error)
        return failed, None

    def _generate(
        self, request: Add, running: _RunningGeneration
    ) -> list[NewTokens | FailedGeneration]:
        request_id, settings = request.request_id, request.settings
        # The library does not return the prompt: it is sent with a sequence's first tokens.
        prompt = memoryview(request.input_ids).cast("q").tolist() if settings.echo else []
        # The library refuses a request for 0 tokens; `echo` alone is answered here.
        if settings.max_new_tokens == 0:
            return [NewTokens(request_id, 0, prompt, [], "length")]
        if running.is_cancelled:
            return []

        def on_tokens(token_ids: list[int], speech: bytes = b"") -> bool:
            first = [] if running.has_begun else prompt
            frames = -(-len(speech) // (BYTES_PER_SAMPLE * _FRAME_SAMPLES))
            gained = NewTokens(
                request_id, 0, first + token_ids, speech=speech, speech_tokens=frames
            )
            return self._queue_tokens(running, gained)

        endings = self._model.generate(request, on_tokens)
        first = [] if running.has_begun else prompt
        return [
            NewTokens(
                request_id,
                number,
                first + ending.token_ids,
                [],
                ending.reason,
                ending.prompt_tokens,
            )
            for number, ending in enumerate(endings)
        ]

    def _queue_tokens(self, running: _RunningGeneration, tokens: NewTokens) -> bool:
        """Queue tokens for the next step. False, without queueing: the request is cancelled."""
        with self._changed:
            if running.is_cancelled:
                return False
            running.has_begun = True
            running.since = self._clock()
            is_first = not self._news
            self._news.append(tokens)
        if is_first:
            self._wake()
        return True

"""openvino-genai's continuous batching as a `Pipeline`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import openvino
import openvino_genai as genai

from calculators.kit.child_process.library_errors import lacks_memory, library_reason
from calculators.kit.memory import return_free_memory
from calculators.llm.engine.constrained_decoding import (
    GrammarCache,
    open_form_tokenizer,
    open_grammar_cache,
)
from calculators.llm.engine.core import GenerationRefused
from calculators.llm.engine.library_config import (
    Adapters,
    device_properties,
    draft_model,
    end_with_form,
    generation_config,
    model_config,
    one_token,
    recommended_device,
    scheduler_config,
    seen,
)
from calculators.llm.engine.messages import (
    VERSION,
    Add,
    EngineReady,
    FinishReason,
    Metrics,
    NewTokens,
)
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from calculators.llm.grammars.grammar import Grammar

#: In the library's error about a prompt that leaves no room for a token.
_NO_ROOM: Final = "'max_length' must be greater"


class GenaiPipeline:
    """One ``ContinuousBatchingPipeline`` and the handles of its requests.

    ``step()`` of the library holds the interpreter's lock, and an exception out of it leaves the
    pipeline unusable: the process must end then.
    """

    def __init__(
        self,
        settings: EngineSettings,
        on_opened: Callable[[], None] = lambda: None,
    ) -> None:
        """Load the model and generate a token; ``on_opened`` is called in between."""
        start = time.monotonic()
        self.device = settings.device or recommended_device()
        self._adapters = Adapters(settings.adapters)
        scheduler = scheduler_config(settings)
        plugin_config = dict(settings.plugin_config)
        if self.device == "CPU" and not settings.device:
            # Entries of the CPU for a model with paged attention can never be read (2026.4).
            plugin_config.pop("CACHE_DIR", None)
        self._has_fixed_cache = bool(scheduler.cache_size or scheduler.num_kv_blocks)
        form_tokenizer = open_form_tokenizer(settings.model_path)
        self._token_count = form_tokenizer.size
        # `step()` holds the interpreter's lock for the whole forward pass, 130 to 147 ms for a long
        # prompt of an 88M model, hence a process of its own (decision 0003).
        self._pipeline = genai.ContinuousBatchingPipeline(
            settings.model_path,
            form_tokenizer.tokenizer,
            scheduler,
            self.device,
            **{
                **device_properties(self.device),
                **plugin_config,
                **self._adapters.properties,
                **draft_model(settings),
            },
        )
        self._model_path = settings.model_path
        self._sees_images = settings.kind.sees_images
        #: Images came since memory was last given back.
        self._has_seen = False
        self._grammars: GrammarCache | None = None
        self._handles: dict[int, Any] = {}
        self._settings: dict[int, GenerationSettings] = {}
        self._caches_prefixes = settings.enable_prefix_caching
        #: Prompts that their answers still have to begin with; else the library returns them.
        self._echoed: dict[int, list[int]] = {}
        self._started: set[int] = set()
        self._is_assisted = settings.decoding_mode != "standard"
        self._is_eagle3 = settings.decoding_mode == "eagle3"
        self._passes = 0
        self._accepted = 0
        self._one_token = one_token(settings)
        on_opened()
        self._warm_up(self._one_token)
        self.seconds = time.monotonic() - start

    def _warm_up(self, settings: GenerationSettings) -> None:
        """Generate a token, so that options that only a step refuses fail the load."""
        # EAGLE-3 takes no prompt of a single token.
        first_tokens = np.zeros(2, dtype=np.int64).tobytes()
        handle = self._handle_of(Add(0, first_tokens, settings, text="a"))
        self._pipeline.step()
        handle.cancel()
        self._pipeline.step()
        if self._adapters.names:
            # An adapter whose shapes do not fit raises only when it is applied.
            for name in (*self._adapters.names, ""):
                self.select(name)

    def cache_usage_of(self, tokens: int) -> float | None:
        """Measure the part of the cache (0 to 1) that a prompt of about so many tokens takes.

        None for a cache that grows, or where no such prompt can be made.
        """
        if not self._has_fixed_cache:
            return None
        text = ""
        if self._sees_images:
            text = "a" + " a" * (tokens - 1)
            if self._pipeline.get_tokenizer().encode(text).input_ids.shape[1] != tokens:
                return None
        ids = np.zeros(tokens, dtype=np.int64).tobytes()
        handle = self._handle_of(Add(0, ids, self._one_token, text=text))
        usage = 0.0
        while handle.get_status() == genai.GenerationStatus.RUNNING:
            self._pipeline.step()
            usage = max(usage, self._pipeline.get_metrics().cache_usage)
        return usage / 100

    def select(self, adapter: str) -> None:
        """Apply the adapter of this name to all further requests; "" is the model itself.

        Called only without unfinished requests. The library takes an adapter with a ``generate``
        and keeps it, so this generates a token.
        """
        config = generation_config(GenerationSettings(max_new_tokens=1, ignore_eos=True))
        self._adapters.apply_to(config, adapter)
        first_token = np.zeros((1, 1), dtype=np.int64)
        self._pipeline.generate([openvino.Tensor(first_token)], [config])

    def ready(self) -> EngineReady:
        """Return the message that the engine process sends once the model is loaded."""
        name = f"openvino-genai {genai.get_version()}"
        return EngineReady(VERSION, self.device, name, self.seconds)

    @property
    def has_work(self) -> bool:
        return bool(self._handles)

    #: Every step advances all requests.
    has_news = has_work

    def add(self, request: Add) -> None:
        try:
            self._handles[request.request_id] = self._handle_of(request)
            self._settings[request.request_id] = request.settings
            if request.settings.echo and self._caches_prefixes:
                prompt = np.frombuffer(request.input_ids, dtype=np.int64).tolist()
                self._echoed[request.request_id] = prompt
        except (RuntimeError, IndexError, ValueError, MemoryError) as error:
            raise GenerationRefused(
                library_reason(error), lacks_memory=lacks_memory(error)
            ) from None

    def _handle_of(self, request: Add) -> Any:
        settings = request.settings
        if settings.echo and self._caches_prefixes:
            # Where a prompt begins in the cache, the library (2026.4) returns only the rest of it.
            # Without echo it takes no request for 0 tokens.
            most = settings.max_new_tokens
            settings = msgspec.structs.replace(
                settings, echo=False, max_new_tokens=1 if most == 0 else most
            )
        if self._sees_images:
            return self._seeing_handle(request, settings)
        config = self._config_of(settings)
        ids = np.frombuffer(request.input_ids, dtype=np.int64).reshape(1, -1)
        if self._is_eagle3 and ids.size < 2:
            raise GenerationRefused(
                "a prompt of a single token is too short for an EAGLE-3 draft model"
            )
        return self._pipeline.add_request(request.request_id, openvino.Tensor(ids), config)

    def _seeing_handle(self, request: Add, settings: GenerationSettings) -> Any:
        given = seen(request.images)
        self._has_seen = self._has_seen or bool(request.images)

        def add(settings: GenerationSettings) -> Any:
            config = self._config_of(settings)
            return self._pipeline.add_request(
                request.request_id, request.text, generation_config=config, **given
            )

        length, most = settings.max_length, settings.max_new_tokens
        if length is None:
            return add(settings)
        if most is None:
            most = 1
        else:
            # The library (2026.4) compares its max_length only with the prompt.
            settings = msgspec.structs.replace(settings, max_length=max(1, length - most + 1))
        try:
            return add(settings)
        except RuntimeError as error:
            # The library raises RuntimeError for everything: its text alone tells this refusal from
            # a failure.
            if _NO_ROOM not in str(error):
                raise
        if settings.is_shortened and most > 1:
            rest = msgspec.structs.replace(
                request.settings, max_new_tokens=None, max_length=length, is_shortened=False
            )
            return self._seeing_handle(request, rest)
        raise GenerationRefused(
            f"The model holds {length} tokens; with its images the prompt leaves no room for "
            f"{most} {'token' if most == 1 else 'tokens'} of answer",
            is_too_long=True,
        )

    def is_compiled(self, grammar: Grammar) -> bool:
        return self._grammars is not None and self._grammars.has(grammar)

    def make_room(self) -> None:
        if self._grammars is not None:
            self._grammars.make_room()

    def compile(self, grammar: Grammar) -> None:
        if self._grammars is None:
            tokenizer = self._pipeline.get_tokenizer()
            # The config of the library (2026.4) is empty where tokens are proposed.
            self._grammars = open_grammar_cache(
                self._model_path, tokenizer, self._model_config(), self._token_count
            )
        self._grammars.compile(grammar)

    def _model_config(self) -> Any:
        # The config of the library (2026.4) is empty where tokens are proposed.
        if self._is_assisted:
            return model_config(self._model_path, self._pipeline.get_tokenizer())
        return self._pipeline.get_config()

    def _config_of(self, settings: GenerationSettings) -> Any:
        config = generation_config(settings)
        if settings.grammar is not None:
            end_with_form(config, self._model_config(), self._pipeline.get_tokenizer())
        return config

    def cancel(self, request_id: int) -> None:
        handle = self._forget(request_id)
        if handle is not None:
            handle.cancel()
            if not self._handles:
                # Without requests nothing steps, and only a step gives the cache back.
                self._pipeline.step()
                self._give_back()

    def _forget(self, request_id: int) -> Any:
        self._started.discard(request_id)
        self._settings.pop(request_id, None)
        self._echoed.pop(request_id, None)
        return self._handles.pop(request_id, None)

    def step(self, *, reports_all: bool = True) -> list[NewTokens]:
        self._pipeline.step()
        gained: list[NewTokens] = []
        ended: list[int] = []
        for request_id, handle in self._handles.items():
            status = int(handle.get_status())
            if not reports_all and status == _RUNNING and request_id in self._started:
                continue  # reading takes time, and the handle keeps its tokens
            tokens = self._read(request_id, handle, _ENDED[status])
            if tokens and tokens[-1].finish_reason is not None:
                ended.append(request_id)
            gained += tokens
        for request_id in ended:
            self._forget(request_id)
        self._give_back()
        return gained

    def _give_back(self) -> None:
        """Give the memory of images back to the system, once no request is left."""
        if self._has_seen and not self._handles:
            self._has_seen = False
            return_free_memory()

    def _read(self, request_id: int, handle: Any, end: FinishReason | None) -> list[NewTokens]:
        """Read the new tokens of a request; all its sequences end in the same step."""
        reads: list[list[Any]] = []
        while handle.can_read():
            outputs = list(handle.read().values())
            if outputs:  # there are none when the cache is full
                reads.append(outputs)
        if self._is_assisted:
            self._count_candidates(reads if request_id in self._started else reads[1:])
        if reads:
            self._started.add(request_id)
        settings = self._settings[request_id]
        count = settings.num_return_sequences
        outputs = reads[-1] if reads else []
        # Beam search returns all its beams at the end, in no order.
        is_beams = len(outputs) > 1
        if is_beams:
            outputs = sorted(outputs, key=_score, reverse=True)[:count]
        tokens: list[NewTokens] = []
        prompt = self._echoed.pop(request_id, []) if reads else []
        for sequence, output in enumerate(outputs):
            parts = [output] if is_beams else [read[0] for read in reads]
            if prompt and settings.max_new_tokens == 0:
                tokens.append(NewTokens(request_id, sequence, prompt, [], "length"))
                continue
            ids = list(prompt)
            logprobs: list[float] = []
            for part in parts:
                ids += part.generated_ids
                if settings.logprobs:
                    # Zeros unless they were asked for.
                    logprobs += part.generated_log_probs
            reason = _REASONS[int(output.finish_reason)] or end
            tokens.append(NewTokens(request_id, sequence, ids, logprobs, reason))
        if end is not None:
            # When the cache is full there is nothing to read, and no finish reason.
            tokens += [
                NewTokens(request_id, sequence, [], [], end)
                for sequence in range(len(outputs), count)
            ]
            if self._sees_images and end != "cancelled":
                prompt = handle.get_perf_metrics().get_num_input_tokens()
                tokens = [msgspec.structs.replace(each, prompt_tokens=prompt) for each in tokens]
        return tokens

    def _count_candidates(self, reads: list[list[Any]]) -> None:
        """Count passes after the prompt's. One token of each is the model's own."""
        self._passes += len(reads)
        for outputs in reads:
            self._accepted += max(0, len(outputs[0].generated_ids) - 1)

    def metrics(self) -> Metrics:
        metrics = self._pipeline.get_metrics()
        if not self._handles:
            # The library reports the last step, from before the cache was given back.
            return Metrics(
                cache_bytes=metrics.kv_cache_size_in_bytes,
                candidate_passes=self._passes,
                accepted_candidates=self._accepted,
            )
        return Metrics(
            running=len(self._started),
            waiting=len(self._handles) - len(self._started),
            cache_usage=metrics.cache_usage / 100,
            cache_bytes=metrics.kv_cache_size_in_bytes,
            candidate_passes=self._passes,
            accepted_candidates=self._accepted,
        )


def _score(output: Any) -> float:
    score: float = output.score
    return score


# Keyed by numbers: these are looked up in every step for every request.
_REASONS: dict[int, FinishReason | None] = {
    int(genai.GenerationFinishReason.NONE): None,
    int(genai.GenerationFinishReason.STOP): "stop",
    int(genai.GenerationFinishReason.LENGTH): "length",
    int(genai.GenerationFinishReason.TOOL_CALL): "stop",
}
_RUNNING: Final = int(genai.GenerationStatus.RUNNING)
#: The end that a status means without a finish reason. IGNORED: the cache has no room.
_ENDED: dict[int, FinishReason | None] = {
    _RUNNING: None,
    int(genai.GenerationStatus.FINISHED): "stop",
    int(genai.GenerationStatus.STOP): "stop",
    int(genai.GenerationStatus.IGNORED): "cache",
    int(genai.GenerationStatus.CANCEL): "cancelled",
}

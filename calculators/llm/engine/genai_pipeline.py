"""openvino-genai's continuous batching as a `Pipeline`."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec
import numpy as np
import openvino
import openvino_genai as genai

from calculators.llm.child.library_errors import library_reason
from calculators.llm.engine.adapters import Adapters
from calculators.llm.engine.core import Refused
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.grammar_cache import GrammarCache, open_grammar_cache
from calculators.llm.engine.library_config import (
    draft_model,
    generation_config,
    image_tensor,
    model_config,
    one_token,
    recommended_device,
    scheduler_config,
)
from calculators.llm.engine.messages import VERSION, Add, FinishReason, Metrics, Ready, Tokens
from calculators.llm.structured.grammar import Grammar

_TOO_LONG: Final = "with its images the prompt is longer than what the model can hold"


class GenaiPipeline:
    """One ``ContinuousBatchingPipeline`` and the handles of its requests.

    ``step()`` of the library holds the interpreter's lock, and an exception out of it leaves the
    pipeline unusable: the process is to end then.
    """

    def __init__(self, settings: EngineSettings) -> None:
        start = time.monotonic()
        self.device = settings.device or recommended_device()
        self._adapters = Adapters(settings.adapters)
        scheduler = scheduler_config(settings)
        self._has_fixed_cache = bool(scheduler.cache_size or scheduler.num_kv_blocks)
        self._pipeline = genai.ContinuousBatchingPipeline(
            settings.model_path,
            scheduler,
            self.device,
            {
                **settings.plugin_config,
                **self._adapters.properties,
                **draft_model(settings),
            },
        )
        self._model_path = settings.model_path
        self._sees_images = settings.pipeline_type == "VLM_CB"
        self._grammars: GrammarCache | None = None
        self._handles: dict[int, Any] = {}
        self._settings: dict[int, GenerationSettings] = {}
        self._started: set[int] = set()
        self._is_assisted = settings.decoding_mode != "standard"
        self._is_eagle3 = settings.decoding_mode == "eagle3"
        self._passes = 0
        self._accepted = 0
        self._one_token = one_token(settings)
        self._warm_up(self._one_token)
        self.seconds = time.monotonic() - start

    def _warm_up(self, settings: GenerationSettings) -> None:
        """Generate a token: options that only a step refuses fail the load, not every request."""
        # EAGLE-3 takes no prompt of a single token.
        first_tokens = np.zeros(2, dtype=np.int64).tobytes()
        handle = self._handle_of(Add(0, first_tokens, settings, text="a"))
        self._pipeline.step()
        handle.cancel()
        self._pipeline.step()
        if self._adapters.names:
            for name in (*self._adapters.names, ""):
                self.select(name)

    def cache_usage_of(self, tokens: int) -> float | None:
        """The part of the cache (0 to 1) that a prompt of about so many tokens takes.

        None for a cache that grows, or where no such prompt is known.
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
        """Apply the adapter of this name to what runs from now on; "" is the model itself.

        Only without unfinished requests. The library takes an adapter for all requests of a
        ``generate``, so it is made to generate a token.
        """
        config = generation_config(GenerationSettings(max_new_tokens=1, ignore_eos=True))
        self._adapters.apply_to(config, adapter)
        first_token = np.zeros((1, 1), dtype=np.int64)
        self._pipeline.generate([openvino.Tensor(first_token)], [config])

    def ready(self) -> Ready:
        """What to tell the server."""
        name = f"openvino-genai {genai.get_version()}"
        return Ready(VERSION, self.device, name, self.seconds)

    @property
    def has_work(self) -> bool:
        return bool(self._handles)

    @property
    def has_news(self) -> bool:
        return bool(self._handles)

    def add(self, request: Add) -> None:
        try:
            self._handles[request.request_id] = self._handle_of(request)
            self._settings[request.request_id] = request.settings
        except (RuntimeError, IndexError, ValueError, MemoryError) as error:
            if "'max_length' must be greater" in str(error):
                raise Refused(_TOO_LONG) from None
            raise Refused(library_reason(error)) from None

    def _handle_of(self, request: Add) -> Any:
        config = generation_config(request.settings)
        if self._sees_images:
            images = [image_tensor(image) for image in request.images]
            return self._pipeline.add_request(
                request.request_id, request.text, images=images, generation_config=config
            )
        ids = np.frombuffer(request.input_ids, dtype=np.int64).reshape(1, -1)
        if self._is_eagle3 and ids.size < 2:
            raise Refused("a prompt of a single token is too short for an EAGLE-3 draft model")
        return self._pipeline.add_request(request.request_id, openvino.Tensor(ids), config)

    def is_compiled(self, grammar: Grammar) -> bool:
        return self._grammars is not None and self._grammars.has(grammar)

    def make_room(self) -> None:
        if self._grammars is not None:
            self._grammars.make_room()

    def compile(self, grammar: Grammar) -> None:
        if self._grammars is None:
            tokenizer = self._pipeline.get_tokenizer()
            # The library (2026.4) has an empty one where tokens are proposed.
            config = (
                model_config(self._model_path, tokenizer)
                if self._is_assisted
                else self._pipeline.get_config()
            )
            self._grammars = open_grammar_cache(self._model_path, tokenizer, config)
        self._grammars.compile(grammar)

    def cancel(self, request_id: int) -> None:
        handle = self._forget(request_id)
        if handle is not None:
            handle.cancel()
            if not self._handles:
                # Nothing else would step, and the cache is given back in a step.
                self._pipeline.step()

    def _forget(self, request_id: int) -> Any:
        self._started.discard(request_id)
        self._settings.pop(request_id, None)
        return self._handles.pop(request_id, None)

    def step(self) -> list[Tokens]:
        self._pipeline.step()
        gained: list[Tokens] = []
        ended: list[int] = []
        for request_id, handle in self._handles.items():
            tokens = self._read(request_id, handle)
            if tokens and tokens[-1].finish_reason is not None:
                ended.append(request_id)
            gained += tokens
        for request_id in ended:
            self._forget(request_id)
        return gained

    def _read(self, request_id: int, handle: Any) -> list[Tokens]:
        """What a request gained; all its sequences end in the same step."""
        outputs = []
        if handle.can_read():
            outputs = list(handle.read().values())
            if self._is_assisted and request_id in self._started:
                # Not the first, which is of the prompt. One token of each pass is the model's own.
                self._passes += 1
                self._accepted += max(0, len(outputs[0].generated_ids) - 1) if outputs else 0
            self._started.add(request_id)
        status = handle.get_status()
        # When the cache is full there is nothing to read, and no finish reason.
        end = None if status == genai.GenerationStatus.RUNNING else _ENDED[status]
        settings = self._settings[request_id]
        count = settings.num_return_sequences
        if len(outputs) > 1:
            # Beam search returns all its beams at the end, in no order.
            outputs = sorted(outputs, key=_score, reverse=True)[:count]
        tokens = [
            Tokens(
                request_id,
                sequence,
                output.generated_ids,
                # Zeros when nobody asked.
                output.generated_log_probs if settings.logprobs else [],
                _REASONS[output.finish_reason] or end,
            )
            for sequence, output in enumerate(outputs)
        ]
        if end is not None:
            tokens += [
                Tokens(request_id, sequence, [], [], end) for sequence in range(len(outputs), count)
            ]
            if self._sees_images and end != "cancelled":
                prompt = handle.get_perf_metrics().get_num_input_tokens()
                tokens = [msgspec.structs.replace(each, prompt_tokens=prompt) for each in tokens]
        return tokens

    def metrics(self) -> Metrics:
        metrics = self._pipeline.get_metrics()
        if not self._handles:
            # The library's figures are those of the last step, before it gave the cache back.
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


_REASONS: dict[Any, FinishReason | None] = {
    genai.GenerationFinishReason.NONE: None,
    genai.GenerationFinishReason.STOP: "stop",
    genai.GenerationFinishReason.LENGTH: "length",
    genai.GenerationFinishReason.TOOL_CALL: "stop",
}
#: A status without a finish reason. IGNORED: the cache has no room for the sequence.
_ENDED: dict[Any, FinishReason] = {
    genai.GenerationStatus.FINISHED: "stop",
    genai.GenerationStatus.STOP: "stop",
    genai.GenerationStatus.IGNORED: "cache",
    genai.GenerationStatus.CANCEL: "cancelled",
}

"""openvino-genai's continuous batching as a `Pipeline`. The only place that generates with it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import openvino
import openvino_genai as genai

from calculators.llm.child.library_errors import library_reason
from calculators.llm.engine.core import Refused
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.grammar_cache import GrammarCache, vocabulary_size
from calculators.llm.engine.library_config import (
    generation_config,
    recommended_device,
    scheduler_config,
)
from calculators.llm.engine.messages import VERSION, FinishReason, Metrics, Ready, Tokens
from calculators.llm.structured.grammar import Grammar


class GenaiPipeline:
    """One ``ContinuousBatchingPipeline`` and the handles of its requests.

    ``step()`` of the library holds the interpreter's lock, and an exception out of it leaves the
    pipeline unusable: the process is to end then.
    """

    def __init__(self, settings: EngineSettings) -> None:
        start = time.monotonic()
        self.device = settings.device or recommended_device()
        self._pipeline = genai.ContinuousBatchingPipeline(
            settings.model_path,
            scheduler_config(settings),
            self.device,
            dict(settings.plugin_config),
        )
        self._model_path = settings.model_path
        self._grammars: GrammarCache | None = None
        self._handles: dict[int, Any] = {}
        self._settings: dict[int, GenerationSettings] = {}
        self._started: set[int] = set()
        self._warm_up()
        self.seconds = time.monotonic() - start

    def _warm_up(self) -> None:
        """Generate a token: options that only a step refuses fail the load, not every request."""
        settings = GenerationSettings(max_new_tokens=1, ignore_eos=True)
        first_token = np.zeros((1, 1), dtype=np.int64)
        handle = self._pipeline.add_request(
            0, openvino.Tensor(first_token), generation_config(settings)
        )
        self._pipeline.step()
        handle.cancel()
        self._pipeline.step()

    def ready(self) -> Ready:
        """What to tell the server."""
        name = f"openvino-genai {genai.get_version()}"
        return Ready(VERSION, self.device, name, self.seconds)

    @property
    def has_work(self) -> bool:
        return bool(self._handles)

    def add(self, request_id: int, input_ids: bytes, settings: GenerationSettings) -> None:
        ids = np.frombuffer(input_ids, dtype=np.int64).reshape(1, -1)
        try:
            self._handles[request_id] = self._pipeline.add_request(
                request_id, openvino.Tensor(ids), generation_config(settings)
            )
            self._settings[request_id] = settings
        except RuntimeError as error:
            raise Refused(library_reason(error)) from None

    def is_compiled(self, grammar: Grammar) -> bool:
        return self._grammars is not None and self._grammars.has(grammar)

    def make_room(self) -> None:
        if self._grammars is not None:
            self._grammars.make_room()

    def compile(self, grammar: Grammar) -> None:
        if self._grammars is None:
            tokenizer = self._pipeline.get_tokenizer()
            size = vocabulary_size(self._model_path, tokenizer)
            if size is None or not self._pipeline.get_config().stop_token_ids:
                raise RuntimeError("this model does not tell its vocabulary, or how it ends")
            self._grammars = GrammarCache(tokenizer, size)
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
            self._started.add(request_id)
            outputs = list(handle.read().values())
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
        return tokens

    def metrics(self) -> Metrics:
        metrics = self._pipeline.get_metrics()
        if not self._handles:
            # The library's figures are those of the last step, before it gave the cache back.
            return Metrics(cache_bytes=metrics.kv_cache_size_in_bytes)
        return Metrics(
            running=len(self._started),
            waiting=len(self._handles) - len(self._started),
            cache_usage=metrics.cache_usage / 100,
            cache_bytes=metrics.kv_cache_size_in_bytes,
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

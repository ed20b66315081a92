"""openvino-genai's pipelines for one request at a time, `LLMPipeline` and `VLMPipeline`, as one."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import openvino
import openvino_genai as genai

from calculators.llm.engine.adapters import Adapters
from calculators.llm.engine.core import Refused
from calculators.llm.engine.engine_settings import NPU, EngineSettings
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.grammar_cache import GrammarCache, open_grammar_cache
from calculators.llm.engine.library_config import (
    device_properties,
    generation_config,
    image_tensor,
    recommended_device,
)
from calculators.llm.engine.messages import Add, FinishReason
from calculators.llm.grammars.grammar import Grammar

#: Where an NPU's plugin shall compute instead.
_EMULATION: Final = "NPUW_DEVICES"

#: Is told new tokens; False ends the generation.
OnTokens = Callable[[list[int]], bool]


class Ending(NamedTuple):
    """How a sequence ended.

    Attributes:
        token_ids: all of it; none where they were told before.
        prompt_tokens: those of the prompt with its images; 0 where nothing is seen.
    """

    token_ids: list[int]
    reason: FinishReason
    prompt_tokens: int = 0


class StatefulModel(ABC):
    """A model that generates one request at a time, in the thread that asks.

    Attributes:
        device: where it runs.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.device = settings.device or recommended_device()
        self._adapters = Adapters(settings.adapters)
        properties = {
            **device_properties(self.device),
            **settings.plugin_config,
            **self._adapters.properties,
            # Else the library takes its other way of attention, with a cache of pages.
            "ATTENTION_BACKEND": "SDPA",
        }
        if _EMULATION not in repr(settings.plugin_config):  # at any depth
            _check_device(self.device)
        self._pipeline = self._open(settings, properties)
        self._model_path = settings.model_path
        self._grammars: GrammarCache | None = None

    @abstractmethod
    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        """The library's pipeline."""

    @abstractmethod
    def _run(self, request: Add, config: Any, streamer: Any) -> Any:
        """Generate; the library's results."""

    @abstractmethod
    def check(self, settings: GenerationSettings) -> None:
        """Can it generate so?

        Raises:
            Refused: no.
        """

    def compile(self, grammar: Grammar) -> None:
        """Prepare for a request with it, between generations.

        It is proven apart from the pipeline: a bad one would break that of images for ever.

        Raises:
            RuntimeError: it cannot be used.
        """
        if self._grammars is None:
            self._grammars = open_grammar_cache(
                self._model_path,
                self._pipeline.get_tokenizer(),
                self._pipeline.get_generation_config(),
            )
        self._grammars.make_room()
        if not self._grammars.has(grammar):
            self._grammars.compile(grammar)

    def generate(self, request: Add, on_tokens: OnTokens) -> list[Ending]:
        """Generate to the end, or until ``on_tokens`` says no: then what is returned is void.

        Beam search, the best first, tells nothing before its end, and cannot be ended.

        Raises:
            RuntimeError: the library's. `warm_up` shows whether it can go on.
        """
        settings = request.settings
        is_beams = settings.num_beams > 1
        # The prompt's own tokens are nothing that it could tell.
        config = generation_config(msgspec.structs.replace(settings, echo=False, logprobs=False))
        self._adapters.apply_to(config, settings.adapter)
        results = self._run(request, config, None if is_beams else _Streamer(on_tokens))
        reasons = [_REASONS[reason] for reason in results.finish_reasons]
        if not is_beams:
            return [Ending([], reasons[0], self._prompt_tokens(results))]
        return [
            Ending(list(ids), reason) for ids, reason in zip(results.tokens, reasons, strict=True)
        ]

    def _prompt_tokens(self, results: Any) -> int:
        return 0

    def warm_up(self) -> None:
        """Generate a token, with each adapter and with none.

        Raises:
            RuntimeError: it cannot generate.
        """
        first_token = np.zeros(1, dtype=np.int64).tobytes()
        for adapter in (*self._adapters.names, ""):
            settings = GenerationSettings(max_new_tokens=1, ignore_eos=True, adapter=adapter)
            self.generate(Add(0, first_token, settings, text="a"), lambda ids: True)


class TextModel(StatefulModel):
    """``LLMPipeline``."""

    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        return genai.LLMPipeline(settings.model_path, self.device, **properties)

    def _run(self, request: Add, config: Any, streamer: Any) -> Any:
        ids = np.frombuffer(request.input_ids, dtype=np.int64).reshape(1, -1)
        return self._pipeline.generate(openvino.Tensor(ids), config, streamer)

    def check(self, settings: GenerationSettings) -> None:
        _check_logprobs(settings)
        if self.device == NPU:
            _check_beams(settings, "an NPU")


class VisionModel(StatefulModel):
    """``VLMPipeline``."""

    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        return genai.VLMPipeline(settings.model_path, self.device, **properties)

    def _run(self, request: Add, config: Any, streamer: Any) -> Any:
        images = [image_tensor(image) for image in request.images]
        try:
            return self._pipeline.generate(
                request.text, images=images, generation_config=config, streamer=streamer
            )
        except Exception:
            self._forget_prompt()
            raise

    def _forget_prompt(self) -> None:
        """After a failure: the library keeps the prompt, and all that come after would fail."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 2026.4 has no other way
            self._pipeline.finish_chat()

    def _prompt_tokens(self, results: Any) -> int:
        return int(results.perf_metrics.get_num_input_tokens())

    def check(self, settings: GenerationSettings) -> None:
        _check_logprobs(settings)
        # It returns beams as text, without their tokens.
        _check_beams(settings, "pipeline_type VLM")


def _check_device(device: str) -> None:
    """What the library says of an NPU that is not there leads nowhere."""
    devices = openvino.Core().available_devices
    if device == NPU and not any(name.startswith(NPU) for name in devices):
        raise RuntimeError(f"device NPU is not on this machine, which has {', '.join(devices)}")


def _check_logprobs(settings: GenerationSettings) -> None:
    if settings.logprobs:
        raise Refused("log-probabilities are not known where one request is generated at a time")


def _check_beams(settings: GenerationSettings, what: str) -> None:
    if settings.num_beams > 1:
        raise Refused(f"{what} has no beam search; leave out best_of")


class _Streamer(genai.StreamerBase):  # type: ignore[misc]
    """Hands on tokens, and whether there should be more."""

    def __init__(self, on_tokens: OnTokens) -> None:
        super().__init__()
        self._on_tokens = on_tokens

    def write(self, token: int | list[int]) -> Any:
        goes_on = self._on_tokens([token] if isinstance(token, int) else token)
        return genai.StreamingStatus.RUNNING if goes_on else genai.StreamingStatus.CANCEL

    def end(self) -> None:
        pass


#: NONE: the memory of an NPU holds no more, or it was cancelled.
_REASONS: dict[Any, FinishReason] = {
    genai.GenerationFinishReason.NONE: "cache",
    genai.GenerationFinishReason.STOP: "stop",
    genai.GenerationFinishReason.LENGTH: "length",
    genai.GenerationFinishReason.TOOL_CALL: "stop",
}

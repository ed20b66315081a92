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
from calculators.llm.engine.form_tokenizer import form_directory, open_form_tokenizer
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.grammar_cache import GrammarCache, open_grammar_cache
from calculators.llm.engine.library_config import (
    device_properties,
    end_with_form,
    generation_config,
    image_tensor,
    recommended_device,
)
from calculators.llm.engine.messages import Add, FinishReason
from calculators.llm.grammars.grammar import Grammar

#: The property that makes an NPU's plugin compute on another device.
_EMULATION: Final = "NPUW_DEVICES"

#: Called with new tokens; returns False to end the generation.
OnTokens = Callable[[list[int]], bool]


class Ending(NamedTuple):
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
            # By default the library would use paged attention.
            "ATTENTION_BACKEND": "SDPA",
        }
        if _EMULATION not in repr(settings.plugin_config):  # at any depth
            _check_device(self.device)
        #: The number of the tokenizer's tokens.
        self._token_count = 0
        self._pipeline = self._open(settings, properties)
        self._model_path = settings.model_path
        self._grammars: GrammarCache | None = None

    @abstractmethod
    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        """Open the library's pipeline."""

    @abstractmethod
    def _run(self, request: Add, config: Any, streamer: Any) -> Any:
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

    def generate(self, request: Add, on_tokens: OnTokens) -> list[Ending]:
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
            RuntimeError: the model cannot generate.
        """
        first_token = np.zeros(1, dtype=np.int64).tobytes()
        for adapter in (*self._adapters.names, ""):
            settings = GenerationSettings(max_new_tokens=1, ignore_eos=True, adapter=adapter)
            self.generate(Add(0, first_token, settings, text="a"), lambda ids: True)


class TextModel(StatefulModel):
    """``LLMPipeline``."""

    def _open(self, settings: EngineSettings, properties: dict[str, Any]) -> Any:
        form_tokenizer = open_form_tokenizer(settings.model_path)
        self._token_count = form_tokenizer.size
        tokenizer = form_tokenizer.tokenizer
        return genai.LLMPipeline(settings.model_path, tokenizer, self.device, **properties)

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
        with form_directory(settings.model_path) as directory:
            return genai.VLMPipeline(directory, self.device, **properties)

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


def _check_device(device: str) -> None:
    """Refuse an NPU that is not there: the library's own error does not say so."""
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

"""Answers with tensors, made from pieces of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calculators.tensors.inference import InferResponse, Parameter, Tensor
from servers.serving.text_generation import outputs
from servers.serving.text_generation.completion import Choice, Completion
from servers.serving.text_generation.generation_request import GenerationRequest

#: Triton's parameter of an answer: it is the last one to its request.
FINAL: Final = "triton_final_response"

#: The finish reason of a text that continues, as in vLLM's backend.
_NOT_FINISHED: Final = "None"


class ResponseWriter:
    """Writes the answers to one request. Each tensor has one element per requested text."""

    def __init__(self, request: GenerationRequest) -> None:
        self._request = request
        count = request.answers
        self._prefixes = [request.prefix] * count
        self._reasons = [_NOT_FINISHED] * count
        self._sums = [0.0] * count
        self._tokens = [0] * count
        self._input_tokens: int | None = None
        self._output_tokens: int | None = None
        self.has_begun = False

    def whole(self, completion: Completion) -> InferResponse:
        """Return the only answer."""
        self._learn(completion)
        return self._response(completion.choices, is_last=True)

    def piece(self, completions: Iterable[Completion]) -> InferResponse | None:
        """Return an answer with the text of these events; None if they have no text.

        The `last` answer says how the text ended.
        """
        choices: list[Choice] = []
        for completion in completions:
            self._learn(completion)
            choices += completion.choices
        if not any(choice.text or choice.logprobs for choice in choices):
            return None
        return self._response(choices, is_last=False)

    def last(self) -> InferResponse:
        """Return the last answer of a stream: no text, but finish reasons and numbers of tokens."""
        return self._response((), is_last=True)

    def empty(self) -> InferResponse:
        """Return an answer without outputs that marks the end."""
        request = self._request
        return InferResponse(request.model, request.version, request.id, {FINAL: True})

    def _learn(self, completion: Completion) -> None:
        self.has_begun = True
        if completion.input_tokens is not None:
            self._input_tokens = completion.input_tokens
            self._output_tokens = completion.output_tokens
        for choice in completion.choices:
            self._grow(choice.index + 1)
            if choice.finish_reason is not None:
                self._reasons[choice.index] = choice.finish_reason
            self._sums[choice.index] += sum(choice.logprobs)

    def _grow(self, count: int) -> None:
        """Make room for ``count`` texts: a graph may return more than were requested."""
        while len(self._sums) < count:
            self._prefixes.append(self._request.prefix)
            self._reasons.append(_NOT_FINISHED)
            self._sums.append(0.0)
            self._tokens.append(0)

    def _response(self, choices: Iterable[Choice], *, is_last: bool) -> InferResponse:
        texts = [""] * len(self._sums)
        logprobs: list[list[float]] = [[] for _ in texts]
        for choice in choices:
            texts[choice.index] += choice.text
            logprobs[choice.index] += choice.logprobs
        texts = [before + text for before, text in zip(self._prefixes, texts, strict=True)]
        self._prefixes = [""] * len(texts)
        tokens = [len(each) for each in logprobs]
        self._tokens = [old + new for old, new in zip(self._tokens, tokens, strict=True)]
        if is_last and len(tokens) == 1 and self._output_tokens is not None:
            # Tokens without text have no log-probability in an answer.
            tokens = [tokens[0] + max(0, self._output_tokens - self._tokens[0])]
        reasons = self._reasons if is_last else [_NOT_FINISHED] * len(texts)
        arrays: dict[str, NDArray[Any]] = {
            outputs.TEXT_OUTPUT: np.array(texts, dtype=object),
            outputs.FINISH_REASON: np.array(reasons, dtype=object),
            outputs.CUMULATIVE_LOGPROB: np.array(self._sums, dtype=np.float32),
            outputs.CUM_LOG_PROBS: np.array(self._sums, dtype=np.float32),
            outputs.OUTPUT_LOG_PROBS: _padded(logprobs),
            outputs.NUM_OUTPUT_TOKENS: np.array(tokens, dtype=np.uint32),
        }
        if is_last and self._input_tokens is not None:
            arrays[outputs.NUM_INPUT_TOKENS] = np.array([self._input_tokens], dtype=np.uint32)
        request = self._request
        parameters: dict[str, Parameter] = {}
        if request.in_stream:
            parameters[FINAL] = is_last and not request.wants_empty_final
        return InferResponse(
            request.model,
            request.version,
            request.id,
            parameters,
            tuple(Tensor.of(name, arrays[name]) for name in request.outputs if name in arrays),
        )


def _padded(rows: list[list[float]]) -> NDArray[np.float32]:
    """Return one row per text, padded with zeros, as in TensorRT-LLM's backend."""
    array = np.zeros((len(rows), max(map(len, rows))), dtype=np.float32)
    for row, values in zip(array, rows, strict=True):
        row[: len(values)] = values
    return array

"""Answers of ``/completion`` and ``/infill``, whole and as events, as llama.cpp writes them.

An event has the new text; the last one of a choice has what a whole answer has, without the text.
Streams just end: there is no ``[DONE]``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Final

from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage
from calculators.language.events import Content, OutputEvent
from calculators.llm.answers.answer_writer import TextOnlyWriter
from calculators.llm.answers.response import AnswerChoice, answering_model, quote

_STOP_TYPES: Final = {
    FinishReason.STOP: "eos",
    FinishReason.LENGTH: "limit",
}


class LlamaCppWriter(TextOnlyWriter):
    """An `AnswerWriter` of llama.cpp's completions.

    Times are measured in the server, from the submission of the prompt; where no language model of
    this server has answered, from the first event.
    """

    __slots__ = ("_began", "_begun", "_ends", "_fields", "_texts")

    def __init__(self, begun: Begun) -> None:
        super().__init__(begun)
        self._begun = begun
        self._began = perf_counter_ns()
        self._fields: Sequence[str] | None = begun.request.echo.get("response_fields")
        self._texts = [""] * begun.choices
        #: Finish reasons and stop strings.
        self._ends: list[tuple[FinishReason, str | None]] = [
            (FinishReason.STOP, None) for _ in range(begun.choices)
        ]

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        answers = []
        for index, choice in enumerate(choices):
            text = choice.content if self._shows_text else ""
            self._texts[index] = text
            self._ends[index] = (choice.finish_reason, choice.stop_string)
            tokens = choice.token_ids if self._shows_text else []
            answers.append(self._final(index, usage, content=text, tokens=tokens))
        return _json(answers[0] if len(answers) == 1 else answers)

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        tokens = [] if self.details is None else self.details.take_ids(index)
        if not self._shows_text or not (text or tokens):
            return ""
        self._texts[index] += text
        return (
            f'data: {{"index":{index},"content":{quote(text)},"tokens":{tokens},"stop":false}}\n\n'
        )

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        self._ends[index] = (reason, stop_string)
        return ""

    def end(self, usage: Usage) -> str:
        # Here, where the tokens are counted.
        events = []
        for index in range(len(self._ends)):
            # Tokens that made no text, as the tokens of a stop string do not.
            rest = [] if self.details is None else self.details.take_ids(index)
            tokens = rest if self._shows_text else []
            events.append(_json(self._final(index, usage, content="", tokens=tokens)))
        return "".join(f"data: {event}\n\n" for event in events)

    def _final(
        self, index: int, usage: Usage, *, content: str, tokens: Sequence[int]
    ) -> Mapping[str, Any]:
        """Return the members of a whole answer, or of the last event of a choice."""
        begun, text = self._begun, self._texts[index]
        prompts = begun.prompts
        reason, stop_string = self._ends[index]
        stop_type = "word" if stop_string else _STOP_TYPES.get(reason, "none")
        if stop_string == "":
            stop_type = "limit"
        predicted = usage.completion_tokens if self._shows_text else 0
        members = {
            "index": index,
            "content": content,
            "tokens": tokens,
            "id_slot": 0,
            "stop": True,
            "model": answering_model(begun),
            "tokens_predicted": predicted,
            "tokens_evaluated": usage.prompt_tokens,
            "generation_settings": self._settings(),
            "prompt": prompts[begun.prompt_of(index, len(prompts))] if prompts else "",
            "has_new_line": "\n" in text,
            "truncated": False,
            "stop_type": stop_type,
            "stopping_word": stop_string or "",
            "tokens_cached": usage.prompt_tokens + predicted,
            "timings": self._timings(usage, predicted),
        }
        return members if self._fields is None else _selected(members, self._fields)

    @property
    def _shows_text(self) -> bool:
        """False if only the prompt was to be computed."""
        return bool(self._begun.request.echo.get("n_predict", -1) != 0)

    def _settings(self) -> Mapping[str, Any]:
        begun = self._begun
        sampling = begun.sampling
        found = {
            "n_predict": begun.request.echo.get("n_predict", -1),
            "stream": begun.request.stream,
        }
        if sampling is None:
            return found
        known = {
            "n_ctx": sampling.length,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        return found | {name: value for name, value in known.items() if value is not None}

    def _timings(self, usage: Usage, predicted: int) -> Mapping[str, Any]:
        first = end = began = self._began
        record = self._begun.request.record
        if record is not None and record.generations:
            generation = record.generations[-1]
            began = generation.submitted or began
            first = generation.first_token or first
            end = generation.ended or perf_counter_ns()
        cached = usage.cached_tokens or 0
        return {
            "cache_n": cached,
            **_rates("prompt", usage.prompt_tokens - cached, first - began),
            **_rates("predicted", predicted, end - first if predicted else 0),
        }


def _rates(name: str, count: int, nanoseconds: int) -> Mapping[str, float]:
    milliseconds = max(0, nanoseconds) / 1e6
    return {
        f"{name}_n": count,
        f"{name}_ms": milliseconds,
        f"{name}_per_token_ms": milliseconds / count if count else 0.0,
        f"{name}_per_second": count / milliseconds * 1e3 if milliseconds else 0.0,
    }


def _selected(members: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return the members that a client asks for, by its names; unknown ones are left out."""
    found: dict[str, Any] = {}
    for name in names:
        value: Any = members
        for part in name.split("/"):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            found[name] = value
    return found


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

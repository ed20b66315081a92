"""Answers of text-generation-inference: a text, its tokens with ``details``, and streams of tokens.

A stream has an event for each token where log-probabilities are known and asked for, else for each
piece of text, and ends with one that has the whole text. There is no ``[DONE]``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage
from calculators.language.events import Content, OutputEvent
from calculators.llm.answers.answer_writer import TextOnlyWriter
from calculators.llm.answers.response import AnswerChoice, quote

_FINISH_REASONS: Final = {FinishReason.LENGTH: "length"}


class GenerateWriter(TextOnlyWriter):
    """An `AnswerWriter` of one text."""

    __slots__ = ("_count", "_ending", "_ids", "_shown", "_text")

    def __init__(self, begun: Begun) -> None:
        super().__init__(begun)
        self._shown = begun.request.echo
        #: Ids of tokens that no event has had yet.
        self._ids: deque[int] = deque()
        self._count = 0
        self._text = ""
        self._ending = "eos_token"

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        (choice,) = choices
        self._end(choice.finish_reason, choice.stop_string)
        answer: dict[str, Any] = {"generated_text": self._shown.get("prefix", "") + choice.content}
        if self._shown.get("details"):
            self._ids.extend(choice.token_ids)
            tokens = [self._token(each) for each in choice.logprobs or ()]
            while self._ids:
                tokens.append(_token(self._ids.popleft(), "", None))
            answer["details"] = self._details(usage) | {"prefill": [], "tokens": tokens}
            if self._shown.get("top_tokens"):
                answer["details"]["top_tokens"] = [[token] for token in tokens]
        return _json([answer] if self._shown.get("is_list") else answer)

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        self._text += text
        if self.details is not None:
            self._ids.extend(self.details.take_ids(index))
        if logprobs is not None:
            return "".join(self._event(self._token(each)) for each in logprobs)
        if not text:
            return ""
        last = self._ids[-1] if self._ids else 0
        self._ids.clear()
        return self._event(_token(last, text, None))

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        self._end(reason, stop_string)
        return ""

    def end(self, usage: Usage) -> str:
        if self.details is not None:
            self._ids.extend(self.details.take_ids(0))
        last = self._ids[-1] if self._ids else 0
        token = {**_token(last, "", None), "special": True}
        text = self._shown.get("prefix", "") + self._text
        return self._event(
            token, text, self._details(usage) | {"input_length": usage.prompt_tokens}
        )

    def _end(self, reason: FinishReason, stop_string: str | None) -> None:
        ending = "stop_sequence" if stop_string is not None else "eos_token"
        self._ending = _FINISH_REASONS.get(reason, ending)

    def _details(self, usage: Usage) -> dict[str, Any]:
        return {
            "finish_reason": self._ending,
            "generated_tokens": usage.completion_tokens,
            "seed": self._shown.get("seed"),
        }

    def _token(self, token: TokenLogprob) -> dict[str, Any]:
        return _token(self._ids.popleft() if self._ids else 0, token.token, token.logprob)

    def _event(
        self,
        token: Mapping[str, Any],
        text: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> str:
        self._count += 1
        if text is None and details is None and not self._shown.get("top_tokens"):
            # One of many: written by hand, it takes a third of the time.
            return (
                f'data:{{"index":{self._count},"token":{{"id":{token["id"]}'
                f',"text":{quote(token["text"])},"logprob":{token["logprob"]!r},"special":false}}'
                f',"generated_text":null,"details":null}}\n\n'
            )
        event = {"index": self._count, "token": token, "generated_text": text, "details": details}
        if self._shown.get("top_tokens"):
            event["top_tokens"] = [token]
        return f"data:{_json(event)}\n\n"


def _token(token_id: int, text: str, logprob: float | None) -> dict[str, Any]:
    known = logprob if logprob is not None and -1e9 < logprob <= 0 else 0.0
    return {"id": token_id, "text": text, "logprob": known, "special": False}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

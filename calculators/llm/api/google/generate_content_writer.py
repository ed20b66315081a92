"""Answers of ``:generateContent``, whole, as events, and as the items of an array."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.server_secret import signature
from calculators.language import delta
from calculators.language.events import OutputEvent, Refused, is_object
from calculators.llm.answers import blocks, response

_FINISH_REASONS: Final = {
    delta.FinishReason.STOP: "STOP",
    delta.FinishReason.LENGTH: "MAX_TOKENS",
    delta.FinishReason.TOOL_CALLS: "STOP",
    delta.FinishReason.CONTENT_FILTER: "SAFETY",
}


class _Candidate:
    """One answer while its events come.

    A call is one part, so its arguments wait until they are complete. The first part after
    reasoning has the reasoning's signature: clients send both back.
    """

    __slots__ = ("_blocks", "_shows_thinking", "_signature", "ending", "malformed")

    def __init__(self, *, shows_thinking: bool) -> None:
        self._blocks = blocks.Blocks()
        self._shows_thinking = shows_thinking
        self._signature = ""
        #: The text of a call that is none, because its arguments are not an object.
        self.malformed = ""
        #: The members about the end, once it is known.
        self.ending: str | None = None

    def add(self, events: Sequence[OutputEvent]) -> list[str]:
        """Return the parts that events complete, as JSON."""
        return self._parts([step for event in events for step in self._blocks.add(event)])

    def finish(self, reason: delta.FinishReason, refused: Refused | None) -> list[str]:
        """Return the last parts, and keep the end."""
        parts = self._parts(self._blocks.finish())
        if refused is not None:
            message = f',"finishMessage":{response.quote(refused.text)}' if refused.text else ""
            self.ending = f'"finishReason":"SAFETY"{message}'
        elif self.malformed and not reason.is_cut:
            message = response.quote(f"Malformed function call: {self.malformed}")
            self.ending = f'"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":{message}'
        else:
            self.ending = f'"finishReason":"{_FINISH_REASONS[reason]}"'
        return parts

    def _parts(self, steps: Sequence[blocks.Step]) -> list[str]:
        parts: list[str] = []
        for step in steps:
            if isinstance(step, blocks.BlockDelta):
                if step.block.kind is blocks.BlockKind.CONTENT:
                    parts.append(f'{{"text":{response.quote(step.text)}{self._signed()}}}')
                elif step.block.kind is blocks.BlockKind.REASONING and self._shows_thinking:
                    parts.append(f'{{"text":{response.quote(step.text)},"thought":true}}')
            elif isinstance(step, blocks.BlockClosed):
                block = step.block
                if block.kind is blocks.BlockKind.REASONING:
                    self._signature = _signature(block.text)
                elif block.kind is blocks.BlockKind.CALL:
                    parts += self._call(block)
        return parts

    def _call(self, block: blocks.OutputBlock) -> list[str]:
        arguments = block.text.strip() or "{}"
        if not is_object(arguments):
            self.malformed = f"{block.name}({block.text})"
            return []
        name, call_id = response.quote(block.name), response.quote(block.call_id)
        call = f'{{"name":{name},"args":{arguments},"id":{call_id}}}'
        return [f'{{"functionCall":{call}{self._signed()}}}']

    def _signed(self) -> str:
        if not self._signature:
            return ""
        signed, self._signature = self._signature, ""
        return f',"thoughtSignature":"{signed}"'


class GenerateContentWriter:
    """An `AnswerWriter` of one answer with its candidates.

    In a stream of several candidates each ends in an item of its own; the last one's has the usage.
    """

    __slots__ = (
        "_candidates",
        "_has_items",
        "_is_array",
        "_last",
        "_open",
        "_refused",
        "_tail",
        "details",
        "verbose",
        "wants_logprobs",
    )

    def __init__(self, begun: delta.Begun) -> None:
        request = begun.request
        self.wants_logprobs = request.wants_logprobs
        self.verbose: delta.Verbose | None = None
        self.details: response.AnswerDetails | None = None
        self._is_array = bool(request.echo.get("array"))
        self._candidates = [
            _Candidate(shows_thinking=request.shows_thinking) for _ in range(begun.choices)
        ]
        self._open = begun.choices
        self._refused: dict[int, Refused] = {}
        self._last: str | None = None
        self._has_items = False
        model = response.quote(response.answering_model(begun))
        self._tail = f'"modelVersion":{model},"responseId":{response.quote(request.id)}'

    def whole(self, choices: Sequence[response.AnswerChoice], usage: delta.Usage) -> str:
        written = []
        for index, choice in enumerate(choices):
            candidate = self._candidates[index]
            events = [
                event
                for event in choice.events
                if not isinstance(event, delta.ToolCalled | delta.ToolRan)
            ]
            parts = _merged(candidate, events)
            parts += candidate.finish(choice.finish_reason, choice.refusal)
            written.append(self._candidate(index, parts, choice.logprobs, candidate.ending))
        return self._object(written, usage)

    def start(self, usage: delta.Usage) -> str:
        return ""

    def begin(self, index: int) -> str:
        return ""

    def more(
        self,
        index: int,
        events: Sequence[OutputEvent],
        logprobs: Sequence[delta.TokenLogprob] | None,
    ) -> str:
        parts = self._candidates[index].add(events)
        if not parts and not logprobs:
            return ""
        return self._item(self._object([self._candidate(index, parts, logprobs)]))

    def tool(self, item: delta.ToolCalled | delta.ToolRan) -> str:
        return ""

    def speak(self, index: int, pcm: bytes) -> str:
        return ""

    def refuse(self, index: int, refused: Refused) -> str:
        """Keep the refusal for the end of the candidate."""
        self._refused[index] = refused
        return ""

    def finish(self, index: int, reason: delta.FinishReason, stop_string: str | None = None) -> str:
        candidate = self._candidates[index]
        parts = candidate.finish(reason, self._refused.get(index))
        ended = self._candidate(index, parts, None, candidate.ending)
        self._open -= 1
        if self._open == 0:
            self._last = ended  # with the usage, which comes with the end
            return ""
        return self._item(self._object([ended]))

    def end(self, usage: delta.Usage) -> str:
        last = [] if self._last is None else [self._last]
        return self._item(self._object(last, usage)) + ("]" if self._is_array else "")

    def failure(self, error: RequestError) -> str:
        return ""  # the front knows the form

    def _candidate(
        self,
        index: int,
        parts: Sequence[str],
        logprobs: Sequence[delta.TokenLogprob] | None,
        ending: str | None = None,
    ) -> str:
        end = "" if ending is None else f",{ending}"
        scores = _logprobs(logprobs) if logprobs else ""
        content = f'{{"parts":[{",".join(parts)}],"role":"model"}}'
        return f'{{"content":{content}{end},"index":{index}{scores}}}'

    def _object(self, candidates: Sequence[str], usage: delta.Usage | None = None) -> str:
        counts = "" if usage is None else f'"usageMetadata":{_usage(usage)},'
        verbose = "" if usage is None else response.verbose_json(self.verbose)
        return f'{{"candidates":[{",".join(candidates)}],{counts}{self._tail}{verbose}}}'

    def _item(self, text: str) -> str:
        if not self._is_array:
            return f"data: {text}\n\n"
        before = ",\r\n" if self._has_items else "["
        self._has_items = True
        return before + text


def _merged(candidate: _Candidate, events: Sequence[OutputEvent]) -> list[str]:
    """Return the parts of a whole answer: neighbours of one kind are one part."""
    together: list[OutputEvent] = []
    for event in events:
        last = together[-1] if together else None
        if last is not None and type(last) is type(event) and hasattr(event, "text"):
            together[-1] = type(event)(last.text + event.text)  # type: ignore[union-attr]
        else:
            together.append(event)
    return candidate.add(together)


def _signature(thoughts: str) -> str:
    """Return the signature of reasoning; nothing here reads it, but clients keep signed parts."""
    return b64encode(signature(thoughts.encode("utf-8", "surrogatepass"))).decode()


def _logprobs(tokens: Sequence[delta.TokenLogprob]) -> str:
    """Return the members about log-probabilities, with a comma before them."""
    known = (token.logprob for token in tokens)
    least = response.IMPOSSIBLE
    values = [least if value is None else max(value, least) for value in known]
    chosen = ",".join(
        f'{{"token":{response.quote(token.token)},"logProbability":{json.dumps(value)}}}'
        for token, value in zip(tokens, values, strict=True)
    )
    average = json.dumps(sum(values) / len(values))
    return f',"avgLogprobs":{average},"logprobsResult":{{"chosenCandidates":[{chosen}]}}'


def _usage(usage: delta.Usage) -> str:
    """Return the object ``usageMetadata``: reasoning is counted beside the answer's tokens."""
    thoughts = usage.reasoning_tokens or 0
    prompt, answer = usage.prompt_tokens, usage.completion_tokens - thoughts
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": answer}
    if usage.cached_tokens is not None:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    if thoughts:
        counts["thoughtsTokenCount"] = thoughts
    counts["totalTokenCount"] = prompt + usage.completion_tokens
    return json.dumps(counts, separators=(",", ":"))


def count_tokens_response(tokens: int) -> str:
    """Return the body of the answer to a request to count tokens."""
    return f'{{"totalTokens":{tokens}}}'

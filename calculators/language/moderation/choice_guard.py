"""`ChoiceGuard`: the part of one choice that may be shown, and the texts that are judged.

Moderation never takes back what a client has seen. So a guard holds the events of a choice until
nothing that may follow can make them forbidden: text that may grow into a match of the rules waits
until it cannot, a call of a tool waits until it is complete, and with a classifier the text of a
window waits for the verdict. What waits keeps its order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from calculators.kit.requests.json_depth import nests_deeper
from calculators.language import (
    Arguments,
    CallDone,
    Content,
    Event,
    GenerationRequest,
    Reasoning,
    RequestError,
    ToolCall,
    ToolCalled,
    ToolRan,
)
from calculators.language.generation_request import text_of_content
from calculators.language.redaction.choice import ChoiceRedactor, Redaction
from calculators.language.text_patterns import Scanner, Spans


def request_texts(request: GenerationRequest) -> list[str]:
    """Return the texts of all messages, or the prompts. No text is empty.

    Raises:
        RequestError: a prompt is of token ids, which nobody here can read.
    """
    texts: list[str] = []
    for prompt in request.prompts:
        if not isinstance(prompt, str):
            raise RequestError(
                "prompts of token ids are not accepted, because they cannot be moderated: send "
                "texts",
                param="prompt",
            )
        texts.append(prompt)
    for message in request.messages:
        texts.append(text_of_content(message.get("content")))
        texts += strings_of(message.get("reasoning_content"))
        calls = [call.get("function", call) for call in message.get("tool_calls") or ()]
        for call in calls:
            arguments = call.get("arguments")
            texts.append(call_text(call.get("name", ""), arguments))
    return [text for text in texts if text]


def call_text(name: str, arguments: Any) -> str:
    """Return what a call says: its name, and all strings of its arguments, JSON or parsed."""
    if isinstance(arguments, str):
        if nests_deeper(arguments):
            return f"{name} {arguments}"
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return f"{name} {arguments}"
    return " ".join([name, *strings_of(arguments)])


def tool_text(item: ToolCalled | ToolRan) -> str:
    """Return what a call of a tool of this server says, or what the tool gave."""
    if isinstance(item, ToolCalled):
        return call_text(item.name, item.arguments)
    return " ".join([call_text(item.name, item.arguments), item.output, item.error or ""])


def strings_of(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, keys too."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from strings_of(each)
        case dict():
            for key, each in value.items():
                yield key
                yield from strings_of(each)
        case _:
            pass


class ChoiceGuard:
    """Decides which part of a choice may be shown.

    Text that may become a match of the rules waits until it cannot. A call waits until it is
    complete. With a classifier, and if text is held, all else waits for the verdict.
    """

    def __init__(self, rules: Scanner | None, *, window: int | None, holds: bool) -> None:
        """
        Args:
            rules: None without rules.
            window: the characters that the classifier judges at a time; None without one.
            holds: text waits for the classifier.
        """
        self._watch = None if rules is None else _Watch(rules)
        self._has_match = False
        self._redactor: ChoiceRedactor | None = None
        if self._watch is not None:
            self._redactor = ChoiceRedactor(Redaction(self._watch, ""))
        self._window = window
        self._holds = holds
        self._waiting: list[Event] = []
        #: The place in ``_waiting`` of a call that is not complete.
        self._open_call: int | None = None
        #: By kind of text: the end of what was judged, and what was not.
        self._judged = {Content: "", Reasoning: ""}
        self._unjudged: dict[type[Content | Reasoning], str] = {Content: "", Reasoning: ""}
        self._calls: list[str] = []

    @property
    def has_match(self) -> bool:
        """True once the rules have found a match; then nothing more may be shown."""
        return self._has_match or (self._watch is not None and self._watch.has_match)

    @has_match.setter
    def has_match(self, value: bool) -> None:
        self._has_match = value

    @property
    def has_classifier(self) -> bool:
        """True if a classifier judges the choice."""
        return self._window is not None

    def feed(self, events: Sequence[Event]) -> None:
        """Add events, up to the first match. Raises TimeoutError if a rule takes too long."""
        if self._redactor is None:
            self._add(events)
            return
        for event in events:
            self._add_certain(self._redactor.feed((event,)))
            if self.has_match:
                return

    def finish(self) -> None:
        """End the choice. Raises TimeoutError if a rule takes too long."""
        if self._redactor is not None:
            self._add_certain(self._redactor.finish())
        if self._open_call is not None and not self.has_match:
            self._end_call(self._open_call)

    def needs_verdict(self, *, is_end: bool) -> bool:
        """Return whether the classifier must judge `texts` now."""
        if self._window is None:
            return False
        unjudged = sum(map(len, self._unjudged.values()))
        return bool(self._calls) or unjudged >= (1 if is_end else self._window)

    def texts(self) -> list[str]:
        """Return what must be judged: text with the end of the text before it, and whole calls."""
        texts = [self._judged[kind] + text for kind, text in self._unjudged.items() if text]
        return texts + self._calls

    def pass_judged(self) -> None:
        """Note that `texts` were judged, and may be shown."""
        assert self._window is not None
        for kind, text in self._unjudged.items():
            self._judged[kind] = (self._judged[kind] + text)[-self._window :]
            self._unjudged[kind] = ""
        self._calls = []

    def take(self) -> list[Event]:
        """Return the events that may be shown now."""
        if self._window is not None and self._holds and any(self._unjudged.values()):
            return []
        stop = len(self._waiting) if self._open_call is None else self._open_call
        if self._calls:
            # Text before the first call need not wait.
            stop = next(
                place for place, event in enumerate(self._waiting) if type(event) is ToolCall
            )
        taken, self._waiting = self._waiting[:stop], self._waiting[stop:]
        if self._open_call is not None:
            self._open_call -= stop
        return taken

    def _add_certain(self, events: Sequence[Event]) -> None:
        """Add what the rules let through: of text with a match the beginning, of a call nothing."""
        if not self.has_match or all(type(event) is Content for event in events):
            self._add(events)

    def _add(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case ToolCall():
                    if self._open_call is not None:
                        self._end_call(self._open_call)
                    self._open_call = len(self._waiting)
                case CallDone():
                    if self._open_call is not None:
                        self._end_call(self._open_call)
                case Content(text) | Reasoning(text):
                    if self._window is not None:
                        self._unjudged[type(event)] += text
                case _:
                    pass
            self._waiting.append(event)

    def _end_call(self, place: int) -> None:
        self._open_call = None
        if self._window is None:
            return
        name, arguments = "", ""
        for event in self._waiting[place:]:
            match event:
                case ToolCall(name, _):
                    pass
                case Arguments(text):
                    arguments += text
                case _:
                    pass
        self._calls.append(call_text(name, arguments))


class _Watch:
    """Patterns that hold text back from the first match on."""

    def __init__(self, patterns: Scanner) -> None:
        self._patterns = patterns
        self.has_match = False

    def scan(self, text: str, place: int, *, is_end: bool = False) -> tuple[Spans, int]:
        spans, hold = self._patterns.scan(text, place, is_end=is_end)
        if not spans:
            return spans, hold
        self.has_match = True
        return (), spans[0][0]

    def spans_of(self, text: str) -> Spans:
        return self.scan(text, 0, is_end=True)[0]

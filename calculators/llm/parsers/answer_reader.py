"""`AnswerReader`: one reader for the answers of all declared families, driven by the declaration.

Reasoning is taken out first, and calls are looked for in the rest. Marks at the end of the prompt
are read before the answer: they tell whether it begins inside reasoning.

Models of Qwen3's kind sometimes call a tool and stop without ``</think>``. A call in reasoning may
also be a draft: the model goes on to think, and calls later or not at all. Only the end of the
answer shows which of the two it is. So `_OpenReasoning` holds text back from the mark of a call on,
and takes it as a call if nothing follows it.

`MessageParser` is what the readers of answers that are rows of messages have in common.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall, merged
from calculators.llm.parsers.call_reader import (
    CallForm,
    CallReader,
    GrowingText,
    Reading,
    call_form,
)
from calculators.llm.parsers.families import AnswerFamily
from calculators.llm.parsers.parser import (
    OutputParser,
    ReasoningParser,
    Tags,
    TagScanner,
    ToolParser,
)
from calculators.llm.parsers.pattern import TOKEN

# What a mark in an answer does.
_CALL: Final = 0
_THINK: Final = 1
_THOUGHT: Final = 2
_BEGIN: Final = 3
_END: Final = 4
_STOP: Final = 5
_FRAME: Final = 6
#: Characters at the end of a prompt among which marks are looked for.
_LONGEST_TAIL: Final = 512


class _AnswerForm:
    """A declaration, ready for reading.

    Attributes:
        roles: what the marks outside of reasoning do.
        inside: the marks inside of it.
        tail: matches the marks at the end of a prompt.
        heads: the marks with which calls begin.
    """

    def __init__(self, family: AnswerFamily) -> None:
        self.calls: Final = None if family.calls is None else call_form(family.calls, family.stops)
        self.heads: Final = () if self.calls is None else self.calls.heads
        self.is_bare: Final = family.calls is not None and family.calls.is_bare
        marks = family.reasoning
        begins = () if marks is None else tuple(map(str.strip, marks.begin))
        self.ends: Final = () if marks is None else marks.end
        self.stops: Final = family.stops
        answer = [tuple(map(_whole, pair)) for pair in family.answer]
        roles: dict[str, int] = {}
        for role, texts in (
            (_CALL, self.heads),
            (_THINK, begins),
            (_BEGIN, [begin for begin, _ in answer]),
            (_END, [end for _, end in answer]),
            (_THOUGHT, self.ends),
            (_STOP, family.stops),
            (_FRAME, () if self.calls is None else self.calls.frame),
        ):
            for mark in filter(None, texts):
                roles.setdefault(mark, role)
        self.roles: Final = roles
        self.outside: Final = Tags(*roles) if roles else None
        self.inside: Final = Tags(*dict.fromkeys([*self.ends, *begins])) if begins else None
        in_prompt = [each for pair in answer for each in pair]
        in_prompt += [*begins, *self.ends, *self.heads]
        longest_first = sorted(filter(None, dict.fromkeys(in_prompt)), key=len, reverse=True)
        tail = "|".join(map(re.escape, longest_first))
        self.tail: Final = re.compile(rf"(?:(?:{tail})\s*)+\Z") if tail else None


def _whole(mark: str) -> str:
    """Return a mark without white space, but with the line end that ends a word."""
    bare = mark.strip()
    return mark.strip(" ") if bare[-1:].isalnum() else bare


@lru_cache(maxsize=256)
def _form(family: AnswerFamily) -> _AnswerForm:
    return _AnswerForm(family)


class AnswerReader(OutputParser):
    """Reads one answer of a family.

    White space around the marks of reasoning, before a call and after the last one is no text. A
    mark that begins or ends nothing is text, except where it is the token of a vocabulary.
    """

    def __init__(
        self,
        family: AnswerFamily,
        tools: Mapping[str, Mapping[str, Any]] | None = None,
        prompt: str = "",
        *,
        keeps_space: bool = False,
    ) -> None:
        """Make the reader of an answer.

        Args:
            tools: the JSON schema of the parameters by the tool's name; None: calls are text.
            prompt: the text before the answer.
            keeps_space: white space after the reasoning belongs to the answer.
        """
        form = self._form = _form(family)
        self._events: list[OutputEvent] = []
        self._text = GrowingText()
        self._calls: CallReader | None = None
        self._open: _OpenReasoning | None = None
        if form.calls is not None and tools is not None:
            self._calls = CallReader(form.calls, self._text, self._events, tools, self._on_call)
            if tools and form.calls.heads and form.inside is not None:
                self._open = _OpenReasoning(family, form.calls, tools)
        self.is_open = False
        self._has_thought = False
        self._is_bound = False
        self._keeps_space = keeps_space
        #: Nothing of the answer has been said; then white space, until other text follows.
        self._is_start = True
        self._is_trimmed = False
        self._follows_call = False
        self._before_calls: list[str] = []
        self._blank: list[str] = []
        self._thought_blank: list[str] = []
        self._is_thought_start = True
        self._is_over = False
        self._is_led = False
        self._reading = self._answer()
        self._advance()
        tail = form.tail and form.tail.search(prompt[-_LONGEST_TAIL:])
        if tail:
            #: The prompt ends in the mark of a call, or of what the answer may be instead.
            self._is_led = tail[0].rstrip().endswith(form.heads)
            self.feed(tail[0])
            self._events.clear()
            self._blank.clear()
            self._thought_blank.clear()
            self._is_start = True
            if not self._is_led:
                self._text.place = len(self._text.text)

    def feed(self, text: str) -> list[OutputEvent]:
        form, scanner = self._form, self._text
        if not self._is_bound and scanner.place == len(scanner.text):
            # Nothing is held back. Nearly all text has not even the first letter of a mark.
            tags = form.inside if self.is_open else form.outside
            is_plain = not self._is_fresh and not text[-1:].isspace()
            if is_plain and (tags is None or tags.first.search(text) is None) and text:
                if not self.is_open:
                    return [Content(text)]
                if self._open is None or self._open.passes(text):
                    return [Reasoning(text)]
        scanner.feed(text)
        self._advance()
        return self._taken()

    @property
    def is_thinking(self) -> bool:
        """True if the text so far certainly ends within reasoning."""
        return self.is_open and self._text.is_empty

    @property
    def _is_fresh(self) -> bool:
        """True if white space has been held back, or would be left out."""
        if self.is_open:
            return self._is_thought_start or bool(self._thought_blank)
        waits = self._is_start or self._is_trimmed or self._follows_call
        return waits or bool(self._blank or self._before_calls)

    def finish(self) -> list[OutputEvent]:
        self._text.finish()
        self._advance()
        if self._blank and not self._follows_call:
            self._events.append(Content("".join(self._blank)))
        if self._thought_blank:
            self._events.append(Reasoning("".join(self._thought_blank)))
        return self._taken()

    def _taken(self) -> list[OutputEvent]:
        if not self._events:
            return []
        events = merged(self._events)
        if events is self._events:
            events = [*events]
        self._events.clear()
        return events

    def _advance(self) -> None:
        if not self._is_over:
            self._is_over = next(self._reading, self) is self

    # Text -----------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        """Make content of text. White space waits for a word: before a last call it is none."""
        if self._is_trimmed:
            text = text.lstrip()
        if not text:
            return
        said = text.rstrip()
        if said:
            self._events.append(Content("".join((*self._before_calls, *self._blank, said))))
            self._before_calls.clear()
            self._blank.clear()
        if len(text) > len(said):
            self._blank.append(text[len(said) :])
        if said:
            self._is_start = self._is_trimmed = self._follows_call = False

    def _think(self, text: str) -> None:
        """Make reasoning of text, but not of white space at either end."""
        if self._is_thought_start:
            text = text.lstrip()
        if not text:
            return
        self._is_thought_start = False
        said = text.rstrip()
        if said:
            self._events.append(Reasoning("".join((*self._thought_blank, said))))
            self._thought_blank.clear()
        if len(text) > len(said):
            self._thought_blank.append(text[len(said) :])

    def _on_call(self) -> None:
        # White space between calls is no text; on either side of them it is, between words.
        if not self._follows_call:
            self._before_calls += self._blank
        self._blank.clear()
        self._is_start = self._is_trimmed = False
        self._follows_call = True

    # Reading --------------------------------------------------------------------------------------

    def _answer(self) -> Reading[None]:
        text, form = self._text, self._form
        while True:
            if self.is_open:
                yield from self._thoughts()
            if self._is_start and form.is_bare and self._calls is not None:
                yield from self._bare()
            if form.outside is None:
                self._say(text.text[text.place :])
                text.place = len(text.text)
                tag = None
            else:
                said, tag = text.take(form.outside)
                if not self._is_cut_mark(said, tag):
                    self._say(said)
            if tag is None:
                if not text.more:
                    return
                yield
            else:
                yield from self._mark(tag)

    def _is_cut_mark(self, text: str, tag: str | None) -> bool:
        """Return True for the beginning of a mark with which the text ends, after a call."""
        if tag is not None or self._text.more or not self._follows_call:
            return False
        begun = text.strip()
        return bool(begun) and any(each.startswith(begun) for each in self._form.roles)

    def _bare(self) -> Reading[None]:
        """Read calls that begin the answer without a mark."""
        text = self._text
        blank = text.text[text.place :]
        blank = blank[: len(blank) - len(blank.lstrip())]
        self._say(blank)
        text.place += len(blank)
        rest = text.text[text.place :]
        # A mark decides itself, also one that is not complete.
        is_mark = any(
            rest.startswith(each) or (text.more and each.startswith(rest))
            for each in self._form.roles
        )
        if not rest or is_mark or rest[0] not in "[{" or self._calls is None:
            return
        self._is_bound = True
        if not (yield from self._calls.read_bare()):
            self._say(text.text[text.place])
            text.place += 1
        self._is_bound = False

    def _mark(self, tag: str) -> Reading[None]:
        """Go on at a mark outside of reasoning."""
        text, role = self._text, self._form.roles[tag]
        is_led, self._is_led = self._is_led, False
        if role == _CALL and self._calls is not None and not self._calls.is_over:
            text.put_back(tag)
            self._is_bound = True
            text.is_exhausted = False
            found = yield from self._calls.read()
            self._is_bound = False
            if found:
                return
            if self._follows_call and text.is_exhausted:
                # One more call, which was cut before it was certain.
                text.place = len(text.text)
                return
            text.place += len(tag)
            role = self._without_call(tag)
        if role == _CALL and is_led:
            self._is_trimmed = True
            return
        if role == _THINK and (self._is_start or tag[0] in "<["):
            self.is_open = self._has_thought = True
            self._is_thought_start = True
        elif role == _THOUGHT and self._has_thought:
            self._is_trimmed = not self._keeps_space
        elif role in (_BEGIN, _END):
            yield from self._answer_mark(tag, role)
        else:
            is_late = self._calls is not None and self._calls.is_missing(tag)
            if role == _FRAME and self._follows_call:
                # The end of a section whose begin was left out.
                self._blank.clear()
            elif not (is_late or role == _STOP or (role != _CALL and TOKEN.match(tag))):
                self._say(tag)

    def _without_call(self, tag: str) -> int:
        """Return what a mark does that begins no call."""
        form = self._form
        if tag in form.ends:
            return _THOUGHT
        return _STOP if tag in form.stops else _CALL

    def _answer_mark(self, tag: str, role: int) -> Reading[None]:
        """Leave out a mark around the answer: any token, other text at the begin and end only."""
        if TOKEN.match(tag):
            self._is_trimmed = self._is_trimmed or (role == _BEGIN and self._is_start)
            return
        if role == _BEGIN:
            if self._is_start or self._follows_call:
                self._is_trimmed = True
            else:
                self._say(tag)
            return
        text = self._text
        self._is_bound = True
        is_end = not (yield from text.blanks_ahead())
        for mark in self._form.calls.heads if self._form.calls is not None and not is_end else ():
            is_end = is_end or (yield from text.begins((mark,)))
        self._is_bound = False
        if not is_end:
            self._say(tag)

    def _thoughts(self) -> Reading[None]:
        """Read reasoning up to its end."""
        text, form = self._text, self._form
        assert form.inside is not None, "else nothing opens it"
        while True:
            piece, tag = text.take(form.inside)
            passed = piece if self._open is None else self._open.feed(piece)
            self._think(passed)
            if tag is None:
                if text.more:
                    yield
                    continue
                self._end_thoughts()
                return
            if tag in form.ends:
                if self._open is not None:
                    self._think(self._open.close())
                self.is_open = False
                self._thought_blank.clear()
                self._is_trimmed = not self._keeps_space
                return

    def _end_thoughts(self) -> None:
        """End with the text within reasoning: calls at its end are read next."""
        self.is_open = False
        if self._open is None:
            return
        rest, calls = self._open.finish()
        self._think(rest)
        if calls:
            self._thought_blank.clear()
            self._text.text = calls
            self._text.place = 0


def read_answer(
    family: AnswerFamily,
    text: str,
    tools: Mapping[str, Mapping[str, Any]] | None,
    prompt: str = "",
) -> list[OutputEvent]:
    """Return the events of a whole answer; see `AnswerReader`."""
    reader = AnswerReader(family, tools, prompt)
    return merged([*reader.feed(text), *reader.finish()])


class _OpenReasoning:
    """Finds the calls at the end of reasoning, in the text of its `Reasoning` events.

    A call counts if it names a tool of the request, is complete, and only further calls and white
    space follow it up to the end.
    """

    def __init__(
        self, family: AnswerFamily, form: CallForm, tools: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._family = AnswerFamily(name=family.name, calls=family.calls, stops=family.stops)
        self._tools = tools
        self._heads = Tags(*form.heads)
        self._scanner = TagScanner()
        #: The text from the mark of a call on, and the parser that reads it.
        self._held: list[str] = []
        self._reader: AnswerReader | None = None
        self._has_call = False
        self._arguments: list[str] = []

    def passes(self, text: str) -> bool:
        """Return True if nothing is held back, and nothing of this text would be."""
        is_idle = self._reader is None and self._scanner.is_empty
        return is_idle and self._heads.first.search(text) is None

    def feed(self, text: str) -> str:
        """Return the text of reasoning that is certain to be none of a call."""
        if self.passes(text):
            return text
        self._scanner.feed(text)
        return self._advance()

    def close(self) -> str:
        """Return the rest of the reasoning, which has ended: what was held is not a call."""
        rest = "".join(self._held) + self._scanner.text[self._scanner.place :]
        self._held, self._reader, self._scanner = [], None, TagScanner()
        return rest

    def finish(self) -> tuple[str, str]:
        """Return the rest of the reasoning, and the text of calls, at the end of the answer."""
        self._scanner.finish()
        rest = self._advance()
        reader = self._reader
        is_call = reader is not None and self._take(reader.finish()) and self._ends_call()
        if is_call and self._has_call:
            return rest, "".join(self._held)
        return rest + self.close(), ""

    def _advance(self) -> str:
        passed: list[str] = []
        while True:
            # From mark to mark, so that what is found does not depend on the pieces.
            before, head = self._scanner.take(self._heads)
            if self._reader is None:
                passed.append(before)
            elif before and not self._read(before):
                passed.append(self._release(head or ""))
                continue
            if head is None:
                return "".join(passed)
            if self._reader is None:
                self._reader = AnswerReader(self._family, self._tools)
                self._has_call = False
                self._arguments = []
            if not self._read(head):
                passed.append(self._release(""))

    def _read(self, text: str) -> bool:
        """Return False if the text that is held back is not a call."""
        self._held.append(text)
        return self._reader is not None and self._take(self._reader.feed(text))

    def _take(self, events: list[OutputEvent]) -> bool:
        for event in events:
            match event:
                case ToolCall(name):
                    if name not in self._tools or not self._ends_call():
                        return False
                    self._has_call = True
                case Arguments(text):
                    self._arguments.append(text)
                case Content(text) if not text.strip():
                    pass
                case _:
                    return False
        return True

    def _ends_call(self) -> bool:
        """Return True if the call before, if there is one, is complete."""
        text = "".join(self._arguments)
        self._arguments = []
        if not self._has_call:
            return True
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False

    def _release(self, head: str) -> str:
        """Return what was held up to its last mark, from which on reading begins again.

        ``head``: a mark that was taken after what was held.
        """
        held = "".join(self._held)
        self._held, self._reader = [], None
        last = max(held.rfind(each) for each in self._heads.values)
        if last <= 0:
            first = self._heads.find(held, 0, more=False)[1] or ""
            last = len(first)
        self._scanner.text = held[last:] + head + self._scanner.text[self._scanner.place :]
        self._scanner.place = 0
        return held[:last]


class MessageParser(ToolParser, ReasoningParser):
    """Reads an answer that is a row of messages to several recipients.

    One reading finds the calls and the reasoning. A parser that is used for one of the two makes
    content of the other.
    """

    def __init__(
        self,
        tools: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        is_open: bool = False,
        takes_reasoning: bool = False,
    ) -> None:
        """``tools``: None: calls are content."""
        ToolParser.__init__(self, tools)
        ReasoningParser.__init__(self, is_open=is_open)
        self._takes_calls: Final = tools is not None
        self._takes_reasoning: Final = takes_reasoning
        self._scanner: Final = TagScanner()
        self._events: list[OutputEvent] = []
        #: Reads a part of the text; False: more text is needed.
        self._state: Callable[[], bool] = self._begun(tools)

    @abstractmethod
    def _begun(self, tools: Mapping[str, Mapping[str, Any]] | None) -> Callable[[], bool]:
        """Make what the reading needs, and return its first state."""

    def _read(self) -> list[OutputEvent]:
        while self._state():
            pass
        events, self._events = self._events, []
        return merged(events)

    @property
    def is_thinking(self) -> bool:
        """True if the text so far certainly ends within reasoning."""
        return self.is_open and self._scanner.is_empty


class MessageJoiner:
    """Joins the texts of messages with a separator. Messages without text do not count."""

    __slots__ = ("_has_text", "_is_new", "_separator")

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._has_text = False
        self._is_new = False

    def begin(self) -> None:
        """Begin another message."""
        self._is_new = self._has_text

    def add(self, text: str) -> str:
        """Return more text of the message, not empty, after the separator if one is due."""
        self._has_text = True
        if self._is_new:
            self._is_new = False
            return self._separator + text
        return text

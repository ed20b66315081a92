"""`JsonToolParser`: the base of parsers of calls that are JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, ClassVar

from calculators.language.events import Arguments, OutputEvent
from calculators.llm.parsers.assistant_text import AssistantText
from calculators.llm.parsers.call_reader import CallReader, CallState
from calculators.llm.parsers.json_scanner import BLANKS, skip_blanks
from calculators.llm.parsers.parser import ToolParser
from calculators.llm.parsers.tag_scanner import Tags, TagScanner

#: The beginning of an object that is a call without a tag.
_BARE_KEYS = frozenset(("name", "arguments", "parameters", "type", "id"))


class JsonToolParser(ToolParser):
    """Reads calls that are JSON objects, in the frame that subclasses set.

    ``start`` begins calls: one object, or with ``opening`` an array of objects; further objects may
    follow a ``separator``. Text outside of calls is content, unchanged, except for white space
    between calls and after the last one. If a call breaks after it was announced, the rest of its
    text, up to a tag or the end and without its closing brackets, becomes arguments.

    Attributes:
        start: the tag before the first call.
        end: the tag after a call, which may be missing; "" if the form has none.
        opening: the text between ``start`` and the first brace; "" or "[".
        separator: the text between calls without a ``start`` of their own; "" if there are none.
        bare: an output that begins with it begins with calls, even without ``start``.
        begins_with_calls: ``start`` counts only in an output that begins with it or with a call.
        argument_keys: the names of the member with the arguments.
        dropped: tokens that are left out of the content.
    """

    start: ClassVar[str]
    end: ClassVar[str] = ""
    opening: ClassVar[str] = ""
    separator: ClassVar[str] = ""
    bare: ClassVar[str] = ""
    begins_with_calls: ClassVar[bool] = False
    argument_keys: ClassVar[Set[str]] = frozenset(("arguments",))
    dropped: ClassVar[tuple[str, ...]] = ()
    _tags: ClassVar[Tags]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._tags = Tags(cls.start, *((cls.end,) if cls.end else ()), *cls.dropped)

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._scanner = TagScanner()
        self._events: list[OutputEvent] = []
        # A step returns False when it needs more text.
        self._step: Callable[[], bool] = self._read_beginning if self.bare else self._read_text
        self._wanted = ""
        self._is_bare = False
        self._is_in_block = False
        self._start_counts = not self.begins_with_calls
        self._call = CallReader(self.argument_keys)
        # Text that becomes content if no call follows.
        self._raw: list[str] = []
        self._spoken = AssistantText()

    def feed(self, text: str) -> list[OutputEvent]:
        self._scanner.feed(text)
        return self._run()

    def finish(self) -> list[OutputEvent]:
        self._scanner.finish()
        events = self._run()
        if self._step == self._read_rest:
            self._end_rest()
        elif not (self._step == self._read_call and self._call.is_announced):
            self._give_up()
        return events + self._run()

    def _run(self) -> list[OutputEvent]:
        while not self._scanner.is_empty and self._step():
            pass
        events, self._events = self._events, []
        return events

    # Text -----------------------------------------------------------------------------------------

    def _read_beginning(self) -> bool:
        """Read white space, then maybe ``start`` or ``bare``."""
        scanner = self._scanner
        self._take(skip_blanks(scanner.text, scanner.place))
        if scanner.is_empty:
            return False
        text, place = scanner.text, scanner.place
        if text.startswith(self.start, place):
            self._take(place + len(self.start))
            self._start_counts = True
            self._expect(self.opening + "{")
        elif scanner.more and self.start.startswith(text[place:]):
            return False
        elif text.startswith(self.bare, place):
            self._is_bare = True
            self._expect(self.opening + "{")
        else:
            self._give_up()
        return True

    def _read_text(self) -> bool:
        text, tag = self._scanner.take(self._tags)
        self._say(text)
        return tag is not None and self._follow(tag)

    def _follow(self, tag: str) -> bool:
        """Go on after a tag outside of a call."""
        if tag == self.start and self._start_counts:
            self._is_in_block = True
            self._raw.append(tag)
            self._expect(self.opening + "{")
        else:
            if tag == self.end and not self._is_in_block:
                self._say(tag)
            self._is_in_block = False
            self._step = self._read_text
        return True

    def _say(self, text: str) -> None:
        self._spoken.say(text, self._events)

    # Around calls ---------------------------------------------------------------------------------

    def _take(self, end: int) -> None:
        """Take the text up to ``end`` as raw."""
        scanner = self._scanner
        if end > scanner.place:
            self._raw.append(scanner.text[scanner.place : end])
            scanner.place = end

    def _give_up(self) -> None:
        """Turn the raw text into content: it is not a call."""
        raw = "".join(self._raw)
        self._raw = []
        if self._step == self._read_call:
            raw += "".join(self._call.raw)
        self._is_bare = self._is_in_block = False
        self._step = self._read_text
        self._say(raw)

    def _expect(self, wanted: str) -> None:
        """Read the brackets ``wanted``, maybe with white space between them."""
        self._wanted = wanted
        self._step = self._read_brackets

    def _read_brackets(self) -> bool:
        scanner = self._scanner
        self._take(skip_blanks(scanner.text, scanner.place))
        if scanner.is_empty:
            return False
        if scanner.text[scanner.place] != self._wanted[0]:
            self._give_up()
        elif len(self._wanted) > 1:
            self._take(scanner.place + 1)
            self._wanted = self._wanted[1:]
        else:
            self._call = CallReader(self.argument_keys, _BARE_KEYS if self._is_bare else None)
            self._step = self._read_call
        return True

    def _read_separator(self) -> bool:
        """Read after a call or another object, where more may follow."""
        scanner = self._scanner
        self._take(skip_blanks(scanner.text, scanner.place))
        if scanner.is_empty:
            return False
        character = scanner.text[scanner.place]
        if character == self.separator:
            self._take(scanner.place + 1)
            self._expect("{")
        else:
            if character == "]" and self.opening == "[":
                # The bracket of an array is not content if its last item was a call.
                if self._spoken.is_behind_call:
                    scanner.place += 1
                else:
                    self._take(scanner.place + 1)
            self._give_up()
        return True

    # Calls ----------------------------------------------------------------------------------------

    def _read_call(self) -> bool:
        call, scanner = self._call, self._scanner
        was_announced = call.is_announced
        scanner.place = call.read(scanner.text, scanner.place, self._events)
        if call.is_announced and not was_announced:
            self._raw = []
            self._is_bare = False
            self._start_counts = True
            self._spoken.call()
        if call.state is CallState.READING:
            return False
        if not call.is_announced:
            is_object = call.state is CallState.DONE
            self._give_up()
            if is_object and self.separator:
                self._step = self._read_separator
        elif call.is_complete:
            self._step = self._read_separator if self.separator else self._read_text
            rest = "".join(call.raw)
            if call.state is CallState.BROKEN and rest.strip(BLANKS):
                self._say(rest)
        else:
            self._step = self._read_rest
        return True

    def _read_rest(self) -> bool:
        """Pass on the rest of a broken call as arguments, without the brackets at the end."""
        text, tag = self._scanner.take(self._tags)
        if text.strip(BLANKS + "}]"):
            self._events.append(Arguments("".join((*self._raw, text.rstrip(BLANKS + "}]")))))
            text = text[len(text.rstrip(BLANKS + "}]")) :]
            self._raw = []
        self._raw.append(text)
        if tag is None:
            return False
        self._end_rest()
        return self._follow(tag)

    def _end_rest(self) -> None:
        brackets = "".join(self._raw).rstrip(BLANKS)
        self._raw = []
        if self.opening == "[":
            brackets = brackets.removesuffix("]").rstrip(BLANKS)
        brackets = brackets.removesuffix("}").rstrip(BLANKS)
        if brackets:
            self._events.append(Arguments(brackets))
        self._step = self._read_text

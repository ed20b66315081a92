"""Calls that are JSON objects: Hermes and Qwen3, Llama 3, Phi-4.

Forms differ in the frame around the objects, which subclasses of `JsonToolParser` declare. Inside
of an object `CallReader` looks for the name and passes on the arguments as they grow, compactly. An
object becomes a call when its name is known and its arguments begin; until then its text is kept,
to be content if it is something else. `AssistantText` is the text around calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from enum import Enum, auto
from typing import Any, ClassVar, Final

from calculators.language.events import Arguments, Content, OutputEvent, ToolCall
from calculators.llm.parsers.json_scanner import BLANKS, JsonScanner, skip_blanks
from calculators.llm.parsers.parser import CallForm, Tags, TagScanner, ToolParser


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
        elif character == "{" and self._spoken.follows_call:
            self._expect("{")  # some models leave the separator out
        else:
            if character == "]" and self.opening == "[":
                # The bracket of an array is not content if its last item was a call.
                if self._spoken.follows_call:
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


class Hermes3ToolParser(JsonToolParser):
    """Reads calls between tags. The end tag may be missing."""

    start = "<tool_call>"
    end = "</tool_call>"
    heads = ("<tool_call>",)
    special_tokens = frozenset((start, end))
    call_form = CallForm(
        trigger=start,
        begin='<tool_call>\n{"name": "NAME", "arguments": ',
        end="}\n</tool_call>",
    )


class Llama3ToolParser(JsonToolParser):
    """Reads calls after a tag, which may be missing before a call at the start of the output."""

    start = "<|python_tag|>"
    separator = ";"
    bare = "{"
    argument_keys = frozenset(("parameters", "arguments"))
    special_tokens = frozenset((start,))
    call_form = CallForm(
        trigger='{"name":', begin='{"name": "NAME", "parameters": ', end="}", separator="; "
    )


class Phi4ToolParser(JsonToolParser):
    """Reads a list of calls. The bracket at its end may be missing."""

    start = "functools"
    opening = "["
    separator = ","
    call_form = CallForm(
        trigger=start,
        opening="functools[",
        begin='{"name": "NAME", "arguments": ',
        end="}",
        separator=", ",
        closing="]",
    )


#: The beginning of an object that is a call without a tag.
_BARE_KEYS = frozenset(("name", "arguments", "parameters", "type", "id"))


class AssistantText:
    """Makes `Content` of text, but not of white space between calls or after the last one."""

    __slots__ = ("_blanks", "follows_call")

    def __init__(self) -> None:
        #: True if no text has come since the last call.
        self.follows_call = False
        self._blanks: list[str] = []

    def say(self, text: str, events: list[OutputEvent]) -> None:
        """Append ``text`` to ``events``; white space after a call waits for other text."""
        if self.follows_call and text:
            self._blanks.append(text)
            if not text.strip(BLANKS):
                return
            text = "".join(self._blanks)
            self.follows_call = False
            self._blanks = []
        if text:
            events.append(Content(text))

    def call(self) -> None:
        """Note that a call was announced."""
        self.follows_call = True
        self._blanks = []


class CallState(Enum):
    """The progress of reading a call."""

    READING = auto()
    #: The object is closed.
    DONE = auto()
    #: The text at the place where `CallReader.read` stopped is not part of a call.
    BROKEN = auto()


class _CallPart(Enum):
    BRACE = auto()
    FIRST_KEY = auto()
    KEY = auto()
    IN_KEY = auto()
    COLON = auto()
    VALUE = auto()
    IN_VALUE = auto()
    NEXT = auto()


class _Role(Enum):
    """The role of a member of the object."""

    NAME = auto()
    ARGUMENTS = auto()
    ARGUMENTS_TEXT = auto()
    OTHER = auto()


class CallReader:
    """Reads one object from its brace on: ``{"name": NAME, "arguments": {...}}``.

    The members may come in any order; other members and repeated ones are skipped. The call is
    announced as soon as its name is known and its arguments have begun; from then on the arguments
    are passed on compactly. Arguments may also be a string that holds an object; they are passed on
    when the string is complete.

    Attributes:
        state: the progress of reading.
        is_announced: the `ToolCall` was returned.
        is_complete: the arguments are complete, whatever else follows in the object.
        raw: the text that is not in events: everything before the call is announced, then the text
            after the arguments.
    """

    __slots__ = (
        "_argument_keys",
        "_first_keys",
        "_held",
        "_key",
        "_name",
        "_out",
        "_part",
        "_role",
        "_scanner",
        "is_announced",
        "is_complete",
        "raw",
        "state",
    )

    def __init__(self, argument_keys: Set[str], first_keys: Set[str] | None = None) -> None:
        """``argument_keys``: the names that the member with the arguments may have.

        ``first_keys``: an object that begins with another member is not a call; None allows any.
        """
        self.state = CallState.READING
        self.is_announced = False
        self.is_complete = False
        self.raw: list[str] = []
        self._argument_keys = argument_keys
        self._first_keys = first_keys
        self._part = _CallPart.BRACE
        self._role = _Role.OTHER
        self._scanner = JsonScanner()
        self._out: list[str] = []
        self._key = ""
        self._name = ""
        self._held: list[str] | None = None

    def read(self, text: str, place: int, events: list[OutputEvent]) -> int:
        """Read ``text`` from ``place`` on, append to ``events``, return the place of the stop."""
        size = len(text)
        while place < size and self.state is CallState.READING:
            begin, was_complete = place, self.is_announced and self.is_complete
            if self._part is _CallPart.IN_VALUE:
                place = self._read_value(text, place, events)
            elif self._part is _CallPart.IN_KEY:
                place = self._read_key(text, place)
            else:
                place = skip_blanks(text, place)
                if place < size:
                    place = self._read_structure(text, place, events)
            if was_complete or not self.is_announced:
                self.raw.append(text[begin:place])
        return place

    def _read_structure(self, text: str, place: int, events: list[OutputEvent]) -> int:
        character, part = text[place], self._part
        if part is _CallPart.BRACE and character == "{":
            self._part = _CallPart.FIRST_KEY
        elif part is _CallPart.COLON and character == ":":
            self._part = _CallPart.VALUE
        elif part is _CallPart.NEXT and character == ",":
            self._part = _CallPart.KEY
            self._first_keys = None
        elif (part is _CallPart.NEXT or part is _CallPart.FIRST_KEY) and character == "}":
            self.state = CallState.DONE
        elif (part is _CallPart.KEY or part is _CallPart.FIRST_KEY) and character == '"':
            self._begin(_CallPart.IN_KEY)
            return place
        elif part is _CallPart.VALUE:
            self._begin_value(character, events)
            return place
        else:
            self.state = CallState.BROKEN
            return place
        return place + 1

    def _begin(self, part: _CallPart) -> None:
        self._part = part
        self._scanner = JsonScanner()
        self._out = []

    def _read_key(self, text: str, place: int) -> int:
        place = self._scanner.read(text, place, self._out)
        if self._scanner.is_done:
            self._key = json.loads("".join(self._out))
            self._part = _CallPart.COLON
            if self._first_keys is not None and self._key not in self._first_keys:
                self.state = CallState.BROKEN
        elif self._scanner.is_broken:
            self.state = CallState.BROKEN
        return place

    def _begin_value(self, character: str, events: list[OutputEvent]) -> None:
        self._begin(_CallPart.IN_VALUE)
        self._role = _Role.OTHER
        if self._key == "name" and not self._name:
            self._role = _Role.NAME
            if character != '"':
                self.state = CallState.BROKEN
        elif self._key in self._argument_keys and self._held is None:
            self._held = []
            if character == "{":
                self._role = _Role.ARGUMENTS
                self._announce(events)
            elif character == '"':
                self._role = _Role.ARGUMENTS_TEXT
            else:
                self.state = CallState.BROKEN

    def _read_value(self, text: str, place: int, events: list[OutputEvent]) -> int:
        out: list[str] = []
        place = self._scanner.read(text, place, out)
        if self._role is _Role.ARGUMENTS:
            self._pass_on(out, events)
        elif self._role is not _Role.OTHER:
            self._out += out
        if self._scanner.is_done:
            self._part = _CallPart.NEXT
            self._end_value(events)
        elif self._scanner.is_broken:
            self.state = CallState.BROKEN
        return place

    def _end_value(self, events: list[OutputEvent]) -> None:
        if self._role is _Role.NAME:
            name: str = json.loads("".join(self._out))
            # Half a surrogate pair, as an escape may write it, cannot be sent in UTF-8.
            if not name or _SURROGATE.search(name):
                self.state = CallState.BROKEN
                return
            self._name = name
            self._announce(events)
        elif self._role is _Role.ARGUMENTS:
            self.is_complete = True
        elif self._role is _Role.ARGUMENTS_TEXT:
            compact = _compact_object(json.loads("".join(self._out)))
            if compact is None:
                self.state = CallState.BROKEN
                return
            self.is_complete = True
            self._pass_on([compact], events)
            self._announce(events)

    def _pass_on(self, arguments: list[str], events: list[OutputEvent]) -> None:
        if self.is_announced:
            events += [Arguments("".join(arguments))] if arguments else []
        elif self._held is not None:
            self._held += arguments

    def _announce(self, events: list[OutputEvent]) -> None:
        """Announce the call if name and arguments are there, with the arguments that waited."""
        waits_for_text = self._role is _Role.ARGUMENTS_TEXT and not self.is_complete
        if not self._name or self._held is None or waits_for_text:
            return
        self.is_announced = True
        self.raw.clear()
        events.append(ToolCall(self._name))
        held, self._held = self._held, []
        self._pass_on(held, events)


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _compact_object(text: str) -> str | None:
    """Return the object in ``text`` without white space; None if ``text`` is not one object."""
    scanner, out = JsonScanner(), list[str]()
    begin = skip_blanks(text, 0)
    if not text.startswith("{", begin):
        return None
    end = scanner.read(text, begin, out)
    if not scanner.is_done or skip_blanks(text, end) != len(text) or _SURROGATE.search(text):
        return None
    return "".join(out)

"""Calls as Mistral models write them, in all of their forms after ``[TOOL_CALLS]``; Devstral.

A list of calls, a single object, or a name with arguments: what follows the tag tells the form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from calculators.language.events import Arguments, OutputEvent, ToolCall
from calculators.llm.parsers.json_calls import JsonToolParser
from calculators.llm.parsers.json_scanner import JsonScanner, skip_blanks
from calculators.llm.parsers.parser import CallForm, Tags, beginnings

CALL: Final = "[TOOL_CALLS]"
ARGUMENTS: Final = "[ARGS]"
CALL_ID: Final = "[CALL_ID]"
_LONGEST_NAME: Final = 256
_NAME: Final = rf"\s*(?P<name>[\w.\-/]{{1,{_LONGEST_NAME}}}+)\s*"
_ID: Final = rf"{re.escape(CALL_ID)}\s*(?P<id>[\w\-]{{1,{_LONGEST_NAME}}}+)\s*"
#: The text between the tag and the arguments, which begin after `ARGUMENTS` or with a brace.
_HEAD: Final = re.compile(rf"{_NAME}(?:{_ID})?(?:{re.escape(ARGUMENTS)}|(?=\{{))")
_HEAD_SO_FAR: Final = re.compile(
    rf"{_NAME}(?:{_ID}{beginnings(ARGUMENTS)}|{beginnings(ARGUMENTS)}"
    rf"|{beginnings(CALL_ID)}|{re.escape(CALL_ID)}\s*[\w\-]{{0,{_LONGEST_NAME}}}+)"
)
_EMPTY: Final = re.compile(r"\[\s{0,20}\]")
_EMPTY_SO_FAR: Final = re.compile(r"\[\s{0,20}")
#: Tags that begin no list after the first one.
_TAGS: Final = (CALL, ARGUMENTS, CALL_ID)
_ENDS: Final = Tags(CALL, "</s>")


class MistralToolParser(JsonToolParser):
    """Reads lists of calls, single objects, and names with arguments, also after text.

    ``[TOOL_CALLS] [{"name", "arguments"}, ...]``, ``[TOOL_CALLS]{...}``, ``[TOOL_CALLS]NAME{...}``,
    ``[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}``. An output that begins with a list of calls needs no
    tag. Arguments after a name are passed on unchanged; missing ones become ``{}``.

    Attributes:
        keeps_tag: a tag that begins no call stays in the content.
    """

    keeps_tag: ClassVar[bool] = True

    start = CALL
    opening = "["
    separator = ","
    bare = "["
    dropped = ("</s>", ARGUMENTS, CALL_ID)
    special_tokens = frozenset((CALL, ARGUMENTS, CALL_ID))
    heads = (CALL,)
    call_form = CallForm(
        trigger=CALL,
        opening="[TOOL_CALLS][",
        begin='{"name": "NAME", "arguments": ',
        end="}",
        separator=", ",
        closing="]",
    )

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._arguments = JsonScanner()
        self._has_arguments = False

    def _follow(self, tag: str) -> bool:
        if tag != self.start:
            return super()._follow(tag)
        if self.keeps_tag:
            self._raw.append(tag)
        self._step = self._read_form
        return True

    def _read_beginning(self) -> bool:
        scanner = self._scanner
        place = skip_blanks(scanner.text, scanner.place)
        if scanner.text.startswith(self.start, place):
            scanner.place = place + len(self.start)
            return self._follow(self.start)
        return super()._read_beginning()

    def _read_form(self) -> bool:
        """Read after the tag, up to what tells the form."""
        scanner = self._scanner
        place = skip_blanks(scanner.text, scanner.place)
        rest = scanner.text[place : place + len(self.start)]
        if rest.startswith("["):
            is_open = _EMPTY_SO_FAR.fullmatch(scanner.text, place) is not None
            if scanner.more and (is_open or any(tag.startswith(rest) for tag in _TAGS)):
                return False
            if empty := _EMPTY.match(scanner.text, place):
                # No call, and nothing to be read.
                scanner.place, self._raw, self._step = empty.end(), [], self._read_text
            elif rest.startswith(_TAGS):
                self._give_up()
            else:
                self._expect("[{")
            return True
        if rest.startswith("{"):
            self._expect("{")
            return True
        return bool(rest) and self._read_head()

    def _read_head(self) -> bool:
        scanner = self._scanner
        head = _HEAD.match(scanner.text, scanner.place)
        if head is not None:
            scanner.place = head.end()
            self._start_call(head["name"], head["id"] or "")
        elif scanner.more and _HEAD_SO_FAR.fullmatch(scanner.text, scanner.place):
            return False
        else:
            self._give_up()
        return True

    def _start_call(self, name: str, call_id: str) -> None:
        self._events.append(ToolCall(name, call_id))
        self._spoken.call()
        self._raw = []
        self._arguments = JsonScanner()
        self._has_arguments = False
        self._step = self._read_arguments

    def _read_arguments(self) -> bool:
        """Read the arguments after a name, a JSON object."""
        scanner = self._scanner
        if not self._has_arguments:
            scanner.place = skip_blanks(scanner.text, scanner.place)
            if scanner.is_empty:
                return False
            if scanner.text[scanner.place] != "{":
                return self._read_loose_arguments()
            self._has_arguments = True
        begin = scanner.place
        scanner.place = self._arguments.read(scanner.text, begin, [])
        if scanner.place > begin:
            self._events.append(Arguments(scanner.text[begin : scanner.place]))
        if self._arguments.is_done:
            self._step = self._read_text
        elif self._arguments.is_broken:
            self._step = self._read_loose_arguments
        return True

    def _read_loose_arguments(self) -> bool:
        """Pass on text that is not JSON as arguments, up to the next call or the end."""
        self._step = self._read_loose_arguments
        text, tag = self._scanner.take(_ENDS)
        if text:
            self._events.append(Arguments(text))
            self._has_arguments = True
        if tag is None:
            return False
        self._end_arguments()
        return self._follow(tag)

    def _end_arguments(self) -> None:
        if not self._has_arguments:
            self._events.append(Arguments("{}"))
        self._step = self._read_text

    def finish(self) -> list[OutputEvent]:
        self._scanner.finish()
        events = self._run()
        if self._step in (self._read_arguments, self._read_loose_arguments):
            self._end_arguments()
        return events + super().finish()


class DevstralToolParser(MistralToolParser):
    """Reads what `MistralToolParser` reads, but calls need their tag.

    Tags that begin no call are left out, as they are special tokens.
    """

    bare = ""
    keeps_tag = False
    call_form = CallForm(trigger=CALL, begin="[TOOL_CALLS]NAME[ARGS]", end="", separator="")

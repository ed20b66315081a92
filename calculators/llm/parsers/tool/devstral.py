"""Calls as Devstral models write them: ``[TOOL_CALLS]NAME[ARGS]{...}</s>``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from calculators.language.events import Arguments, OutputEvent, ToolCall
from calculators.llm.parsers.assistant_text import AssistantText
from calculators.llm.parsers.json_scanner import BLANKS
from calculators.llm.parsers.parser import CallForm, ToolParser
from calculators.llm.parsers.tag_scanner import Tags, TagScanner

_CALL: Final = "[TOOL_CALLS]"
_ARGUMENTS: Final = "[ARGS]"
_END: Final = "</s>"
_LONGEST_NAME: Final = 256


class DevstralToolParser(ToolParser):
    """Reads any number of calls. Arguments are passed on unchanged; missing ones become ``{}``.

    The tags are special tokens, and are left out where they make no call. Source: OpenVINO Model
    Server ``llm/io_processing/devstral``, which reads one call.
    """

    special_tokens = frozenset((_CALL, _ARGUMENTS))
    call_form = CallForm(trigger=_CALL, begin="[TOOL_CALLS]NAME[ARGS]", end="", separator="")

    _TAGS: Final = Tags(_CALL, _ARGUMENTS, _END)
    _TAGS_IN_ARGUMENTS: Final = Tags(_CALL, _END)

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._scanner = TagScanner()
        self._spoken = AssistantText()
        self._events: list[OutputEvent] = []
        # A step returns False when it needs more text.
        self._step: Callable[[], bool] = self._read_text
        # The name, or white space before the arguments, as far as it is there.
        self._held: list[str] = []
        self._has_arguments = False

    def feed(self, text: str) -> list[OutputEvent]:
        self._scanner.feed(text)
        return self._run()

    def finish(self) -> list[OutputEvent]:
        self._scanner.finish()
        events = self._run()
        self._follow(None)
        return events + self._run()

    def _run(self) -> list[OutputEvent]:
        while not self._scanner.is_empty and self._step():
            pass
        events, self._events = self._events, []
        return events

    def _read_text(self) -> bool:
        text, tag = self._scanner.take(self._TAGS)
        self._spoken.say(text, self._events)
        return tag is not None and self._follow(tag)

    def _read_name(self) -> bool:
        text, tag = self._scanner.take(self._TAGS)
        self._held.append(text)
        name = "".join(self._held)
        if len(name) > _LONGEST_NAME:
            self._follow(None)
        elif tag == _ARGUMENTS and (name := name.strip()):
            self._held = []
            self._events.append(ToolCall(name))
            self._spoken.call()
            self._has_arguments = False
            self._step = self._read_arguments
            return True
        return tag is not None and self._follow(tag)

    def _read_arguments(self) -> bool:
        text, tag = self._scanner.take(self._TAGS_IN_ARGUMENTS)
        if not self._has_arguments:
            self._held.append(text)
            self._has_arguments = bool(text.strip(BLANKS))
            text = "".join(self._held) if self._has_arguments else ""
        if text:
            self._held = []
            self._events.append(Arguments(text))
        return tag is not None and self._follow(tag)

    def _follow(self, tag: str | None) -> bool:
        """Go on after a tag; None is the end of the name or of the output."""
        if self._step == self._read_name:
            self._spoken.say("".join(self._held), self._events)
        elif self._step == self._read_arguments and not self._has_arguments:
            self._events.append(Arguments("{}"))
        self._held = []
        self._step = self._read_name if tag == _CALL else self._read_text
        return True


PARSER = DevstralToolParser

"""Onyx: ``<atem:function_calls><atem:invoke name="NAME">...``, in messages to tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calculators.language.events import OutputEvent
from calculators.llm.parsers.onyx_messages import ONYX_TOKENS, SELF, OnyxPart, OnyxReader
from calculators.llm.parsers.parser import CallForm, ParameterForm, ToolParser
from calculators.llm.parsers.xml_call import XmlCallParser, XmlForm


class _Calls(XmlCallParser):
    """Reads the calls in the text of messages."""

    form = XmlForm(
        call_begin='<atem:invoke name="',
        call_end="</atem:invoke>",
        parameter_begin='<atem:parameter name="',
        parameter_end="</atem:parameter>",
        name_end='">',
        block_begin="<atem:function_calls>",
        block_end="</atem:function_calls>",
    )


class OnyxToolParser(ToolParser):
    """Takes messages out of their frames, unless the reasoning parser did, and reads the calls.

    The recipient does not matter: a call names its tool. Only messages of the model to itself,
    which arrive if no reasoning parser took them, are content with their frames.
    """

    special_tokens = ONYX_TOKENS | _Calls.form.tags
    call_form = CallForm(
        trigger="<atem:function_calls>",
        opening="<atem:function_calls>\n",
        begin='<atem:invoke name="NAME">\n',
        end="</atem:invoke>\n",
        separator="",
        closing="</atem:function_calls>",
        parameters=ParameterForm(
            begin='<atem:parameter name="NAME">',
            end="</atem:parameter>\n",
            text_end="</atem:parameter>\n",
        ),
    )

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._reader = OnyxReader()
        self._calls = _Calls(tools)

    def feed(self, text: str) -> list[OutputEvent]:
        return self._read_calls(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._read_calls(self._reader.finish()) + self._calls.finish()

    def _read_calls(self, parts: Sequence[OnyxPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            if part.place == "text" or part.recipient == SELF:
                events += self._calls.feed(part.text)
        return events

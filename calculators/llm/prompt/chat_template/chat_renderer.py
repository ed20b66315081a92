"""`ChatRenderer`: the prompt of a chat request, by a model's template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.registry import NO_PARSER, tool_parser
from calculators.llm.prompt.chat_template.analysis import analyze
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.continuation import cut_at_marker, with_marker
from calculators.llm.prompt.chat_template.history import prepare_history
from calculators.llm.prompt.chat_template.probe import (
    knows_tools,
    needs_whole_tools,
    shows_calls,
    shows_system_message,
    whole_tool,
)
from calculators.llm.prompt.chat_template.shown_roles import ShownRoles
from calculators.llm.prompt.chat_template.text_guard import TextGuard
from calculators.llm.prompt.chat_template.unseen import UnseenParts
from calculators.llm.prompt.chat_template.written_tools import WrittenTools

#: Reads the calls of models whose templates know no tools. Many models have seen its form.
_USUAL_PARSER: Final = "hermes3"

#: Processor time of all probes of a template. A template of many models takes a tenth.
_PROBE_SECONDS: Final = 4.0


class ChatRenderer:
    """Renders chats as OpenAI's clients send them.

    Around the template it does what templates leave to servers: it puts messages into the form
    that the template expects, refuses parts that the template would leave out, and writes tools
    into the messages where the template knows none.

    Attributes:
        analysis: the facts that the template reveals.
        tool_parser: the name of the parser that fits the template; "" where the form of calls is
            unknown.
        knows_tools: the template shows tools. Otherwise they are written into the messages.
    """

    def __init__(self, template: ChatTemplate) -> None:
        """Analyze the template."""
        self._template = template
        with template.probed(_PROBE_SECONDS):
            self._probe(template)

    def _probe(self, template: ChatTemplate) -> None:
        self._roles = ShownRoles.of(template)
        template.of_parts = self._roles.of_parts
        self._unseen = UnseenParts(template)
        self.analysis = analyze(template)
        self.knows_tools = knows_tools(template)
        self.tool_parser = self.analysis.tool_parser or ""
        self._needs_whole_tools = self.knows_tools and needs_whole_tools(template)
        self._takes_system = False
        if not self.knows_tools:
            if not self.tool_parser and not shows_calls(template):
                self.tool_parser = _USUAL_PARSER
            self._takes_system = shows_system_message(template)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        continues: bool = False,
        call_form: CallForm | None = None,
        guard: TextGuard | None = None,
    ) -> str:
        """Render a prompt.

        Args:
            messages: as `normalise_messages` returns them; images are tags.
            tools: OpenAI's tools.
            template_kwargs: further variables for the template.
            continues: the prompt ends with the last message, which the model goes on with.
            call_form: the form in which the model writes calls, for a template that knows no tools;
                None: tools and calls are left out of such a prompt.
            guard: marks the texts of the request; the prompt has the marks. None: nothing does.

        Raises:
            ChatTemplateError: the template refuses the chat, or would leave out a part of it.
        """
        self._unseen.check_documents(template_kwargs or {})
        if tools and self._needs_whole_tools:
            tools = [whole_tool(tool) for tool in tools]
        writes_tools = not self.knows_tools and call_form is not None

        def render(messages: Sequence[Mapping[str, Any]]) -> str:
            if not writes_tools or call_form is None:
                return self._template.render(messages, tools=tools, template_kwargs=template_kwargs)
            writer = WrittenTools(call_form, takes_system=self._takes_system)
            written = writer.messages(messages, tools)
            return self._template.render(written, template_kwargs=template_kwargs)

        history = prepare_history(messages, self.analysis)
        if guard is not None:
            history = guard.messages(history, continues=continues)
            tools = tools and guard.value(tools)
            if template_kwargs and "documents" in template_kwargs:
                documents = guard.value(template_kwargs["documents"])
                template_kwargs = {**template_kwargs, "documents": documents}
        self._roles.check(history, has_tools=bool(tools), writes_tools=writes_tools)
        known = self._unseen.with_known_roles(history, render, has_tools=bool(tools))
        return cut_at_marker(render(with_marker(known))) if continues else render(known)


def call_form_of(name: str) -> CallForm | None:
    """Return the form of the calls that a parser reads; None if it is unknown.

    Raises:
        UnknownParser: there is no such parser, or its package is broken.
    """
    return None if name in ("", NO_PARSER) else tool_parser(name).call_form

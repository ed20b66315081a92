"""`ChatRenderer`: the prompt of a chat request, by a model's template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.registry import NO_PARSER, UnknownParser, tool_parser
from calculators.llm.prompt.chat_template.analysis import analyze
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.continuation import cut_at_marker, with_marker
from calculators.llm.prompt.chat_template.history import prepare_history
from calculators.llm.prompt.chat_template.probe import knows_tools, shows_system_message
from calculators.llm.prompt.chat_template.unseen import UnseenParts
from calculators.llm.prompt.chat_template.written_tools import WrittenTools

#: Reads the calls of models whose templates know no tools. Many models have seen its form.
_USUAL_PARSER: Final = "hermes3"


class ChatRenderer:
    """Renders chats as OpenAI's clients send them.

    Around the template it does what templates leave to servers: it puts messages into the form
    that the template expects, refuses parts that the template would leave out, and writes tools
    into the messages where the template knows none.

    Attributes:
        analysis: the facts that the template reveals.
        tool_parser: the name of the parser for the model's calls; "" where their form is unknown.
        writes_tools: does it write tools into the messages?
    """

    def __init__(self, template: ChatTemplate, tool_parser: str = "") -> None:
        """Analyze the template. ``tool_parser``: the operator's choice; "" for none."""
        self._template = template
        self._unseen = UnseenParts(template)
        self.analysis = analyze(template)
        self.tool_parser = tool_parser or self.analysis.tool_parser or ""
        self._written: WrittenTools | None = None
        if not knows_tools(template):
            self.tool_parser = self.tool_parser or _USUAL_PARSER
            if (form := _call_form(self.tool_parser)) is not None:
                self._written = WrittenTools(form, takes_system=shows_system_message(template))

    @property
    def writes_tools(self) -> bool:
        return self._written is not None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        continues: bool = False,
    ) -> str:
        """Render a prompt.

        Args:
            messages: as `normalise_messages` returns them; images are tags.
            tools: OpenAI's tools.
            template_kwargs: further variables for the template.
            continues: the prompt ends with the last message, which the model goes on with.

        Raises:
            ChatTemplateError: the template refuses the chat, or would leave out a part of it.
        """
        self._unseen.check_documents(template_kwargs or {})

        def render(messages: Sequence[Mapping[str, Any]]) -> str:
            if self._written is None:
                return self._template.render(messages, tools=tools, template_kwargs=template_kwargs)
            written = self._written.messages(messages, tools)
            return self._template.render(written, template_kwargs=template_kwargs)

        history = prepare_history(messages, self.analysis)
        known = self._unseen.with_known_roles(history, render, has_tools=bool(tools))
        return cut_at_marker(render(with_marker(known))) if continues else render(known)


def _call_form(name: str) -> CallForm | None:
    """Return the form of the calls that a parser reads; None if it is unknown."""
    if name == NO_PARSER:
        return None
    try:
        return tool_parser(name).call_form
    except UnknownParser:
        # The model is not loaded then; the server says why.
        return None

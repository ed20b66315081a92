"""`ShownRoles`: the form in which a template shows the text of each role, found by rendering.

Most templates take the content of a message as a text. Those of some vision models walk through a
list of parts, and of a text they show nothing at all, without an error: every question gets the
same prompt. Others leave out a role whatever its form. Each role is rendered in a few short chats,
first with a text and then with a list of one part, without tools and with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.errors import ChatTemplateError
from calculators.llm.prompt.chat_template.probe import (
    CALL_ID,
    NEEDLE,
    RESULT,
    SYSTEM,
    TOOL,
    USER,
    tool_call,
)

#: The roles of a conversation. A request may have any of their messages left out, as templates do
#: with older reasoning and results, so only a template that never shows a role is refused.
TURNS: Final = ("user", "assistant", "tool")
_ANSWER: Final = {"role": "assistant", "content": "Hello"}


@dataclass(frozen=True, slots=True)
class ShownRoles:
    """The roles that need a form of their own, and those that are never shown.

    Attributes:
        of_parts: roles whose text is shown only as a list of parts.
        hidden: roles whose text is rendered to nothing in any form; with True in a chat with tools.
            A role that the template refuses is not among them: its error says more.
    """

    of_parts: frozenset[str]
    hidden: frozenset[tuple[str, bool]]

    @classmethod
    def of(cls, template: ChatTemplate) -> ShownRoles:
        """Probe a template."""
        of_parts: set[str] = set()
        hidden: set[tuple[str, bool]] = set()
        for role in ("system", *TURNS):
            for has_tools in (False, True):
                is_shown, is_rendered = _shown(template, role, has_tools, ())
                if is_shown:
                    continue
                is_shown, takes_parts = _shown(template, role, has_tools, ("system", *TURNS))
                if is_shown:
                    of_parts.add(role)
                elif is_rendered or takes_parts:
                    hidden.add((role, has_tools))
        if "user" in of_parts:
            # Nearly all of these templates take every role in one way.
            of_parts.add("developer")
        return cls(frozenset(of_parts), frozenset(hidden))

    def check(
        self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool, writes_tools: bool = False
    ) -> None:
        """Refuse a message whose text the template would leave out.

        ``writes_tools``: tools and their results are written into other messages.

        Raises:
            ChatTemplateError: ``param`` is the message's content.
        """
        if not self.hidden:
            return
        for place, message in enumerate(messages):
            role = message["role"]
            if writes_tools and role == "tool":
                continue
            if (
                role in TURNS
                and (role, has_tools and not writes_tools) in self.hidden
                and says_something(message)
            ):
                raise ChatTemplateError(
                    "the chat template of this model shows nothing of the text of a message of the"
                    f' role "{role}"{" in a chat with tools" if has_tools else ""}',
                    param=f"messages[{place}].content",
                )


def says_something(message: Mapping[str, Any]) -> bool:
    """Return True if a message has text, or parts."""
    content = message.get("content")
    return bool(content.strip() if isinstance(content, str) else content)


def _shown(
    template: ChatTemplate, role: str, has_tools: bool, of_parts: Sequence[str]
) -> tuple[bool, bool]:
    """Return whether a chat shows the text of the role, and whether one is rendered at all."""
    is_rendered = False
    for chat in _chats(role):
        try:
            prompt = template.render(
                chat, tools=[TOOL] if has_tools else None, of_parts=frozenset(of_parts)
            )
        except ChatTemplateError:
            continue
        if NEEDLE in prompt:
            return True, True
        is_rendered = True
    return False, is_rendered


def _chats(role: str) -> Iterator[list[dict[str, Any]]]:
    match role:
        case "system":
            yield [{**SYSTEM, "content": NEEDLE}, USER]
        case "user":
            yield [{**USER, "content": NEEDLE}]
            yield [SYSTEM, {**USER, "content": NEEDLE}]
        case "assistant":
            yield [USER, {**_ANSWER, "content": NEEDLE}]
            yield [USER, {**_ANSWER, "content": NEEDLE}, USER]
        case _:
            for arguments in ({"text": "Hello"}, '{"text": "Hello"}'):
                call = {"role": "assistant", "content": "", "tool_calls": [tool_call(arguments)]}
                result = {**RESULT, "tool_call_id": CALL_ID, "content": NEEDLE}
                yield [USER, call, result]
                yield [USER, call, result, _ANSWER, USER]

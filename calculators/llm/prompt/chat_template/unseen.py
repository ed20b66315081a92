"""`UnseenParts`: detects parts of a request that a template would silently leave out.

Many templates render what they know and ignore the rest: documents, and messages of a role that is
misspelt or unknown to the model. The model would answer as if these had not been sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.errors import ChatTemplateError, clean

_NEEDLE: Final = "probe_needle_xK9m"
#: Roles whose messages may be left out, as templates do with older reasoning and results.
_TURNS: Final = frozenset({"user", "assistant", "tool"})
#: Roles that are remembered as rendered; clients use a handful.
_REMEMBERED: Final = 64
_SHOWN: Final = 40
_INCLUDES: Final = re.compile(r"\{%[-+]?\s*(?:include|import|from|extends)\b")

Render = Callable[[Sequence[Mapping[str, Any]]], str]


class UnseenParts:
    """Tests one template, by rendering the request with a marker in place of a text."""

    def __init__(self, template: ChatTemplate) -> None:
        #: Roles that were rendered: at the beginning or not, with tools or without.
        self._seen: set[tuple[str, bool, bool]] = set()
        self._has_documents = _mentions(template, "documents")

    def check_documents(self, arguments: Mapping[str, Any]) -> None:
        """Refuse documents where the template does not know such a variable.

        Raises:
            ChatTemplateError: with the member as ``param``.
        """
        if arguments.get("documents") and not self._has_documents:
            raise ChatTemplateError(
                "this model's chat template has no place for documents; put their text into a"
                " message",
                param="documents",
            )

    def with_known_roles(
        self, messages: Sequence[dict[str, Any]], render: Render, *, has_tools: bool
    ) -> Sequence[dict[str, Any]]:
        """Return the messages with roles that the template renders.

        The developer's messages get the role "system" for a template that knows only that one, as
        OpenAI's older models did.

        Raises:
            ChatTemplateError: a message would be left out; ``param`` names its role.
        """
        for place, message in enumerate(messages):
            role = message["role"]
            kind = (role, place == 0, has_tools)
            if role in _TURNS or kind in self._seen or not _says_something(message):
                continue
            comes_out = _comes_out(messages, place, role, render)
            if comes_out:
                if len(self._seen) < _REMEMBERED:
                    self._seen.add(kind)
            elif role == "developer" and _comes_out(messages, place, "system", render):
                messages = [
                    {**each, "role": "system"} if each["role"] == "developer" else each
                    for each in messages
                ]
            elif comes_out is False:
                raise ChatTemplateError(
                    "the chat template of this model shows nothing of a message of the role"
                    f' "{clean(role[:_SHOWN])}" here; roles that most models know are "system",'
                    ' "user", "assistant" and "tool"',
                    param=f"messages[{place}].role",
                )
        return messages


def _comes_out(
    messages: Sequence[dict[str, Any]], place: int, role: str, render: Render
) -> bool | None:
    """Return True if the template renders this message; None if it refuses the request."""
    changed = {**messages[place], "role": role, "content": _NEEDLE}
    try:
        return _NEEDLE in render([*messages[:place], changed, *messages[place + 1 :]])
    except ChatTemplateError:
        return None


def _says_something(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return bool(content.strip() if isinstance(content, str) else content)


def _mentions(template: ChatTemplate, variable: str) -> bool:
    """True if a template may use this variable. One that includes other files may."""
    files = template.files
    use = re.compile(rf"\{{[{{%](?:(?![%}}]\}}).)*?\b{variable}\b", re.DOTALL)
    sources = [source.text for source in (files.main, files.tool_use) if source is not None]
    return any(use.search(text) or _INCLUDES.search(text) for text in sources)

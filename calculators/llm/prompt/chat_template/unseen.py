"""`UnseenParts`: finds a place for the parts of a request that a template would leave out.

Many templates render what they know and ignore the rest: documents, and messages of a role that is
misspelt or unknown to the model. The model would answer as if these had not been sent. Others
refuse a message of the system behind the first one, which agents send in the middle of a
conversation; it joins the leading one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.errors import ChatTemplateError, clean
from calculators.llm.prompt.chat_template.probe import NEEDLE
from calculators.llm.prompt.chat_template.shown_roles import TURNS, says_something

#: Roles of whoever serves the model. Where they cannot stand, their text joins the leading one.
_GUIDING: Final = ("system", "developer")
_GAP: Final = "\n\n"
#: Roles that are remembered as rendered; clients use a handful.
_REMEMBERED: Final = 64
_SHOWN: Final = 40
_INCLUDES: Final = re.compile(r"\{%[-+]?\s*(?:include|import|from|extends)\b")

Render = Callable[[Sequence[Mapping[str, Any]]], str]
Messages = Sequence[dict[str, Any]]


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

    def with_known_roles(self, messages: Messages, render: Render, *, has_tools: bool) -> Messages:
        """Return the messages with roles, and in places, that the template renders.

        The developer's messages get the role "system" for a template that knows only that one, as
        OpenAI's older models did. Messages of both roles that cannot stand where they are join the
        leading one, in their order.

        Raises:
            ChatTemplateError: a message would be left out; ``param`` names its role.
        """
        for place, message in enumerate(messages):
            role = message["role"]
            if role in TURNS or role in _GUIDING or not says_something(message):
                continue
            kind = (role, place == 0, has_tools)
            if kind in self._seen:
                continue
            comes_out = _come_out(messages, [place], render)
            if comes_out:
                self._remember(kind)
            elif comes_out is False:
                raise _not_shown(place, role)
        return self._with_guidance(messages, render, has_tools=has_tools)

    def _with_guidance(self, messages: Messages, render: Render, *, has_tools: bool) -> Messages:
        places = _guiding(messages)
        if not places:
            return messages
        kind = (messages[0]["role"], True, has_tools)
        if places == [0] and kind in self._seen:
            return messages
        is_left_out = False
        for arranged in _arrangements(messages, places):
            comes_out = _come_out(arranged, _guiding(arranged), render)
            if comes_out:
                if places == [0] and arranged is messages:
                    self._remember(kind)
                return arranged
            is_left_out |= comes_out is False
        if is_left_out:
            place = next((p for p in places if _come_out(messages, [p], render) is False), 0)
            raise _not_shown(place, messages[place]["role"])
        return messages  # the template's own error says more

    def _remember(self, kind: tuple[str, bool, bool]) -> None:
        if len(self._seen) < _REMEMBERED:
            self._seen.add(kind)


def _guiding(messages: Messages) -> list[int]:
    return [
        place
        for place, message in enumerate(messages)
        if message["role"] in _GUIDING and says_something(message)
    ]


def _arrangements(messages: Messages, places: Sequence[int]) -> Iterator[Messages]:
    """Yield the messages, then other ways to write the system's and developer's."""
    yield messages
    as_system = _as_system(messages)
    if as_system is not messages:
        yield as_system
    if places == [0] or not all(isinstance(messages[each]["content"], str) for each in places):
        return
    for each in (messages, as_system) if as_system is not messages else (messages,):
        joined, behind = _joined(each, places)
        yield joined
        # Without the message between them, two turns of the user may follow each other.
        yield from _turns_joined(joined, behind)


def _as_system(messages: Messages) -> Messages:
    if all(message["role"] != "developer" for message in messages):
        return messages
    return [
        {**each, "role": "system"} if each["role"] == "developer" else each for each in messages
    ]


def _joined(messages: Messages, places: Sequence[int]) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the messages with all guidance in the leading one, and the places of what followed."""
    first = (
        messages[0] if messages[0]["role"] in _GUIDING else {"role": messages[places[0]]["role"]}
    )
    text = _GAP.join(messages[place]["content"] for place in places)
    joined = [{**first, "content": text}]
    behind: list[int] = []
    for place, message in enumerate(messages):
        if place in places or (place == 0 and message["role"] in _GUIDING):
            behind.append(len(joined))
        else:
            joined.append(message)
    return joined, behind


def _turns_joined(messages: list[dict[str, Any]], behind: Sequence[int]) -> Iterator[Messages]:
    turns = list(messages)
    for place in sorted(set(behind), reverse=True):
        if 1 < place < len(turns):
            one, other = turns[place - 1 : place + 1]
            if one["role"] == other["role"] == "user" and all(
                isinstance(each["content"], str) for each in (one, other)
            ):
                text = one["content"] + _GAP + other["content"]
                turns[place - 1 : place + 1] = [{**one, "content": text}]
    if len(turns) < len(messages):
        yield turns


def _come_out(messages: Messages, places: Sequence[int], render: Render) -> bool | None:
    """Return True if the template renders all these messages; None if it refuses the request."""
    changed = list(messages)
    needles = [f"{NEEDLE}{place}." for place in places]
    for place, needle in zip(places, needles, strict=True):
        changed[place] = {**messages[place], "content": needle}
    try:
        prompt = render(changed)
    except ChatTemplateError:
        return None
    return all(needle in prompt for needle in needles)


def _not_shown(place: int, role: str) -> ChatTemplateError:
    return ChatTemplateError(
        "the chat template of this model shows nothing of a message of the role"
        f' "{clean(role[:_SHOWN])}" here; roles that most models know are "system",'
        ' "user", "assistant" and "tool"',
        param=f"messages[{place}].role",
    )


def _mentions(template: ChatTemplate, variable: str) -> bool:
    """True if a template may use this variable. One that includes other files may."""
    files = template.files
    use = re.compile(rf"\{{[{{%](?:(?![%}}]\}}).)*?\b{variable}\b", re.DOTALL)
    sources = [source.text for source in (files.main, files.tool_use) if source is not None]
    return any(use.search(text) or _INCLUDES.search(text) for text in sources)

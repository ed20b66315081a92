"""`UnseenParts`: finds a place for the parts of a request that a template would leave out.

Many templates render what they know and ignore the rest: documents, and messages of a role that is
misspelt or unknown to the model. The model would answer as if these had not been sent. Others
refuse a message of the system after the first one, which agents send in the middle of a
conversation; it joins the leading one, or the user's text where the template has no place for it.

`ShownRoles` is the form in which a template shows the text of each role. Most templates take the
content of a message as a text. Some vision models' templates walk through a list of parts, and
show nothing of a text, without an error: every question gets the same prompt. Others leave out a
role whatever its form. So each role is rendered in a few short chats, first with a text and then
with a list of one part, without tools and with one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calculators.llm.prompt.chat_template.analysis import (
    CALL_ID,
    NEEDLE,
    RESULT,
    SYSTEM,
    TOOL,
    USER,
    tool_call,
)
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError, clean

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
        without_results: True: in a chat with tools no result is shown, but left out or refused;
            False: likewise without tools.
    """

    of_parts: frozenset[str]
    hidden: frozenset[tuple[str, bool]]
    without_results: frozenset[bool] = frozenset()

    @classmethod
    def of(cls, template: ChatTemplate) -> ShownRoles:
        """Probe a template."""
        of_parts: set[str] = set()
        hidden: set[tuple[str, bool]] = set()
        shown: set[tuple[str, bool]] = set()
        for role in ("system", *TURNS):
            for has_tools in (False, True):
                is_shown, is_rendered = _shown(template, role, has_tools, ())
                if is_shown:
                    shown.add((role, has_tools))
                    continue
                is_shown, takes_parts = _shown(template, role, has_tools, ("system", *TURNS))
                if is_shown:
                    shown.add((role, has_tools))
                    of_parts.add(role)
                elif is_rendered or takes_parts:
                    hidden.add((role, has_tools))
        if "user" in of_parts and not _shown(template, "system", False, ())[0]:
            # It is taken as the system's text is.
            of_parts.add("developer")
        without = {each for each in (False, True) if ("tool", each) not in shown}
        without = {each for each in without if ("user", each) in shown}
        return cls(frozenset(of_parts), frozenset(hidden), frozenset(without))

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


#: Roles of the application. Where they cannot stand, their text joins the leading message.
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
        leading one, in their order, or else the first message of the user.

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
        # Some templates write the system's text into the user's first message, so it needs one.
        is_usual = places == [0] and any(each["role"] == "user" for each in messages)
        if is_usual and kind in self._seen:
            return messages
        is_left_out = False
        for arranged in _arrangements(messages, places):
            comes_out = _come_out(arranged, _guiding(arranged), render)
            if comes_out:
                if is_usual and arranged is messages:
                    self._remember(kind)
                return arranged
            is_left_out |= comes_out is False
        of_user, place = _in_the_users(messages, places)
        if _come_out(of_user, [place], render):
            return of_user
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
        joined, gaps = _joined(each, places)
        yield joined
        # Without the message between them, two turns of the user may follow each other.
        turns = turns_joined(joined, gaps)
        if len(turns) < len(joined):
            yield turns


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
    gaps: list[int] = []
    for place, message in enumerate(messages):
        if place in places or (place == 0 and message["role"] in _GUIDING):
            gaps.append(len(joined))
        else:
            joined.append(message)
    return joined, gaps


def _in_the_users(messages: Messages, places: Sequence[int]) -> tuple[list[dict[str, Any]], int]:
    """Return the messages with all guidance in the user's first one, and its place."""
    texts = [messages[place]["content"] for place in places]
    others = [each for place, each in enumerate(messages) if place not in places]
    place = next((p for p, each in enumerate(others) if each["role"] == "user"), len(others))
    if place == len(others):
        others.append({"role": "user", "content": ""})
    texts.append(others[place].get("content"))
    if all(isinstance(text, str) for text in texts):
        content: Any = _GAP.join(filter(None, texts))
    else:
        content = [part for text in texts for part in _parts(text)]
    others[place] = {**others[place], "content": content}
    return others, place


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def turns_joined(messages: Messages, places: Iterable[int]) -> list[dict[str, Any]]:
    """Join turns of the user that follow each other.

    Args:
        places: the turns that may join the one before.
    """
    turns = list(messages)
    for place in sorted(set(places), reverse=True):
        if 0 < place < len(turns):
            one, other = turns[place - 1 : place + 1]
            if one["role"] == other["role"] == "user" and all(
                isinstance(each.get("content"), str) for each in (one, other)
            ):
                text = one["content"] + _GAP + other["content"]
                turns[place - 1 : place + 1] = [{**one, "content": text}]
    return turns


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
    """Return True if a template may use this variable. One that includes other files may."""
    files = template.files
    use = re.compile(rf"\{{[{{%](?:(?![%}}]\}}).)*?\b{variable}\b", re.DOTALL)
    sources = [source.text for source in (files.main, files.tool_use) if source is not None]
    return any(use.search(text) or _INCLUDES.search(text) for text in sources)

"""Text that a template would lose without a word: it is given in another form, or refused."""

from __future__ import annotations

from typing import Any, Final

import pytest

from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError

#: Walks through parts, as templates of some vision models do.
OF_PARTS: Final = (
    "{% for m in messages %}<{{ m.role }}>"
    "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endfor %}"
)
#: Only the user's messages are lists; the first part of an answer is taken by its place.
MIXED: Final = (
    "{% for m in messages %}"
    "{% if m.role == 'user' %}[{% for part in m.content | selectattr('type', 'equalto', 'text') %}"
    "{{ part['text'] }}{% endfor %}]"
    "{% elif m.role == 'assistant' %}{{ ' ' + m.content[0]['text'] }}"
    "{% else %}{{ '(' + m.content + ')' }}{% endif %}{% endfor %}"
)
TEXT: Final = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
WEATHER: Final[dict[str, Any]] = {
    "type": "function",
    "function": {"name": "weather", "description": "d", "parameters": {"type": "object"}},
}
CALL: Final = {"id": "c12345678", "function": {"name": "weather", "arguments": "{}"}}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def rendered(source: str, *messages: dict[str, Any], **more: Any) -> str:
    return ChatRenderer(ChatTemplate.of_source(source)).render(messages, **more)


@pytest.mark.parametrize("content", ["Hi", [{"type": "text", "text": "Hi"}]])
def test_text_becomes_a_part_where_the_template_walks_through_parts(content: Any) -> None:
    chat = [said("system", "S"), said("user", content), said("assistant", "A"), said("user", "B")]
    assert rendered(OF_PARTS, *chat) == "<system>S<user>Hi<assistant>A<user>B"
    assert rendered(MIXED, *chat) == "(S)[Hi] A[B]"


def test_an_answer_goes_on_in_a_part() -> None:
    chat = [said("user", "Hi"), said("assistant", "Good ")]
    assert rendered(OF_PARTS, *chat, continues=True) == "<user>Hi<assistant>Good "


def test_system_messages_become_parts_too() -> None:
    chat = [said("user", "Hi"), said("system", "S"), said("developer", "D")]
    assert rendered(OF_PARTS, *chat) == "<user>Hi<system>S<developer>D"
    only_user = (
        "{% for m in messages %}<{{ m.role }}>"
        "{{ m.content[0]['text'] if m.role == 'user' else m.content }}{% endfor %}"
    )
    assert rendered(only_user, *chat) == "<user>Hi<system>S<developer>D"


def test_tools_are_written_into_a_part() -> None:
    renderer = ChatRenderer(ChatTemplate.of_source(OF_PARTS))
    assert not renderer.knows_tools
    prompt = renderer.render([said("user", "Hi")], tools=[WEATHER])
    assert prompt == "<user>Hi"


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_role_that_is_never_shown_is_refused(role: str) -> None:
    source = TEXT.replace(
        "{{ m.content }}", f"{{% if m.role != '{role}' %}}{{{{ m.content }}}}{{% endif %}}"
    )
    source += "{{ tools | tojson if tools else '' }}"
    chat = [said("user", ""), said("assistant", "", tool_calls=[CALL]), said("tool", "")]
    place = ["user", "assistant"].index(role)
    assert rendered(source, *chat, tools=[WEATHER])
    chat[place]["content"] = "Hi"
    for tools in (None, [WEATHER]):
        with pytest.raises(ChatTemplateError, match=f'the role "{role}"') as raised:
            rendered(source, *chat, tools=tools)
        assert raised.value.param == f"messages[{place}].content"


def test_a_role_may_be_lost_in_chats_with_tools_only() -> None:
    source = "{% if tools %}{{ tools | tojson }}{% else %}" + TEXT + "{% endif %}"
    assert rendered(source, said("user", "Hi")) == "<user>Hi"
    with pytest.raises(ChatTemplateError, match="in a chat with tools"):
        rendered(source, said("user", "Hi"), tools=[WEATHER])


def test_the_words_of_a_template_that_refuses_a_role_stay() -> None:
    source = "{% if messages[0].role == 'user' %}{{ raise_exception('no user') }}{% endif %}" + TEXT
    with pytest.raises(ChatTemplateError, match="no user"):
        rendered(source, said("user", "Hi"))


# Tools and calls of every kind -------------------------------------------------------------------


@pytest.mark.parametrize(
    "printed",
    [
        "{{ t.function.name + ': ' + t.function.description }}",
        "{% for name, p in t.function.parameters.properties.items() %}{{ name }}{% endfor %}"
        "{{ t.function.name }}",
        "{% for name, p in t.function.parameters.properties | items %}"
        "{{ name + ' ' + p.description + p.type }}"
        "{{ ' needed' if name in t.function.parameters.required }}{% endfor %}"
        "{{ t.function.name }}",
        "{{ t.function.name ~ (t.function.parameters.properties | length) }}",
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        {"name": "weather"},
        {"name": "weather", "description": None, "parameters": None},
        {"name": "weather", "parameters": {}},
        {"name": "weather", "description": "d", "parameters": {"type": "object"}},
        {"name": "weather", "parameters": {"properties": {"city": {"enum": ["Rome"]}, "day": {}}}},
    ],
)
def test_a_template_gets_whole_tools_where_it_needs_them(printed: str, function: Any) -> None:
    source = "{% for t in tools %}" + printed + "{% endfor %}" + TEXT
    tool = {"type": "function", "function": function}
    assert "weather" in rendered(source, said("user", "Hi"), tools=[tool])


def test_a_tool_is_shown_as_it_was_sent_where_the_template_takes_it() -> None:
    source = "{{ tools | tojson }}" + TEXT
    bare = {"type": "function", "function": {"name": "f"}}
    assert rendered(source, said("user", "Hi"), tools=[bare]) == (
        '[{"type": "function", "function": {"name": "f"}}]<user>Hi'
    )


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("{{ c.function.arguments }}", '{"a": "b'),
        ("{{ c.function.arguments | tojson }}", '"{\\"a\\": \\"b"'),
        ("({% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %})", "()"),
        ("{{ (c.function.arguments | from_json) | tojson }}", "{}"),
    ],
)
def test_a_call_that_was_cut_does_not_end_a_conversation(printed: str, shown: str) -> None:
    source = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    source += f"<tool_call>{printed}</tool_call>{{% endfor %}}{{% endfor %}}"
    for arguments, expected in (('{"a": "b', shown), ('{"a": 1}', None), ("", None), ("[1]", None)):
        call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
        prompt = rendered(source, said("user", "Hi"), said("assistant", "", tool_calls=[call]))
        if expected is not None:
            assert prompt == f"Hi<tool_call>{expected}</tool_call>"


def test_probes_of_a_template_end_with_their_time() -> None:
    template = ChatTemplate.of_source(TEXT)
    with template.probed(-1), pytest.raises(ChatTemplateError, match="too long"):
        template.render([said("user", "Hi")])
    assert template.render([said("user", "Hi")]) == "<user>Hi"

"""Messages that a template would drop are refused, or sent in a role that it knows."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from calculators.llm.prompt.chat_template.unseen import UnseenParts

#: Accepts a system message only at the beginning, as many templates do.
PLAIN = """
{%- for message in messages -%}
{%- if message.role in ('user', 'assistant') or (message.role == 'system' and loop.first) -%}
<{{ message.role }}>{{ message.content }}
{%- endif -%}
{%- endfor -%}
"""
EVERY_ROLE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
REFUSING = (
    "{% for message in messages %}"
    "{% if message.role not in ('user', 'system') %}"
    "{{ raise_exception('no such role') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}{% endfor %}"
)


def prompt(source: str, *said: tuple[str, str], tools: list[Any] | None = None) -> str:
    template = ChatTemplate.of_source(source)
    messages = [{"role": role, "content": content} for role, content in said]
    render = partial(template.render, tools=tools)
    return render(UnseenParts(template).with_known_roles(messages, render, has_tools=bool(tools)))


def refusal(source: str, *said: tuple[str, str]) -> ChatTemplateError:
    with pytest.raises(ChatTemplateError) as raised:
        prompt(source, *said)
    return raised.value


@pytest.mark.parametrize("role", ["usr", "User", "ipython", "documents", "system ", ""])
@pytest.mark.parametrize("before", [0, 1])
def test_a_message_of_a_role_that_is_not_rendered_is_refused(role: str, before: int) -> None:
    said = [("user", "Hello")] * before + [(role, "Hello"), ("user", "Hello")]
    error = refusal(PLAIN, *said)
    assert error.param == f"messages[{before}].role"
    assert f'"{role.strip()}' in str(error)
    assert '"system", "user", "assistant" and "tool"' in str(error)


@pytest.mark.parametrize("role", ["critic", "ipython", "usr", "developer"])
def test_any_role_that_the_template_renders_is_accepted(role: str) -> None:
    assert prompt(EVERY_ROLE, (role, "Hi"), (role, "Ho")) == f"<{role}>Hi<{role}>Ho"


def test_developer_messages_become_system_messages_where_only_those_are_rendered() -> None:
    assert prompt(PLAIN, ("developer", "Be kind"), ("user", "Hi")) == "<system>Be kind<user>Hi"
    assert prompt(REFUSING, ("developer", "Be kind"), ("user", "Hi")) == "<system>Be kind<user>Hi"


def test_a_system_message_at_a_place_where_none_is_rendered_is_refused() -> None:
    assert prompt(PLAIN, ("system", "Be kind"), ("user", "Hi")) == "<system>Be kind<user>Hi"
    late = [("user", "Hi"), ("system", "Be kind")]
    assert refusal("{{ messages[0].role }}", *late).param == "messages[1].role"


#: Takes one system message, at the beginning.
STRICT = (
    "{% for message in messages %}"
    "{% if message.role not in ('user', 'assistant') and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}{% endfor %}"
)
ALTERNATING = STRICT.replace(
    "{% for message in messages %}",
    "{% for message in messages %}"
    "{% if not loop.first and loop.previtem.role == message.role %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}",
    1,
)


@pytest.mark.parametrize("source", [PLAIN, STRICT, ALTERNATING])
@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_message_that_cannot_stand_where_it_is_joins_the_leading_one(
    source: str, role: str
) -> None:
    said = [("system", "A"), ("user", "1"), (role, "B"), ("assistant", "2"), (role, "C")]
    assert prompt(source, *said, ("user", "3")) == "<system>A\n\nB\n\nC<user>1<assistant>2<user>3"
    first, *rest = prompt(source, ("user", "1"), (role, "B")).split("<")[1:]
    assert first in ("system>B", f"{role}>B")
    assert rest == ["user>1"]


def test_two_leading_system_messages_become_one() -> None:
    said = [("system", "A"), ("developer", "B"), ("user", "1")]
    assert prompt(STRICT, *said) == "<system>A\n\nB<user>1"


def test_turns_that_a_system_message_parted_are_joined_where_roles_must_alternate() -> None:
    said = [("system", "A"), ("user", "1"), ("system", "B"), ("user", "2")]
    assert prompt(ALTERNATING, *said) == "<system>A\n\nB<user>1\n\n2"
    assert prompt(STRICT, *said) == "<system>A\n\nB<user>1<user>2"


#: Takes no message of the system.
WITHOUT_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}{% endfor %}"
)
#: Writes the system's text into the first turn of the user.
INTO_THE_FIRST_TURN = (
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for message in messages if message.role != 'system' %}"
    "<{{ message.role }}>{{ system if loop.first }}{{ message.content }}{% endfor %}"
)


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("source", [WITHOUT_SYSTEM, "{% if false %}{% endif %}" + PLAIN.replace(
    " or (message.role == 'system' and loop.first)", "")])  # fmt: skip
def test_guidance_joins_the_users_text_where_a_template_has_no_place_for_it(
    source: str, role: str
) -> None:
    said = [(role, "A"), ("user", "1"), ("assistant", "2"), (role, "B"), ("user", "3")]
    shown = prompt(source, *said).replace("\n<", "<").strip()
    assert shown == "<user>A\n\nB\n\n1<assistant>2<user>3"


def test_a_system_message_alone_is_a_question_where_it_would_be_left_out() -> None:
    assert prompt(INTO_THE_FIRST_TURN, ("system", "A"), ("user", "1")) == "<user>A1"
    assert prompt(INTO_THE_FIRST_TURN, ("system", "A")) == "<user>A"
    assert prompt(WITHOUT_SYSTEM, ("system", "A")) == "<user>A"


def test_turns_of_the_user_are_joined_where_roles_must_alternate() -> None:
    renderer = ChatRenderer(ChatTemplate.of_source(WITHOUT_SYSTEM))
    said = [("system", "S"), ("user", "1"), ("user", "2"), ("assistant", "3"), ("user", "4")]
    messages = [{"role": role, "content": content} for role, content in said]
    assert renderer.render(messages) == "<user>S\n\n1\n\n2<assistant>3<user>4"
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        renderer.render([*messages[1:], {"role": "assistant", "content": "5"}, messages[3]])
    shown = ChatRenderer(ChatTemplate.of_source(EVERY_ROLE)).render(messages[1:3])
    assert shown == "<user>1<user>2", "only where the template refuses them"


def test_a_system_message_stays_where_the_template_shows_it() -> None:
    said = [("system", "A"), ("user", "1"), ("system", "B"), ("user", "2")]
    assert prompt(EVERY_ROLE, *said) == "<system>A<user>1<system>B<user>2"


def test_refusals_of_the_template_keep_its_words() -> None:
    assert "no such role" in str(refusal(REFUSING, ("usr", "Hi")))


def test_an_empty_message_may_be_dropped() -> None:
    assert prompt(PLAIN, ("usr", ""), ("user", "Hi")) == "<user>Hi"


def test_a_long_role_is_shortened_in_the_error() -> None:
    assert len(str(refusal(PLAIN, ("x" * 10_000, "Hi"), ("user", "Hi")))) < 300


def test_verdicts_on_roles_are_remembered_within_bounds() -> None:
    rendered = 0
    template = ChatTemplate.of_source(EVERY_ROLE)
    unseen = UnseenParts(template)

    def render(messages: Any) -> str:
        nonlocal rendered
        rendered += 1
        return template.render(messages)

    for _ in range(5):
        said = [{"role": role, "content": "Hi"} for role in ("system", "user")]
        unseen.with_known_roles(said, render, has_tools=False)
    assert rendered == 1
    for number in range(1000):
        role = {"role": f"role {number}", "content": "Hi"}
        unseen.with_known_roles([role], render, has_tools=False)
    assert len(unseen._seen) <= 64


@pytest.mark.parametrize(
    ("source", "is_known"),
    [
        ("{{ messages[0].content }}{% if documents %}{{ documents | tojson }}{% endif %}", True),
        ("{%- for d in documents -%}{{ d.text }}{%- endfor -%}", True),
        ("{% include 'other.jinja' %}", True),
        ("{{ messages[0].content }} documents", False),
        ("{# documents #}{{ messages[0].content }}", False),
    ],
)
def test_documents_are_refused_where_the_template_does_not_render_them(
    source: str, is_known: bool
) -> None:
    unseen = UnseenParts(ChatTemplate.of_source(source))
    unseen.check_documents({"documents": []})
    if is_known:
        unseen.check_documents({"documents": [{"text": "x"}]})
        return
    with pytest.raises(ChatTemplateError) as raised:
        unseen.check_documents({"documents": [{"text": "x"}]})
    assert raised.value.param == "documents"

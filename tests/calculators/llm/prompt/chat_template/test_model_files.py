"""Choice of a model directory's template, and what the other files contribute."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from graph_runtime import Code
from tests.calculators.llm.prompt.chat_template.model_directories import HELLO, make_model

TOOLS = [{"type": "function", "function": {"name": "f"}}]
NAMED = [
    {"name": "default", "template": "config default"},
    {"name": "tool_use", "template": "config tool_use"},
]
TOKENIZER_XML = (
    '<net><rt_info><chat_template value="xml {{ &quot;a&#10;b&quot; }}" /></rt_info></net>'
)


def prompt(directory: Path, *, tools: bool = False) -> str:
    return ChatTemplate.load(directory).render(HELLO, tools=TOOLS if tools else None)


def test_the_jinja_file_wins_over_all_others(tmp_path: Path) -> None:
    make_model(
        tmp_path,
        chat_template__jinja="from jinja",
        chat_template__json={"chat_template": "from json"},
        tokenizer_config__json={"chat_template": "from config"},
        openvino_tokenizer__xml=TOKENIZER_XML,
    )
    assert prompt(tmp_path) == "from jinja"


def test_the_jinja_file_needs_no_template_in_the_tokenizer(tmp_path: Path) -> None:
    make_model(tmp_path, chat_template__jinja="from jinja", tokenizer_config__json={})
    assert prompt(tmp_path) == "from jinja"


def test_the_old_name_of_the_jinja_file_is_known(tmp_path: Path) -> None:
    make_model(
        tmp_path,
        template__jinja="from the old name",
        tokenizer_config__json={"chat_template": "from config"},
    )
    assert prompt(tmp_path) == "from the old name"


def test_an_empty_jinja_file_is_ignored(tmp_path: Path) -> None:
    make_model(
        tmp_path,
        chat_template__jinja=" \n",
        tokenizer_config__json={"chat_template": "from config"},
    )
    assert prompt(tmp_path) == "from config"


def test_a_processors_template_wins_over_the_tokenizers(tmp_path: Path) -> None:
    make_model(tmp_path, tokenizer_config__json={"chat_template": "from config"})
    assert prompt(tmp_path) == "from config"
    make_model(tmp_path, processor_config__json={"chat_template": "from processor"})
    assert prompt(tmp_path) == "from processor"
    make_model(tmp_path, chat_template__json={"chat_template": "from json"})
    assert prompt(tmp_path) == "from json"


def test_the_template_of_a_converted_tokenizer_is_the_last_choice(tmp_path: Path) -> None:
    make_model(tmp_path, openvino_tokenizer__xml=TOKENIZER_XML)
    assert prompt(tmp_path) == "xml a\nb"
    make_model(tmp_path, tokenizer_config__json={"chat_template": "from config"})
    assert prompt(tmp_path) == "from config"


def test_named_templates_may_be_a_list(tmp_path: Path) -> None:
    make_model(tmp_path, tokenizer_config__json={"chat_template": NAMED})
    assert prompt(tmp_path) == "config default"
    assert prompt(tmp_path, tools=True) == "config tool_use"


def test_named_templates_may_be_an_object(tmp_path: Path) -> None:
    named = {each["name"]: each["template"] for each in NAMED}
    make_model(tmp_path, tokenizer_config__json={"chat_template": named})
    assert prompt(tmp_path, tools=True) == "config tool_use"


def test_the_file_for_tools_wins_over_the_named_template(tmp_path: Path) -> None:
    make_model(
        tmp_path,
        tokenizer_config__json={"chat_template": NAMED},
        additional_chat_templates___tool_use__jinja="file tool_use",
        additional_chat_templates___rag__jinja="file rag",
    )
    assert prompt(tmp_path, tools=True) == "file tool_use"
    assert prompt(tmp_path) == "config default"
    assert set(ChatTemplate.load(tmp_path).files.named) == {"tool_use", "rag"}


def test_the_main_template_serves_tools_where_no_other_does(tmp_path: Path) -> None:
    make_model(tmp_path, chat_template__jinja="{{ tools[0].function.name }}")
    assert prompt(tmp_path, tools=True) == "f"


def test_without_a_template_the_prompt_is_the_only_message(tmp_path: Path) -> None:
    template = ChatTemplate.load(tmp_path)
    assert template.files.is_default
    assert template.render(HELLO) == "Hello"
    with pytest.raises(ChatTemplateError, match="exactly one message"):
        template.render([*HELLO, *HELLO])
    with pytest.raises(ChatTemplateError, match="exactly one message"):
        template.render([{"role": "user", "content": None}])


@pytest.mark.parametrize(
    ("config", "special", "expected"),
    [
        ({"bos_token": "<s>", "eos_token": "</s>"}, {}, "<s></s>"),
        ({"bos_token": {"content": "<s>"}, "eos_token": None}, {}, "<s>"),
        ({"bos_token": None}, {"bos_token": "<a>", "eos_token": {"content": "<b>"}}, "<a><b>"),
        ({"bos_token": "<s>"}, {"bos_token": "<a>"}, "<s>"),
    ],
)
def test_special_tokens_are_variables(
    tmp_path: Path, config: dict[str, object], special: dict[str, object], expected: str
) -> None:
    make_model(
        tmp_path,
        chat_template__jinja="{{ bos_token }}{{ eos_token }}",
        tokenizer_config__json=config,
        special_tokens_map__json=special,
    )
    assert prompt(tmp_path) == expected


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_template(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(
        b"\xef\xbb\xbf{% if true %}\r\na\r\nb{% endif %}"
    )
    assert prompt(tmp_path) == "a\nb"


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"chat_template__jinja": "a\n{% if %}"}, r"^chat_template\.jinja:2: "),
        ({"chat_template__jinja": "{{ x | nosuch }}"}, r"^chat_template\.jinja:1: .*'nosuch'"),
        ({"tokenizer_config__json": "{\n,"}, r"^tokenizer_config\.json:2: is not JSON"),
        ({"tokenizer_config__json": "[]"}, r"^tokenizer_config\.json: is not a JSON object"),
        ({"tokenizer_config__json": {"chat_template": 5}}, r"^tokenizer_config\.json: chat_temp"),
        ({"tokenizer_config__json": {"chat_template": [{}]}}, r"^tokenizer_config\.json: chat_t"),
        (
            {"tokenizer_config__json": {"chat_template": "{% x %}"}},
            r"^tokenizer_config\.json:1: .*'x'",
        ),
        (
            {"additional_chat_templates___tool_use__jinja": "\n\n{{ }}"},
            r"^additional_chat_templates/tool_use\.jinja:3: ",
        ),
        ({"openvino_tokenizer__xml": "<a>"}, r"^openvino_tokenizer\.xml: is not XML"),
        ({"chat_template__jinja": "{{ " + "(" * 500 + "1" + ")" * 500 + " }}"}, "too complex"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, files: dict[str, object], error: str) -> None:
    make_model(tmp_path, **files)
    with pytest.raises(ChatTemplateError, match=error) as caught:
        ChatTemplate.load(tmp_path)
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert str(tmp_path) not in str(caught.value)


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ChatTemplateError, match=r"^nosuch: there is no such directory"):
        ChatTemplate.load(tmp_path / "nosuch")


def test_a_file_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"ab\xff")
    with pytest.raises(ChatTemplateError, match=r"chat_template\.jinja: is not UTF-8 at byte 2"):
        ChatTemplate.load(tmp_path)


@pytest.mark.parametrize(
    ("config", "special", "expected"),
    [
        ({}, {}, "|False|"),
        ({"pad_token": "<pad>", "unk_token": {"content": "<unk>"}}, {}, "<pad>|True|<unk>"),
        ({"pad_token": None}, {"pad_token": {"content": "<p>"}, "unk_token": ""}, "<p>|True|"),
        ({"extra_special_tokens": {"image_token": "<i>"}}, {}, "|False|<i>"),
        ({"extra_special_tokens": ["<i>"], "pad_token": 3}, {}, "|False|"),
    ],
)
def test_further_special_tokens_are_variables_if_the_model_has_them(
    tmp_path: Path, config: dict[str, object], special: dict[str, object], expected: str
) -> None:
    make_model(
        tmp_path,
        chat_template__jinja=(
            "{{ pad_token }}|{{ pad_token is defined }}|{{ unk_token }}{{ image_token }}"
        ),
        tokenizer_config__json=config,
        special_tokens_map__json=special,
    )
    assert ChatTemplate.load(tmp_path).render(HELLO) == expected


def test_a_request_can_name_another_special_token(tmp_path: Path) -> None:
    """The server sets only the beginning and end tokens, like Hugging Face."""
    make_model(
        tmp_path,
        chat_template__jinja="{{ pad_token }}",
        tokenizer_config__json={"pad_token": "<pad>"},
    )
    template = ChatTemplate.load(tmp_path)
    assert template.render(HELLO, template_kwargs={"pad_token": "<x>"}) == "<x>"

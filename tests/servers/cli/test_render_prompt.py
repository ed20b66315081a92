"""`graphrt render-prompt`: the exact prompt of a chat request."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.servers.cli.process import COMMAND, environment, graphrt

TEMPLATE = """\
{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}
{% for message in messages %}
<{{ message.role }}>{{ message.content }}
{% for call in message.tool_calls or [] %}
<tool_call>{{ call.function.arguments | tojson }}</tool_call>
{% endfor %}
{% endfor %}
{% if add_generation_prompt %}
<assistant>{{ "<think>" if think }}
{%- endif %}
"""

HELLO = {"role": "user", "content": "Hellö"}
TOOLS = [{"type": "function", "function": {"name": name}} for name in "fg"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    return tmp_path


def rendered(model: Path, request: dict[str, Any]) -> str:
    done = graphrt("render-prompt", model, feed=json.dumps(request))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_directory_without_a_model_is_an_error(tmp_path: Path) -> None:
    done = graphrt("render-prompt", tmp_path, feed=json.dumps({"messages": [HELLO]}))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no model and no chat template in it" in done.stderr


def test_the_prompt_and_nothing_else(model: Path) -> None:
    request = {"messages": [HELLO], "model": "any", "max_tokens": 5, "stream": True}
    assert rendered(model, request) == "<user>Hellö\n<assistant>"


def test_images_are_tags(model: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
    content = [{"type": "text", "text": "See"}, image, image]
    request = {"messages": [{"role": "user", "content": content}]}
    tags = "See\n<ov_genai_image_0>\n<ov_genai_image_1>"
    assert rendered(model, request) == f"<user>{tags}\n<assistant>"


def test_a_message_that_is_continued_stays_open(model: Path) -> None:
    request = {
        "messages": [HELLO, {"role": "assistant", "content": "Wel"}],
        "continue_final_message": True,
    }
    assert rendered(model, request) == "<user>Hellö\n<assistant>Wel"


def test_the_prompt_is_utf_8_wherever_it_runs(model: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "render-prompt", str(model)],
        input=json.dumps({"messages": [HELLO]}).encode(),
        env={**environment(), "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.stdout == "<user>Hellö\n<assistant>".encode()


def test_messages_become_what_the_template_knows(model: Path) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "f", "arguments": '{"x":1}'}}],
        },
    ]
    assert rendered(model, {"messages": messages}) == (
        '<user>ab\n<assistant>\n<tool_call>{"x": 1}</tool_call>\n<assistant>'
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "[f][g]"),
        ("auto", "[f][g]"),
        ("required", "[f][g]"),
        ("none", ""),
        ({"type": "function", "function": {"name": "g"}}, "[g]"),
        ({"type": "function", "name": "g"}, "[g]"),
    ],
)
def test_tools_and_the_choice_among_them(model: Path, choice: Any, expected: str) -> None:
    request = {"messages": [HELLO], "tools": TOOLS, "tool_choice": choice}
    assert rendered(model, request) == expected + "<user>Hellö\n<assistant>"


def test_template_kwargs(model: Path) -> None:
    request = {"messages": [HELLO], "chat_template_kwargs": {"think": True}}
    assert rendered(model, request) == "<user>Hellö\n<assistant><think>"
    request["chat_template_kwargs"] = {"add_generation_prompt": False}
    assert rendered(model, request) == "<user>Hellö\n"


def test_a_graph_names_the_directory_of_its_model(model: Path, tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    graph.mkdir()
    (graph / "graph.pbtxt").write_text(
        '# models_path: "/nowhere"\nnode { node_options { models_path: "../" } }\n'
    )
    assert rendered(graph, {"messages": [HELLO]}) == "<user>Hellö\n<assistant>"


@pytest.mark.parametrize(
    ("feed", "error"),
    [
        ("", "error: standard input is not JSON: line 1, column 1"),
        ("[]", "error: standard input is not a JSON object"),
        ('{"x": NaN}', "error: standard input is not JSON: NaN"),
        (b"\xff", "error: standard input is not UTF-8 at byte 0"),
        ("{}", 'error: Missing required member "messages"'),
        ('{"messages": [{"role": 1}]}', 'error: Invalid value for "messages[0].role"'),
        (
            '{"messages": [{"role": "\\ud800", "content": "x"}]}',
            "error: the request has half of a surrogate",
        ),
        (
            '{"messages": [{"role": "user", "content": "x"}], "tools": 5}',
            'error: Invalid value for "tools"',
        ),
        (
            '{"messages": [{"role": "user", "content": "x"}], "tempurature": 1}',
            'error: Unknown member "tempurature". Did you mean "temperature"?',
        ),
        (
            '{"messages": [{"role": "user", "content": ""}], "chat_template_kwargs": {"tools": 1}}',
            'error: Invalid value for "chat_template_kwargs.tools"',
        ),
    ],
)
def test_a_bad_request_is_one_line_on_standard_error(
    model: Path, feed: str | bytes, error: str
) -> None:
    done = graphrt("render-prompt", model, feed=feed)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(error)
    assert "Traceback" not in done.stderr


def test_what_a_server_leaves_out_is_left_out_here(model: Path) -> None:
    request = {"messages": [HELLO], "tools": [*TOOLS, {"type": "web_search"}], "x-new": 1}
    done = graphrt("render-prompt", model, feed=json.dumps(request))
    assert (done.returncode, done.stdout) == (0, "[f][g]<user>Hellö\n<assistant>")
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["warning", "warning"]
    assert "x-new" in done.stderr
    assert "web_search" in done.stderr


def test_a_template_that_refuses_or_is_broken(model: Path) -> None:
    request = json.dumps({"messages": [HELLO]})
    (model / "chat_template.jinja").write_text("{{ raise_exception('No users here') }}")
    done = graphrt("render-prompt", model, feed=request)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: No users here\n")
    (model / "chat_template.jinja").write_text("\n{% endfor %}")
    done = graphrt("render-prompt", model, feed=request)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: chat_template.jinja:2: ")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    done = graphrt(
        "render-prompt",
        tmp_path / "nosuch",
        feed='{"messages": [{"role": "user", "content": "x"}]}',
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no such directory" in done.stderr


def test_wrong_usage() -> None:
    assert graphrt("render-prompt").returncode == 2

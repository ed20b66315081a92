"""`graphrt parse-output`: what a model's text means."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.servers.cli.process import COMMAND, environment, graphrt, lines
from tests.support.checkout import ROOT

CALL = '<tool_call>{"name": "f", "arguments": {"a": [1, 2]}}</tool_call>'
HERMES = ("--tool-parser", "hermes3")
QWEN = ("--reasoning-parser", "qwen3")


def parse(feed: str, *words: str | Path) -> Any:
    """The one line that the command prints."""
    done = graphrt("parse-output", *words, feed=feed)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = lines(done.stdout)
    return line


def answers(*given: object) -> tuple[int, list[Any]]:
    """The exit code and the lines for some answers."""
    feed = "".join(json.dumps(each) + "\n" for each in given)
    done = graphrt("parse-output", "--jsonl", *HERMES, feed=feed)
    assert done.stderr == ""
    return done.returncode, lines(done.stdout)


def deltas(chunks: list[str], *words: str | Path) -> list[Any]:
    feed = "".join(json.dumps(chunk) + "\n" for chunk in chunks)
    done = graphrt("parse-output", "--stream", *words, feed=feed)
    assert (done.returncode, done.stderr) == (0, "")
    return lines(done.stdout)


def test_content_reasoning_and_calls() -> None:
    text = f"<think>\nHm. é</think>\n\nWell. {CALL}\n{CALL}\n"
    call = {"name": "f", "arguments": '{"a":[1,2]}'}
    assert parse(text, *HERMES, *QWEN) == {
        "content": "Well.",
        "reasoning_content": "Hm. é",
        "tool_calls": [call, call],
    }


@pytest.mark.parametrize("words", [(), ("--tool-parser", "none", "--reasoning-parser", "none")])
def test_without_parsers_all_is_content(words: tuple[str, ...]) -> None:
    text = f"<think>a</think>\r\n{CALL}\n"
    assert parse(text, *words) == {"content": text, "reasoning_content": "", "tool_calls": []}


@pytest.mark.parametrize(
    ("tools", "is_parsed"),
    [
        ([{"type": "function", "function": {"name": "f", "parameters": {}}}], True),
        ([{"type": "function", "name": "g"}], True),
        ({"f": {"type": "object"}}, True),
        ([], False),
        ({}, False),
    ],
)
def test_calls_are_text_in_a_request_without_tools(
    tmp_path: Path, tools: object, is_parsed: bool
) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(tools))
    answer = parse(CALL, *HERMES, "--tools", file)
    assert len(answer["tool_calls"]) == is_parsed
    assert answer["content"] == ("" if is_parsed else CALL)


def test_schemas_say_what_type_a_parameter_has(tmp_path: Path) -> None:
    text = "<tool_call><function=f><parameter=a>\n5\n</parameter></function></tool_call>"
    for kind, value in (("string", "5"), ("integer", 5)):
        parameters = {"type": "object", "properties": {"a": {"type": kind}}}
        file = tmp_path / "tools.json"
        file.write_text(json.dumps([{"type": "function", "name": "f", "parameters": parameters}]))
        (call,) = parse(text, "--tool-parser", "qwen3coder", "--tools", file)["tool_calls"]
        assert json.loads(call["arguments"]) == {"a": value}


def test_a_prompt_that_ends_inside_the_reasoning(tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("<|im_start|>assistant\n<think>\n")
    answer = parse("Hm.</think>Hello", *QWEN, "--prompt", prompt)
    assert answer == {"content": "Hello", "reasoning_content": "Hm.", "tool_calls": []}


def test_a_stream_of_chunks() -> None:
    chunks = ["<thi", "nk>a</think>B<too", 'l_call>{"name": "f", ', '"arguments": {"a"', ": 1", "}"]
    chunks += ["}</tool_call>", "", f"\n{CALL}{CALL}", " C", "<tool"]
    got = deltas(chunks, *HERMES, *QWEN)
    assert len(got) == len(chunks) + 1
    calls = [call for delta in got if delta for call in delta.get("tool_calls", [])]
    ids = [call.pop("id") for call in calls if "id" in call]
    assert len(set(ids)) == 3
    assert all(re.fullmatch("[0-9A-Za-z]{9}", each) for each in ids)
    whole = {"type": "function", "function": {"name": "f", "arguments": '{"a":[1,2]}'}}
    assert got == [
        None,
        {"content": "B", "reasoning_content": "a"},
        None,
        {
            "tool_calls": [
                {"index": 0, "type": "function", "function": {"name": "f", "arguments": '{"a"'}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        None,
        None,
        {"tool_calls": [{"index": 1, **whole}, {"index": 2, **whole}]},
        {"content": " C"},
        None,
        {"content": "<tool"},
    ]


def test_a_name_comes_alone_when_its_arguments_are_not_there_yet() -> None:
    begin = "<|channel|>commentary to=functions.f<|message|>"
    first, second, last = deltas([begin, "{}"], "--tool-parser", "gptoss")
    assert first["tool_calls"][0]["function"] == {"name": "f"}
    assert second == {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    assert last is None


def test_each_line_is_answered_at_once() -> None:
    process = subprocess.Popen(
        [*COMMAND, "parse-output", "--stream"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("a", "b"):
            process.stdin.write(json.dumps(text).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"content": text}
        process.stdin.close()
        assert process.stdout.read() == b"null\n"
    assert process.returncode == 0


def test_half_of_a_surrogate_pair_is_passed_on() -> None:
    assert deltas(["\ud83d", "é"]) == [{"content": "\ud83d"}, {"content": "é"}, None]


@pytest.mark.parametrize("option", ["--tool-parser", "--reasoning-parser"])
def test_an_unknown_parser_is_wrong_usage(option: str) -> None:
    done = graphrt("parse-output", option, "hermes4")
    assert (done.returncode, done.stdout) == (2, "")
    kind = option[2:].replace("-", " ")
    assert done.stderr.startswith(f'error: "hermes4" is not a {kind}: one of ')


@pytest.mark.parametrize(
    ("words", "feed", "error"),
    [
        ((), b"\xff", "error: standard input is not UTF-8 at byte 0"),
        (("--stream",), b'"a"\n5\n', "error: line 2 of standard input is not a JSON string"),
        (("--stream",), b'"a\n', "error: line 1 of standard input is not a JSON string"),
        (("--prompt", "nosuch.txt"), b"", "error: nosuch.txt: No such file"),
        (("--tools", "nosuch.json"), b"", "error: nosuch.json: No such file"),
        (("--tools", "pyproject.toml"), b"", "error: pyproject.toml is not JSON: "),
    ],
)
def test_bad_input_is_one_line_on_standard_error(
    words: tuple[str, ...], feed: bytes, error: str
) -> None:
    done = graphrt("parse-output", *words, feed=feed)
    assert done.returncode == 1
    assert done.stderr.startswith(error)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("tools", ["5", '{"f": 5}', '[{"type": "function"}]', "[5]"])
def test_tools_that_are_none(tmp_path: Path, tools: str) -> None:
    file = tmp_path / "tools.json"
    file.write_text(tools)
    done = graphrt("parse-output", "--tools", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {file}: ")


def test_wrong_usage() -> None:
    assert graphrt("parse-output", "text").returncode == 2


# Answers as lines ---------------------------------------------------------------------------------


def test_a_line_may_have_a_template_in_place_of_a_family() -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
        "<<use {{ c.function.name }}>>{% for k, v in c.function.arguments.items() %}"
        "<<with {{ k }}>>{{ v }}<</with>>{% endfor %}<</use>>{% endfor %}{% endfor %}"
    )
    written = "<<use f>><<with a>>1<</with>><</use>>"
    code, got = answers(
        {"template": template, "model_output": written},
        {"template": "{% if %}", "model_output": written},
    )
    assert code == 1
    (call,) = got[0]["tool_calls"]
    assert (call["name"], call["arguments"]) == ("f", '{"a":1}')
    assert got[1]["error"].startswith('line 2: "template": ')


def test_each_line_has_a_family_of_its_own() -> None:
    schemas = {"f": {"type": "object", "properties": {"a": {"type": "string"}}}}
    code, got = answers(
        {"family": "hermes", "model_output": f"Hm.</think>{CALL}", "rendered_prompt": "<think>\n"},
        {
            "family": "kimi_k2",
            "model_output": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:3"
            '<|tool_call_argument_begin|>{"a": "é"}<|tool_call_end|><|tool_calls_section_end|>',
            "tools_schemas": schemas,
            "finish_reason": "stop",
        },
        {
            "family": "glm45",
            "model_output": "<think>x</think>Hi.<tool_call>f\n<arg_key>a</arg_key>\n"
            "<arg_value>007</arg_value>\n</tool_call>",
            "tools_schemas": schemas,
        },
        {"model_output": CALL},
        {"model_output": CALL, "tools_schemas": {}},
        {"family": "gptoss", "model_output": "<|channel|>final<|message|>Hi."},
    )
    assert code == 0
    ids = [call.pop("id") for line in got for call in line["tool_calls"]]
    assert ids[1] == "functions.f:3"
    assert all(re.fullmatch("[0-9A-Za-z]{9}", each) for each in (ids[0], *ids[2:]))
    call = {"name": "f", "arguments": '{"a":[1,2]}'}
    assert got == [
        {"content": "", "reasoning_content": "Hm.", "tool_calls": [call]},
        {
            "content": "",
            "reasoning_content": "",
            "tool_calls": [{"name": "f", "arguments": '{"a":"é"}'}],
        },
        {
            "content": "Hi.",
            "reasoning_content": "x",
            "tool_calls": [{"name": "f", "arguments": '{"a":"007"}'}],
        },
        {"content": "", "reasoning_content": "", "tool_calls": [call]},
        {"content": CALL, "reasoning_content": "", "tool_calls": []},
        {"content": "Hi.", "reasoning_content": "", "tool_calls": []},
    ]


def test_a_line_that_is_wrong_has_an_error_and_the_others_are_answered() -> None:
    wrong: list[tuple[object, str]] = [
        ({"family": "kimi", "model_output": ""}, 'line 1: "family": "kimi" is not known. Did you'),
        ({"family": "hermes"}, 'line 2: "model_output": expected a string'),
        ({"model_output": "", "tools_schemas": [1]}, 'line 3: "tools_schemas": expected an object'),
        ({"model_output": "", "rendered_prompt": 5}, 'line 4: "rendered_prompt": expected a str'),
        ([], "line 5: expected an object"),
    ]
    code, got = answers(*(each for each, _ in wrong), {"model_output": "Hi."})
    assert code == 1
    for line, (_, error) in zip(got, wrong, strict=False):
        assert line["error"].startswith(error)
    assert got[-1]["content"] == "Hi."


def test_a_thousand_answers_take_no_more_than_seconds() -> None:
    line = json.dumps({"family": "qwen3coder", "model_output": f"<think>a</think>{CALL} " * 3})
    done = graphrt("parse-output", "--jsonl", feed=f"{line}\n" * 1000)
    assert len(lines(done.stdout)) == 1000

"""`graphrt detect`: how a model writes, by its template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import corpora
from tests.servers.cli.process import graphrt

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for line in (corpora() / "template_families.jsonl").read_text(encoding="utf-8").splitlines()
    if (case := json.loads(line))
}
QWEN = CASES["template:qwen3coder#1"]["template"]


def detected(path: Path) -> dict[str, Any]:
    done = graphrt("detect", "--json", str(path))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_form_marks_and_switches_of_a_template_are_shown(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text(QWEN)
    text = graphrt("detect", str(tmp_path / "own.jinja")).stdout
    for line in (
        "calls       qwen3coder, by its rendering",
        "reasoning   <think> ... </think> (qwen3coder), by its rendering",
        "prompt      closed by default, open with reasoning on, closed with it off",
        "switches    enable_thinking true or false (default)",
    ):
        assert line in text


def test_a_made_form_is_shown(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text(CASES["template:made2#0"]["template"])
    found = detected(tmp_path / "own.jinja")
    assert found["tool_parser"] == "made"
    assert found["calls"]["call"] == "<do tool={name}>{args}</do>"
    assert "<hmm>" in found["made"]


def test_a_tokenizer_s_config_and_the_directory_of_a_model_are_taken(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": QWEN}))
    for path in (tmp_path, tmp_path / "tokenizer_config.json"):
        assert detected(path)["tool_parser"] == "qwen3coder"


def test_vocabulary_and_architecture_of_a_directory_count(tmp_path: Path) -> None:
    plain = "{{ tools | string }}{% for m in messages %}{{ m.content }}{% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(plain)
    assert detected(tmp_path)["tool_parser"] is None
    (tmp_path / "config.json").write_text('{"architectures": ["SeedOssForCausalLM"]}')
    assert detected(tmp_path)["tool_parser"] == "seed"
    tokens = [
        {"id": 0, "content": "<|tool_call_start|>"},
        {"id": 1, "content": "<|tool_call_end|>"},
    ]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
    assert detected(tmp_path)["tool_parser"] == "lfm2"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("own.jinja", "{% if %}", "own.jinja:1"),
        ("own.txt", "x", "expected a .jinja file"),
        ("missing.jinja", None, "no such file"),
    ],
)
def test_what_cannot_be_analysed_is_named(
    tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    done = graphrt("detect", str(tmp_path / name))
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr

"""Conformance cases of chat templates, ``chat_template.jsonl``."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from calculators.images.media.tags import with_tags
from calculators.llm.api.openai.responses_input import read_input
from calculators.llm.parsers.families import AnswerFamily
from calculators.llm.parsers.harmony import GptOssParser
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import ToolForm, reasoning_parser, tool_parser
from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis, analyze
from calculators.llm.prompt.chat_template.chat_renderer import prepare_history
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.requests.messages import normalise_messages
from calculators.llm.requests.request_limits import RequestLimits
from graph_runtime import GraphError
from tests.corpora import corpora

CASES_FILE = corpora() / "chat_template.jsonl"
CASES: list[dict[str, Any]] = [
    json.loads(line) for line in CASES_FILE.read_text(encoding="utf-8").splitlines() if line
]

#: Processors that are not about templates.
ELSEWHERE = {
    "AudioDecodingProcessor": "decoding audio is not a matter of templates",
    "ImageDecodingProcessor": "decoding images is not a matter of templates",
    "RawPromptExtractor": "a raw prompt passes no template",
}
#: OpenVINO Model Server writes a line end between two parts of text.
CONCATENATED = (
    "TextArrayContent_FlattenedByNormalizationProcessor/CHAT_COMPLETIONS",
    "TextArrayContent_FlattenedByNormalizationProcessor/RESPONSES",
    "MultipleTextPartsJoinedWithNewline",
)


def why_not(case: dict[str, Any]) -> str | None:
    if case.get("is_omni"):
        return "the tokens of sounds are written into the prompt, and are not in the messages"
    if case["id"].partition("#")[0].endswith(CONCATENATED):
        return "texts follow each other without a line end, as in other servers"
    return ELSEWHERE.get(case.get("processor", ""))


def template_of(case: dict[str, Any]) -> ChatTemplate:
    return ChatTemplate.of_source(
        case["template"], bos_token=case.get("bos_token", ""), eos_token=case.get("eos_token", "")
    )


def declared_name(form: ToolForm) -> str:
    """Return the name of a declaration, which may have been found by an alias."""
    if isinstance(form, AnswerFamily):
        return form.name
    return "gptoss" if form is GptOssParser else "onyx"


def marks_of(name: str | None) -> object:
    return name and OutputParsers(None, reasoning_parser(name)).reasoning_marks


def check_analysis(found: TemplateAnalysis, expected: dict[str, Any]) -> None:
    if "tool_parser" in expected:
        name = expected["tool_parser"]
        assert found.tool_parser == (name and declared_name(tool_parser(name)))
    if "reasoning_parser" in expected:
        # Families have marks in common, whose parsers have several names there.
        assert marks_of(found.reasoning_parser) == marks_of(expected["reasoning_parser"])
    for name, value in expected.get("caps", {}).items():
        assert getattr(found, name) == value, name


def check_prompt(prompt: str, expected: dict[str, Any]) -> None:
    assert prompt == expected.get("prompt", prompt)
    assert prompt.endswith(expected.get("prompt_endswith", ""))
    for part in expected.get("prompt_contains", ()):
        assert part in prompt
    for part in expected.get("prompt_not_contains", ()):
        assert part not in prompt
    if "prompt_empty" in expected:
        assert (not prompt) is expected["prompt_empty"]


def at(value: Any, path: str) -> Any:
    """Resolve a path such as ``messages[0].content|len``."""
    path, _, length = path.partition("|")
    for step in path.replace("[", ".").replace("]", "").split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return len(value) if length else value


def check_path(document: dict[str, Any], check: dict[str, Any]) -> None:
    value = at(document, check["path"])
    expected = check["value"]
    match check["op"]:
        case "eq" if isinstance(value, dict):
            assert value == json.loads(expected)
        case "eq":
            assert value == expected
        case ">=":
            assert value >= expected
        case "is" if expected != "ChatHistory":
            types: dict[str, type] = {
                "array": list,
                "string": str,
                "object": dict,
                "null": type(None),
            }
            assert isinstance(value, types[expected])
        case "has":
            assert (expected in value) is not check.get("not", False)
        case _:
            assert check["path"] == "messages"  # "is ChatHistory": a type of the library


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case_has_the_expected_outcome(case: dict[str, Any]) -> None:
    reason = why_not(case)
    if reason is not None:
        pytest.skip(reason)
    expected = case["expected"]
    match case["kind"]:
        case "render":
            run_render(case, expected)
        case "analyze":
            found = analyze(template_of(case)) if case["template"] else TemplateAnalysis()
            check_analysis(found, expected)
        case "adapter":
            messages = prepare_history(case["messages"], TemplateAnalysis(**case["caps"]))
            assert messages == expected["messages"]
            for check in case["extra_checks"]:
                check_path({"messages": messages}, check)
        case "processor":
            messages = prepare_history(case["messages"])
            if "template" in case:
                prompt = template_of(case).render(
                    messages, template_kwargs=case.get("chat_template_kwargs")
                )
                check_prompt(prompt, expected)
            elif case["processor"] == "EmptyContentArrayNormalizationProcessor":
                # The next step of the chain would join the text parts that this one keeps.
                messages = case["messages"]
            for check in case.get("extra_checks", ()):
                check_path({"messages": messages}, check)
        case "pipeline":
            run_pipeline(case, expected)
        case kind:
            pytest.fail(f"unknown kind of case: {kind}")


def run_render(case: dict[str, Any], expected: dict[str, Any]) -> None:
    template = template_of(case)
    found = analyze(template)
    check_analysis(found, expected)

    def prompt() -> str:
        request = json.loads(case["request_body"]) if "request_body" in case else case
        return template.render(
            prepare_history(request["messages"], found),
            tools=request.get("tools"),
            template_kwargs=request.get("chat_template_kwargs"),
        )

    if expected.get("raises") or expected.get("ok") is False:
        with pytest.raises((GraphError, ValueError), match=re.escape(expected.get("error", ""))):
            prompt()
    else:
        check_prompt(prompt(), expected)


def run_pipeline(case: dict[str, Any], expected: dict[str, Any]) -> None:
    request = case["request"]
    try:
        if case["endpoint"] == "/v3/responses":
            messages = read_input(request.get("input"), RequestLimits(max_images=8)).messages
        else:
            messages = normalise_messages(request.get("messages"))
    except GraphError:
        assert not expected["parse_ok"]
        return
    assert expected["parse_ok"]
    template = template_of(case)
    history = prepare_history(with_tags(messages), analyze(template))
    check_prompt(template.render(history), expected)

"""OpenVINO Model Server's cases of parsers.

For streams the sum of the deltas is compared, not each chunk. Cases whose expectation does not
count here are listed in `case_exceptions`, with the one that does.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.calculators.llm.parsers.case_exceptions import EXCEPTIONS, exception_of
from tests.calculators.llm.parsers.said import Said, events_of, parsers, said
from tests.corpora import corpora

CASES: Final = corpora() / "parsers.jsonl"


def load() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def outcome(case: dict[str, Any], *, whole: bool = False) -> Said:
    given = case.get("chunks") or case["model_output"]
    chunks = [given] if isinstance(given, str) else given
    stream = parsers(case["tool_parser"], case["reasoning_parser"]).start(
        tools=case.get("tools_schemas", {}) if case["tools_available"] else None,
        prompt=case.get("rendered_prompt") or "",
    )
    return said(events_of(stream, ["".join(chunks)] if whole else chunks))


def expectation(case: dict[str, Any]) -> dict[str, Any]:
    """Return the expectation for the whole answer, in the form of unary cases."""
    expected = case["expected"]
    if isinstance(expected, dict):
        return expected
    content, reasoning = "", ""
    calls: list[dict[str, str]] = []
    for document in expected:
        delta = (document or {}).get("delta", {})
        content += delta.get("content", "")
        reasoning += delta.get("reasoning_content", "")
        for call in delta.get("tool_calls", []):
            function = call["function"]
            if "name" in function:
                calls.append({"name": function["name"], "arguments": ""})
            calls[-1]["arguments"] += function.get("arguments", "")
    return {
        "content": content,
        "reasoning_content": reasoning,
        "tool_calls": calls,
        "tool_calls_count": len(calls),
    }


def without_padding(expected: dict[str, Any]) -> dict[str, Any]:
    """Leave out white space before a last call and around reasoning.

    It is what templates write around them, so text without it is rendered as the model wrote it.
    """
    found = dict(expected)
    content = found.get("content")
    if content and (found.get("tool_calls") or found.get("tool_calls_count")):
        found["content"] = content = content.rstrip()
    if reasoning := found.get("reasoning_content"):
        found["reasoning_content"] = reasoning.strip()
        if content:
            found["content"] = content.lstrip()
    return found


def arguments_are_the_same(ours: str, theirs: str) -> bool:
    """Compare as JSON; if they are not JSON, ignore white space."""
    try:
        return bool(json.loads(ours) == json.loads(theirs))
    except ValueError:
        return "".join(ours.split()) == "".join(theirs.split())


def differences(got: Said, expected: dict[str, Any]) -> list[str]:
    found = []
    if got.content != expected.get("content", got.content):
        found.append(f"content {got.content!r}, not {expected['content']!r}")
    if got.reasoning != expected.get("reasoning_content", got.reasoning):
        found.append(f"reasoning {got.reasoning!r}, not {expected['reasoning_content']!r}")
    calls = expected.get("tool_calls", [{}] * len(got.calls))
    if len(got.calls) != expected.get("tool_calls_count", len(calls)):
        found.append(f"calls {got.calls}, not {calls}")
    for (name, arguments), call in zip(got.calls, calls, strict=False):
        if name != call.get("name", name):
            found.append(f"call of {name}, not {call['name']}")
        if not arguments_are_the_same(arguments, call.get("arguments", arguments)):
            found.append(f"arguments {arguments}, not {call['arguments']}")
    return found


def failed_checks(got: Said, case: dict[str, Any]) -> list[str]:
    """Return the checks about one member that fail."""
    failed = []
    for check in case.get("extra_checks", []):
        path, _, member = check["path"].partition(").")
        value: Any = got.content
        if path.startswith("json(tool_calls[0].arguments"):
            value = json.loads(got.calls[0][1])
            value = value[member] if member else value
        wanted = check["value"]
        match check["op"]:
            case "eq":
                holds = value == (json.loads(wanted) if isinstance(value, list) else wanted)
            case "has" | "contains":
                holds = wanted in value
            case "is":
                holds = isinstance(value, {"string": str, "array": list}[wanted])
            case _:
                holds = False  # "parse_error", which was checked above
        if holds is bool(check.get("not")):
            failed.append(str(check))
    return failed


def parts(case: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return texts that have to be in the answer, or must not be, where a case says only that."""
    entries = case["expected"] if isinstance(case["expected"], list) else []
    return [
        (text, wanted)
        for entry in entries
        if entry is not None
        for key, wanted in (("contains", True), ("not_contains", False))
        for text in entry.get(key, [])
    ]


def missing_parts(got: Said, wanted: list[tuple[str, bool]]) -> list[str]:
    answer = {"content": got.content, "tool_calls": [{"name": name} for name, _ in got.calls]}
    shown = json.dumps({key: value for key, value in answer.items() if value})
    shown = shown.replace(": ", ":")
    return [text for text, is_in in wanted if (text in shown) is not is_in]


@pytest.mark.parametrize("case", load(), ids=lambda case: str(case["id"]))
def test_a_case_comes_out_as_expected(case: dict[str, Any]) -> None:
    got = outcome(case)
    assert outcome(case, whole=True) == got
    if parts(case):
        found = missing_parts(got, parts(case))
    else:
        wanted = without_padding(expectation(case))
        found = differences(got, wanted) + failed_checks(got, case)
    exception = exception_of(case)
    if exception is not None:
        reason, ours = exception
        assert found, f"no exception any more: {reason}"
        assert differences(got, without_padding(ours)) == []
    else:
        assert found == []


def test_every_exception_has_a_case() -> None:
    assert EXCEPTIONS.keys() <= {case["id"] for case in load()}

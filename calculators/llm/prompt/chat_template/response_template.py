"""`declared_family`: a checkpoint's own ``response_template`` as a declaration.

Hugging Face's tokenizers may say, in ``tokenizer_config.json``, how answers are taken apart: a
field for the reasoning and one for calls, each between texts or regular expressions. What is a
pattern of marks becomes a declaration; other regular expressions are left to the detector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.parsers.families import AnswerFamily, CallSyntax, ReasoningMarks

NAME: Final = "declared"
_THOUGHTS: Final = ("thinking", "reasoning_content", "reasoning")
_GROUP: Final = re.compile(r"\(\?P<(\w+)>(?:\[[^\]]*\]|\\?.)[*+]\??\)")
_SPACE: Final = re.compile(r"\\s[*+]\??|\\n\??")
_ESCAPED: Final = re.compile(r"\\(.)")
#: What a text has in no other place than a regular expression.
_OPERATOR: Final = re.compile(r"(?<!\\)[*+?|()\[\]^$.]|\\[wdsSWDb]")


def declared_family(template: Mapping[str, Any] | None) -> AnswerFamily:
    """Return the forms of a ``response_template``, as far as patterns of marks can say them."""
    fields = template.get("fields") if isinstance(template, Mapping) else None
    fields = fields if isinstance(fields, Mapping) else {}
    thoughts = (fields.get(name) for name in _THOUGHTS)
    reasoning = next((_marks(each) for each in thoughts if isinstance(each, Mapping)), None)
    calls = fields.get("tool_calls")
    return AnswerFamily(
        name=NAME,
        calls=_calls(calls) if isinstance(calls, Mapping) else None,
        reasoning=reasoning,
    )


def _marks(field: Mapping[str, Any]) -> ReasoningMarks | None:
    begin, end = _text(field, "open"), _text(field, "close")
    return ReasoningMarks((begin.strip(),), (end.strip(),)) if begin and end else None


def _calls(field: Mapping[str, Any]) -> CallSyntax | None:
    begin, end = _text(field, "open"), _text(field, "close")
    if not begin or end is None:
        return None
    arguments = field.get("content_args")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    match field.get("content"):
        case "json" if "{name}" in begin and arguments.get("unquoted_keys"):
            quotes = arguments.get("string_delims") or [[""]]
            # The braces around the arguments are a part of them here.
            return CallSyntax(call=f"{begin}{{{{gemma}}}}{end}", quote=str(quotes[0][0]))
        case "json" if "{name}" in begin:
            return CallSyntax(call=f"{begin}{{json}}{end}")
        case "json":
            return CallSyntax(call=f"{begin}{{object}}{end}", **_members(field.get("transform")))
        case "xml-inline" if "{name}" in begin:
            argument = _text({"open_pattern": arguments.get("tag_pattern")}, "open")
            if argument and "{key}" in argument and "{value}" in argument:
                pads = bool(re.search(r"\n\s*\{value\}", argument))
                return CallSyntax(call=f"{begin}{{args}}{end}", argument=argument, trims_lines=pads)
    return None


def _members(transform: Any) -> dict[str, Any]:
    """Return the members of an object with name and arguments, as a transformation names them."""
    function = transform.get("function", transform) if isinstance(transform, Mapping) else {}
    names = {
        member: match[1]
        for member in ("name", "arguments")
        if (match := re.fullmatch(r"\{content\.(\w+)\}", str(function.get(member))))
    }
    found: dict[str, Any] = {}
    if "name" in names:
        found["name_key"] = names["name"]
    if "arguments" in names:
        found["argument_keys"] = (names["arguments"],)
    return found


def _text(field: Mapping[str, Any], side: str) -> str | None:
    """Return the text at one side of a field, with fields of patterns; None if it is no pattern."""
    literal = field.get(side)
    if isinstance(literal, list) and literal:
        literal = literal[0]
    if isinstance(literal, str):
        return literal
    pattern = field.get(f"{side}_pattern")
    if not isinstance(pattern, str):
        return None
    groups: list[str] = []

    def named(match: re.Match[str]) -> str:
        groups.append(match[1])
        return f"\0{len(groups) - 1}\0"

    text = _SPACE.sub("\n", _GROUP.sub(named, pattern))
    if _OPERATOR.search(text):
        return None
    text = _ESCAPED.sub(r"\1", text)
    for place, name in enumerate(groups):
        text = text.replace(f"\0{place}\0", f"{{{name}}}")
    return text

"""Makes declarations of the text that a template writes, and of what a checkpoint says.

`made_calls`: what stands around names, keys and values of two marked calls is their form. It
proposes forms; whether one is right is for a reader to say, which has to find the marked calls.

`declared_family`: Hugging Face's tokenizers may say in ``response_template``, a member of
``tokenizer_config.json``, how answers are taken apart: a field for the reasoning and one for calls,
each between texts or regular expressions. What is a pattern of marks becomes a declaration; other
regular expressions are left to the detector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from calculators.llm.parsers.families import AnswerFamily, CallSyntax, ReasoningMarks

#: A mark that a text ends in the middle of.
_BEGUN: Final = re.compile(r"[<\[][^<>\[\]\s]*\Z")
#: The rest of a mark at the beginning of a text.
_CUT: Final = re.compile(r"[^<\[({\s]*[>\])}]+\s*|\s+")
_NUMBER: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class MarkedCall:
    """A call whose parts are found in texts by their own words.

    Attributes:
        arguments: of the first call a text, a number and an object that ends with a list, in this
            order.
    """

    name: str
    id: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Core:
    """A call without what stands before and after it.

    Attributes:
        pattern: of the text between ``begin`` and ``end``.
        made: the form, as far as the arguments decide it.
    """

    begin: int
    end: int
    pattern: str
    made: CallSyntax


def made_calls(text: str, calls: Sequence[MarkedCall]) -> Iterator[CallSyntax]:
    """Propose forms for the calls in a text, the most specific first.

    Args:
        text: what the calls add to an assistant's turn, without the end of the turn.
        calls: one or two.
    """
    for core in _cores(text, calls[0]):
        others = _alike(core, text, calls) if len(calls) > 1 else []
        found = [_split(core, second, text, calls) for second in others]
        if len(calls) == 1:
            call = text[: core.begin] + core.pattern + text[core.end :]
            found = [replace(core.made, call=call, only_one=True)]
        # Arguments of which each has marks go on up to a mark of the call.
        is_open = core.pattern.endswith(("{args}", "{tree}"))
        found = [
            each for each in found if not (is_open and each.call.rstrip().endswith(core.pattern))
        ]
        yield from (_finished(each, calls) for each in found)


def common_length(one: str, other: str) -> int:
    """Return for how many letters two texts begin alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def without_cut_mark(text: str) -> str:
    """Return a text without white space and the rest of a mark at its beginning."""
    while (cut := _CUT.match(text)) is not None:
        text = text[cut.end() :]
    return text


def _alike(core: _Core, text: str, calls: Sequence[MarkedCall]) -> Iterator[_Core]:
    """Yield what may be the second call, in the form of the first."""
    name, arguments = calls[1].name, calls[1].arguments
    start = text.find(name, core.end)
    if start < 0:
        return
    field = re.search(r"\{(object|keyed|json|args|python|gemma|tree)\}", core.pattern)
    kind = "" if field is None else field[1]
    if kind in ("object", "keyed"):
        for brace in re.finditer(r"\{", text[core.end : start]):
            begin = core.end + brace.start()
            end = _json_end(text, begin)
            if end > start:
                yield _Core(begin, end, core.pattern, core.made)
        return
    if kind == "json":
        first = text.find("{", start)
        end = _json_end(text, first) if first >= 0 else -1
        if end > 0:
            yield _Core(start, end, core.pattern, core.made)
        return
    # The one argument of the second call is a text.
    (value,) = arguments.values()
    end = text.find(value, start) + len(value) + core.made.has_json_values
    if kind == "args":
        close = core.made.argument.partition("{value}")[2]
        end = _end_of(close, text, end)
    elif kind == "python":
        end = text.index(")", end) + 1 if ")" in text[end:] else len(text)
    elif kind == "gemma":
        end += len(core.made.quote) + 1
    else:
        found = re.compile(rf"[^<]*(?:\]<\][^<]*)?</{_key(arguments)}>").match(text, end)
        end = found.end() if found else end
    yield _Core(start, end, core.pattern, core.made)


def _key(arguments: Mapping[str, Any]) -> str:
    return re.escape(next(iter(arguments)))


def _end_of(literal: str, text: str, place: int) -> int:
    """Return the end of a literal, white space aside; ``place`` where it does not stand."""
    if text.startswith(literal, place):
        return place + len(literal)
    end = place
    for letter in filter(lambda each: not each.isspace(), literal):
        while end < len(text) and text[end].isspace():
            end += 1
        if not text.startswith(letter, end):
            return place
        end += 1
    return end


def _split(first: _Core, second: _Core, text: str, calls: Sequence[MarkedCall]) -> CallSyntax:
    """Return the form, with what stands around all calls and around each."""
    before = _with_fields(text[: first.begin], calls[0])
    between = _with_fields(text[first.end : second.begin], calls[1])
    after = text[second.end :]
    begin = _numbered(before, between)
    if begin is not None:
        before, between = begin
    size = common_length(before[::-1], between[::-1])
    opening = without_cut_mark(between[len(between) - size :])
    rest = between[: len(between) - len(opening)]
    closing = after[: common_length(rest, after)]
    begun = _BEGUN.search(closing)
    closing = closing[: begun.start()] if begun else closing
    closing = closing.rstrip()
    section = (before[: len(before) - len(opening)], after[len(closing) :])
    is_list = section[0].rstrip().endswith("[") and section[1].lstrip().startswith("]")
    if is_list:
        section = (section[0].rstrip()[:-1], section[1].lstrip()[1:])
    if not (section[0].strip() or section[1].strip()):
        section = ("", "")
    return replace(
        first.made,
        call=opening + first.pattern + closing,
        section=section,
        separator=rest[len(closing) :],
        is_list=is_list,
    )


def _finished(made: CallSyntax, calls: Sequence[MarkedCall]) -> CallSyntax:
    call = _with_fields(made.call, calls[0])
    has_mark = bool(made.section[0].strip() or not call.lstrip().startswith("{"))
    return replace(made, call=call, is_bare=not has_mark)


def _with_fields(text: str, call: MarkedCall) -> str:
    return text.replace(call.id, "{id}")


def _numbered(before: str, between: str) -> tuple[str, str] | None:
    """Return both texts with a field for the number that counts the calls; None without one."""
    ends = [list(_NUMBER.finditer(each)) for each in (before, between)]
    if not (ends[0] and ends[1]):
        return None
    one, two = ends[0][-1], ends[1][-1]
    if int(two[0]) != int(one[0]) + 1 or before[one.end() :] != between[two.end() :]:
        return None
    return (
        before[: one.start()] + "{n}" + before[one.end() :],
        between[: two.start()] + "{n}" + between[two.end() :],
    )


# Where the arguments stand ------------------------------------------------------------------------


def _cores(text: str, call: MarkedCall) -> Iterator[_Core]:
    yield from _json_cores(text, call)
    start = text.find(call.name)
    if start < 0:
        return
    places = [text.find(key, start) for key in call.arguments]
    if min(places) < start or places != sorted(places):
        return
    for make in (_pairs, _python, _gemma, _tree):
        yield from make(text, start, places, call)


def _json_cores(text: str, call: MarkedCall) -> Iterator[_Core]:
    for brace in re.finditer(r"\{", text):
        begin = brace.start()
        end = _json_end(text, begin)
        if end < 0:
            continue
        value = json.loads(text[begin:end], strict=False)
        if value == call.arguments:
            name = text.rfind(call.name, 0, begin)
            if name < 0:
                continue
            gap = text[name + len(call.name) : begin].replace(call.id, "{id}")
            yield _Core(name, end, "{name}" + _counted(gap) + "{json}", CallSyntax(call=""))
        elif value == {call.name: call.arguments}:
            yield _Core(begin, end, "{keyed}", CallSyntax(call=""))
        elif call.name in [each for each in value.values() if isinstance(each, str)]:
            keys = [key for key, each in value.items() if _object(each) == call.arguments]
            if keys:
                name_key = next(key for key, each in value.items() if each == call.name)
                made = CallSyntax(call="", name_key=name_key, argument_keys=tuple(keys[:1]))
                yield _Core(begin, end, "{object}", made)


def _counted(gap: str) -> str:
    """Return what stands between a name and its arguments with a field for a number."""
    return _NUMBER.sub("{n}", gap, count=1) if len(_NUMBER.findall(gap)) == 1 else gap


def _json_end(text: str, begin: int) -> int:
    """Return the end of the JSON object that begins at a place; -1 if there is none."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, begin)
    except (ValueError, RecursionError):
        return -1
    return end if isinstance(value, dict) else -1


def _object(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _pairs(text: str, start: int, places: list[int], call: MarkedCall) -> Iterator[_Core]:
    """Find arguments one by one: what stands around the keys and values is the same for all."""
    keys, values = list(call.arguments), list(call.arguments.values())
    spans = []
    for key, place, value in zip(keys, places, values, strict=True):
        shown = str(value) if not isinstance(value, dict) else "{"
        begin = text.find(shown, place + len(key))
        if begin < 0:
            return
        end = begin + len(shown)
        if isinstance(value, dict):
            closing = re.compile(r"[^\]]*\]\s*\}").match(text, begin)
            if closing is None:
                return
            end = closing.end()
        spans.append((place, place + len(key), begin, end))
    (_, key_end, value_begin, value_end), second, third = spans
    # A text between quotes, where a number has none, is JSON.
    is_json = text[value_begin - 1] == text[value_end] == '"' != text[second[2] - 1]
    if is_json:
        value_begin, value_end = value_begin - 1, value_end + 1
    to_value, typed = text[key_end:value_begin], text[second[1] : second[2]]
    to_key = text[value_end : second[0]]
    if to_key != text[second[3] : third[0]]:
        return
    if to_value != typed:
        marked = _typed(to_value, typed)
        if marked is None:
            return
        to_value = marked
    head = text[start + len(call.name) : places[0]]
    size = common_length(head[::-1], to_key[::-1])
    begin_mark = without_cut_mark(to_key[len(to_key) - size :])
    close = to_key[: len(to_key) - len(begin_mark)]
    if not (begin_mark.strip() and to_value.strip() and close.strip()):
        return
    argument = f"{begin_mark}{{key}}{to_value}{{value}}{close}"
    pads = to_value.endswith("\n") and close.startswith("\n")
    head = head[: len(head) - len(begin_mark)]
    end = _end_of(close, text, third[3])
    if close.strip() and end == third[3]:
        return
    made = CallSyntax(call="", argument=argument, trims_lines=pads, has_json_values=is_json)
    yield _Core(start, end, "{name}" + _counted(head) + "{args}", made)


def _typed(of_text: str, of_number: str) -> str | None:
    """Return what stands between key and value, with a field for the word that tells texts."""
    same = of_text[: common_length(of_text, of_number)]
    begin = re.search(r"\w*\Z", same)
    place = len(same) if begin is None else begin.start()
    word, other = _WORD.match(of_text, place), _WORD.match(of_number, place)
    if word is None or other is None or of_text[word.end() :] != of_number[other.end() :]:
        return None
    field = {"true": "{text}", "string": "{type}"}.get(word[0])
    return None if field is None else of_text[:place] + field + of_text[word.end() :]


def _end_of_list(text: str, start: int, call: MarkedCall, behind: str) -> int:
    """Return the end of what follows the list in the last argument; -1 if it does not."""
    *_, last = call.arguments.values()
    (items,) = last.values()
    found = re.compile(rf"{re.escape(str(items[-1]))}[^\]]{{0,12}}\]\s*\}}\s*,?\s*{behind}").search(
        text, start
    )
    return -1 if found is None else found.end()


def _python(text: str, start: int, places: list[int], call: MarkedCall) -> Iterator[_Core]:
    gap = text[start + len(call.name) : places[0]]
    end = _end_of_list(text, start, call, r"\)")
    if gap.strip() == "(" and end > 0 and text[places[0] :].startswith(f"{_first(call)}="):
        yield _Core(start, end, "{name}({python})", CallSyntax(call=""))


def _gemma(text: str, start: int, places: list[int], call: MarkedCall) -> Iterator[_Core]:
    gap = text[start + len(call.name) : places[0]]
    value = re.escape(str(call.arguments[_first(call)]))
    quoted = re.compile(rf"{_first(call)}:(.*?){value}\1[,}}]").match(text, places[0])
    end = _end_of_list(text, start, call, r"\}")
    if gap.endswith("{") and quoted is not None and quoted[1] and end > 0:
        yield _Core(start, end, "{name}" + gap + "{gemma}}", CallSyntax(call="", quote=quoted[1]))


def _tree(text: str, start: int, places: list[int], call: MarkedCall) -> Iterator[_Core]:
    last = list(call.arguments)[-1]
    end = text.rfind(f"</{last}>")
    begin = text.rfind("<", start, places[0])
    if end < places[-1] or begin < 0:
        return
    # The mark that comes before every element.
    value = re.escape(str(call.arguments[_first(call)]))
    lead = re.compile(rf"<{_first(call)}>{value}(.*?)</").search(text, start)
    own = "" if lead is None else lead[1]
    head = text[start + len(call.name) : begin].removesuffix(own)
    yield _Core(start, end + len(last) + 3, "{name}" + head + "{tree}", CallSyntax(call=""))


def _first(call: MarkedCall) -> str:
    return next(iter(call.arguments))


# What a checkpoint says ---------------------------------------------------------------------------

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
    reasoning = next(
        (_marks_of_field(each) for each in thoughts if isinstance(each, Mapping)), None
    )
    calls = fields.get("tool_calls")
    return AnswerFamily(
        name="declared",
        calls=_calls_of_field(calls) if isinstance(calls, Mapping) else None,
        reasoning=reasoning,
    )


def _marks_of_field(field: Mapping[str, Any]) -> ReasoningMarks | None:
    begin, end = _text_of_field(field, "open"), _text_of_field(field, "close")
    return ReasoningMarks((begin.strip(),), (end.strip(),)) if begin and end else None


def _calls_of_field(field: Mapping[str, Any]) -> CallSyntax | None:
    begin, end = _text_of_field(field, "open"), _text_of_field(field, "close")
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
            argument = _text_of_field({"open_pattern": arguments.get("tag_pattern")}, "open")
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


def _text_of_field(field: Mapping[str, Any], side: str) -> str | None:
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

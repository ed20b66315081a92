"""Finds how a model writes calls of tools, by asking its chat template.

A conversation with marked calls is rendered, and what the calls add to the prompt is read back by
every declaration of `FAMILIES`: one that gives exactly the marked calls is a model's form. Where
none does, a form is made from the text, and has to pass the same test. Templates that do not show
earlier calls may describe their form in the instructions about tools, or it shows in the prompt and
the vocabulary. The prose of a template decides nothing else (decision 0031).
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, product
from typing import Any, Final

from calculators.language.events import Arguments, Content, ToolCall
from calculators.llm.parsers.answer_reader import read_answer
from calculators.llm.parsers.families import FAMILIES, AnswerFamily, CallSyntax
from calculators.llm.parsers.pattern import atoms, head, sections, segments
from calculators.llm.parsers.registry import MADE
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from calculators.llm.prompt.chat_template.made_calls import (
    MarkedCall,
    common_length,
    made_calls,
    without_cut_mark,
)

USER: Final = {"role": "user", "content": "ZQUSER"}
TEXT: Final = "ZQTEXT"
THOUGHT: Final = "ZQTHOUGHT"
RESULT: Final = "ZQRESULT"
CALLS: Final = (
    # Nine letters and digits each, as Mistral's templates demand.
    MarkedCall(
        "zq_alpha",
        "zqid00001",
        {"zq_key": "zq value", "zq_num": 41, "zq_obj": {"zq_in": [1, "zq two"]}},
    ),
    MarkedCall("zq_beta", "zqid00002", {"zq_key": "zq other"}),
)
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "zq_key": {"type": "string", "description": "d"},
        "zq_num": {"type": "integer", "description": "d"},
        "zq_obj": {
            "type": "object",
            "description": "d",
            "properties": {
                "zq_in": {
                    "type": "array",
                    "description": "d",
                    "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                }
            },
        },
    },
    "required": ["zq_key"],
}
_SCHEMAS: Final = {call.name: _SCHEMA for call in CALLS}
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {"name": call.name, "description": "zq tool", "parameters": _SCHEMA},
    }
    for call in CALLS
]
#: The variables that ask a template for reasoning, and those that ask for none.
THINKING: Final[dict[str, Any]] = {
    "enable_thinking": True,
    "thinking": True,
    "thinking_mode": "enabled",
}
NOT_THINKING: Final[dict[str, Any]] = {
    "enable_thinking": False,
    "thinking": False,
    "thinking_mode": "disabled",
}


def tool_variables(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return tools under the names that templates read beside ``tools``.

    SmolLM3's take either of the first two, Firefunction's the others.
    """
    functions = [tool["function"] for tool in tools]
    return {
        "xml_tools": tools,
        "python_tools": [],
        "functions": json.dumps(functions, ensure_ascii=False),
        "datetime": f"{datetime.now():%Y-%m-%d %H:%M}",
    }


class ProbeChats:
    """Renders the conversations of probes, each once."""

    def __init__(self, template: ChatTemplate) -> None:
        self.template = template
        self._rendered: dict[str, str] = {}

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, tools: bool = True, **variables: Any
    ) -> str:
        """Return a prompt; "" where the template refuses the conversation."""
        key = json.dumps([messages, tools, variables])
        if key not in self._rendered:
            if tools:
                variables = {**tool_variables(TOOLS), **variables}
            try:
                self._rendered[key] = self.template.render(
                    messages, tools=TOOLS if tools else None, template_kwargs=variables
                )
            except ChatTemplateError:
                self._rendered[key] = ""
        return self._rendered[key]

    def turn(self, message: Mapping[str, Any], *after: Mapping[str, Any], **variables: Any) -> str:
        """Return what follows the user's text; "" where the template refuses it."""
        whole = self.render([USER, message, *after], add_generation_prompt=False, **variables)
        return whole.rpartition(USER["content"])[2] if USER["content"] in whole else ""

    def opening(self, *, tools: bool | None = None, **variables: Any) -> str:
        """Return the prompt of a user's text."""
        if tools is not None:
            return self.render([USER], tools=tools, **variables)
        return self.render([USER], **variables) or self.render([USER], tools=False, **variables)


def assistant(
    count: int = 0,
    text: Any = TEXT,
    *,
    as_text: bool = False,
    with_headers: bool = False,
    **members: Any,
) -> dict[str, Any]:
    """Return a turn of the assistant with so many of the marked calls.

    Args:
        text: the content.
        as_text: their arguments are JSON texts.
        with_headers: their ids have Kimi's form, which holds the name.
    """
    message: dict[str, Any] = {"role": "assistant", "content": text, **members}
    if count:
        message["tool_calls"] = [
            {
                "id": f"functions.{call.name}:{place}" if with_headers else call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments) if as_text else call.arguments,
                },
            }
            for place, call in enumerate(CALLS[:count])
        ]
    return message


def results(count: int) -> list[dict[str, Any]]:
    """Return the results of the first marked calls."""
    return [
        {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": f"{RESULT}{place}"}
        for place, call in enumerate(CALLS[:count])
    ]


@dataclass(frozen=True, slots=True)
class ShownCalls:
    """The text that marked calls add to a turn of the assistant.

    Attributes:
        text: from a whole mark on, up to the text of a result or the end.
        count: of the calls.
        as_text: the arguments were given as texts.
        content: of the message.
        variables: of the template.
    """

    text: str
    count: int
    as_text: bool
    content: str | None
    variables: Mapping[str, Any]

    @property
    def without_content(self) -> str:
        """The text after the message's own, where the template shows it."""
        has_content = self.content and self.content in self.text
        return self.text.partition(self.content or "")[2] if has_content else self.text


def shown_calls(chats: ProbeChats) -> Iterator[ShownCalls]:
    """Yield the texts of the marked calls, as far as the template shows all of them."""
    seen: set[str] = set()
    ways = product((False, True), (False, True), (2, 1), (TEXT, "", None), ({}, THINKING))
    for with_headers, as_text, count, content, variables in ways:
        header = chats.turn(assistant(), **variables).partition(TEXT)[0]
        message = assistant(count, content, as_text=as_text, with_headers=with_headers)
        for follow in (results(count), []):
            turn = chats.turn(message, *follow, **variables).partition(f"{RESULT}0")[0]
            if not _shows(turn, count):
                continue
            text = turn[_whole_mark(turn, common_length(turn, header)) :]
            if text not in seen:
                seen.add(text)
                yield ShownCalls(text, count, as_text, content, variables)


def _shows(text: str, count: int) -> bool:
    place = 0
    for call in CALLS[:count]:
        place = text.find(call.name, place)
        if place < 0:
            return False
    return all(word in text for word in ("zq value", *CALLS[0].arguments))


def _whole_mark(text: str, place: int) -> int:
    """Return the beginning of the mark in which a place is, or the place."""
    begun = re.search(r"[<\[\]][^<>\[\]\s]*\Z", text[:place])
    return place if begun is None or begun[0].endswith("]") else begun.start()


# Which declaration --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """The form of a model's calls.

    Attributes:
        name: of a declaration, `MADE`, or the name of a parser of channels.
        calls: a form that was made.
        found_by: the kind of evidence, a word for people.
        shown: what the template shows of earlier calls.
    """

    name: str = ""
    calls: CallSyntax | None = None
    found_by: str = ""
    shown: ShownCalls | None = None


#: Forms with readers of their own, and marks of a prompt with a call.
_CHANNELS: Final = {
    "gptoss": ("<|channel|>", "<|message|>", "<|start|>"),
    "onyx": ("<|start|>", "<|message|>", "to=", "<atem:invoke"),
}
#: Marks of prompts of templates that neither show nor describe calls.
_PROMPT_MARKS: Final = {"<|tool_list_start|>": "lfm2"}
#: Beginnings of the names of architectures whose models all write one form.
_ARCHITECTURES: Final = {
    "Apertus": "apertus",
    "DeepseekV32": "deepseek_v32",
    "DeepseekV4": "deepseek_v4",
    "Exaone4": "exaone4",
    "GraniteForCausalLM": "granite3",
    "GraniteMoeForCausalLM": "granite3",
    "HunYuan": "hunyuan",
    "KimiK2": "kimi_k2",
    "KimiK3": "kimi_k3",
    "Lfm2": "lfm2",
    "MiMoV2": "mimo",
    "MiniMaxM1": "minimax_m1",
    "MiniMaxM2": "minimax_m2",
    "MiniMaxM3": "minimax_m3",
    "Olmo3": "olmo3",
    "Qwen3Next": "qwen3coder",
    "SeedOss": "seed",
    "Step3p": "qwen3coder",
}
_PYTHONIC: Final = re.compile(r"\[\s*\w+\(\s*\w+\s*=\s*\w+")
_JSON_CALL: Final = re.compile(r'\{\s*"name"\s*:\s*[^"{},]{1,40},\s*"parameters"\s*:')


def find_calls(
    chats: ProbeChats,
    *,
    declared: CallSyntax | None = None,
    vocabulary: Container[str] = (),
    architecture: str = "",
    families: Mapping[str, AnswerFamily] = FAMILIES,
) -> FoundCalls:
    """Find the form of a model's calls.

    Args:
        declared: what the checkpoint says itself.
        vocabulary: the texts of its tokens.
        architecture: as its configuration names it.
        families: the declarations that are tried.
    """
    channels = _channels(chats)
    if channels:
        return FoundCalls(channels, found_by="channels")
    shown = shown_calls(chats)
    tried: list[ShownCalls] = []
    found = FoundCalls()
    if declared is not None:
        for each in _kept(shown, tried):
            if _left(AnswerFamily(name=MADE, calls=declared), each) is not None:
                return FoundCalls(*_named(declared, families), "the checkpoint", each)
        if not tried:
            return FoundCalls(*_named(declared, families), "the checkpoint")
    for each in chain(list(tried), _kept(shown, tried)):
        if name := _best(chats, each, families):
            found = FoundCalls(name, None, "its rendering", each)
            if _misses_begin(families[name], each):
                made = _made(chats, [each])
                if made and not _misses_begin(AnswerFamily(name=MADE, calls=made.calls), each):
                    return made
            break
    else:
        if (made := _made(chats, tried)) is not None:
            return made
    if found.name and not _is_bare(found.name, families):
        return found
    # A form without marks is the weakest evidence, so that what the instructions say counts more.
    told = _described(chats, families)
    if told and not (found.name and _is_bare(told, families)):
        return replace(found, name=told, found_by="the instructions in the prompt")
    if found.name:
        return found
    return replace(found, **_hint(chats, vocabulary, architecture, families, tried))


def _hint(
    chats: ProbeChats,
    vocabulary: Container[str],
    architecture: str,
    families: Mapping[str, AnswerFamily],
    tried: Sequence[ShownCalls],
) -> dict[str, Any]:
    prompt = chats.opening()
    for mark, name in _PROMPT_MARKS.items():
        if mark in prompt and name in families:
            return {"name": name, "found_by": "a mark in the prompt"}
    if tried:  # calls in a form that nothing explains
        return {"shown": tried[0]}
    for name, family in families.items():
        own = _own_marks(family.calls) if family.calls is not None else ()
        if len(own) > 1 and all(mark in vocabulary for mark in own):
            return {"name": name, "found_by": "the vocabulary"}
    for begin, name in _ARCHITECTURES.items():
        if architecture.startswith(begin) and name in families:
            return {"name": name, "found_by": "the architecture"}
    return {}


def _channels(chats: ProbeChats) -> str:
    shown = next(
        (
            turn
            for text in (None, TEXT)
            for as_text in (False, True)
            if (turn := chats.turn(assistant(1, text, as_text=as_text), *results(1)))
            and CALLS[0].name in turn
        ),
        "",
    )
    shown += chats.opening()
    return next((name for name, own in _CHANNELS.items() if all(mark in shown for mark in own)), "")


def _kept(shown: Iterator[ShownCalls], tried: list[ShownCalls]) -> Iterator[ShownCalls]:
    for each in shown:
        tried.append(each)
        yield each


def _named(
    calls: CallSyntax, families: Mapping[str, AnswerFamily]
) -> tuple[str, CallSyntax | None]:
    """Return the name of a declaration that writes the form, else `MADE` and the form."""
    for name, family in families.items():
        own = family.calls
        if own is not None and _bones(own) == _bones(calls):
            return name, None
    return MADE, calls


def _bones(calls: CallSyntax) -> tuple[Any, ...]:
    """Return the texts of a form without white space."""
    texts = (calls.call, calls.argument, *calls.section)
    return (*("".join(text.split()) for text in texts), calls.quote, calls.is_list)


def _is_bare(name: str, families: Mapping[str, AnswerFamily]) -> bool:
    calls = families[name].calls
    return calls is not None and calls.is_bare


def _best(chats: ProbeChats, shown: ShownCalls, families: Mapping[str, AnswerFamily]) -> str:
    """Return the declaration that reads the calls and explains most of the text; "" for none."""
    prompt = shown.text + chats.opening()
    rated: list[tuple[int, int, int, int, int, str]] = []
    for place, (name, family) in enumerate(families.items()):
        calls = family.calls
        if calls is None or not _may_fit(calls, shown.text):
            continue
        left = _left(family, shown)
        if left is None:
            continue
        explained = sum(len(mark) for mark in _own_marks(calls) if mark in shown.text)
        literals = [each.literal for p in (calls.call, calls.argument) for each in segments(p)]
        exact = sum(literal in shown.text for literal in literals if literal)
        exact += calls.is_list == _has_list(calls, shown)
        # Some families differ in the rest of an answer only.
        others = {*family.stops, *(mark.strip() for pair in family.answer for mark in pair)}
        if family.reasoning is not None:
            others |= {*map(str.strip, (*family.reasoning.begin, *family.reasoning.end))}
        alike = sum(bool(mark) and mark in prompt for mark in others)
        rated.append((left, -explained, -exact, -alike, place, name))
    return min(rated)[-1] if rated else ""


def _has_list(calls: CallSyntax, shown: ShownCalls) -> bool:
    text = "".join(shown.without_content.split())
    begin = calls.section[0].strip()
    return f"{begin}[" in text if begin else text.startswith("[")


def _may_fit(calls: CallSyntax, text: str) -> bool:
    """Return False for a form whose calls cannot be in the text, which saves a reading."""
    begins = [head(pattern) for pattern in (calls.call, *calls.accepts)]
    begins += [atoms(begin)[0] for begin, _ in sections(calls) if atoms(begin)]
    return calls.is_bare or any(begin and begin in text for begin in begins)


def _own_marks(calls: CallSyntax) -> tuple[str, ...]:
    return tuple(
        filter(None, (calls.section[0].strip(), head(calls.call), calls.section[1].strip()))
    )


def _left(family: AnswerFamily, shown: ShownCalls) -> int | None:
    """Return how much other text a reader leaves; None if it does not find exactly the calls."""
    # One that knows the end of the turn reads no better.
    family = replace(family, stops=())
    found = [_read(family, text, shown.count) for text in {shown.text, shown.without_content}]
    return min((len("".join(texts)) for texts in found if texts is not None), default=None)


def _read(family: AnswerFamily, text: str, count: int) -> tuple[str, str] | None:
    """Return what a reader leaves before the first call and after it; None as `_left`."""
    found: list[tuple[str, list[str]]] = []
    left = ["", ""]
    for event in read_answer(family, text, _SCHEMAS):
        match event:
            case ToolCall(name):
                found.append((name, []))
            case Arguments(part):
                found[-1][1].append(part)
            case Content(part):
                left[bool(found)] += part.strip()
            case _:
                pass
    if len(found) != count:
        return None
    for (name, parts), call in zip(found, CALLS, strict=False):
        try:
            arguments = json.loads("".join(parts))
        except (ValueError, RecursionError):
            return None
        if name != call.name or arguments != call.arguments:
            return None
    return left[0], left[1]


def _misses_begin(family: AnswerFamily, shown: ShownCalls) -> bool:
    """Return True if a form leaves a mark before the calls, which is a part of another form."""
    if not shown.content or shown.content not in shown.text:
        return False
    read = _read(family, shown.text, shown.count)
    return read is None or bool(read[0].replace(shown.content, "", 1).strip())


#: So many renderings of one conversation are tried for a form; the shortest form counts.
_TRIED: Final = 6
_CDATA: Final = "<![CDATA["


def _made(chats: ProbeChats, tried: Sequence[ShownCalls]) -> FoundCalls | None:
    """Make a form from the rendered calls; None if no reader finds the calls by one."""
    source = chats.template.files.main.text
    found: list[tuple[int, int, FoundCalls]] = []
    for shown in tried[:_TRIED]:
        for made in made_calls(_calls_alone(chats, shown), CALLS[: shown.count]):
            made = replace(made, has_cdata=bool(made.argument) and _CDATA in source)
            if _left(AnswerFamily(name=MADE, calls=made), shown) is not None:
                size = len(made.call) + sum(map(len, made.section))
                found.append((-shown.count, size, FoundCalls(MADE, made, "its rendering", shown)))
                break
    return min(found, key=lambda each: each[:2])[2] if found else None


def _calls_alone(chats: ProbeChats, shown: ShownCalls) -> str:
    """Return the text of the calls without the end of the turn, and without what comes before."""
    header, _, end = chats.turn(assistant(), **shown.variables).partition(TEXT)
    # Without a result after it, whose header would seem to be a part of the form.
    message = assistant(shown.count, shown.content, as_text=shown.as_text)
    turn = chats.turn(message, **shown.variables)
    if _shows(turn, shown.count):
        turn = turn[_whole_mark(turn, common_length(turn, header)) :].rstrip()
        same = common_length(turn[::-1], end.rstrip()[::-1])
        turn = turn.removesuffix(without_cut_mark(turn[len(turn) - same :]))
        shown = replace(shown, text=turn)
    return shown.without_content


def answer_marks(chats: ProbeChats, calls: CallSyntax) -> tuple[str, str]:
    """Return the texts around an answer of which calls are no part; either may be empty.

    Args:
        calls: the form, whose mark a prompt may end with.
    """
    opening = chats.opening()
    turn = chats.render([USER, assistant()], add_generation_prompt=False)
    if not opening or not turn.startswith(opening):
        return "", ""
    begin, _, end = turn[len(opening) :].partition(TEXT)
    if begin.strip():
        mark = calls.section[0].strip() or head(calls.call)
        begin = mark * (bool(mark) and opening.rstrip().endswith(mark)) + begin
    # What also ends a turn of calls ends the turn.
    of_calls = [chats.turn(assistant(1, None, as_text=each)) for each in (False, True)]
    ends = [each for each in of_calls if CALLS[0].name in each]
    same = min((common_length(end[::-1], each[::-1]) for each in ends), default=len(end))
    return begin.lstrip(), end.removesuffix(without_cut_mark(end[len(end) - same :]))


def _described(chats: ProbeChats, families: Mapping[str, AnswerFamily]) -> str:
    """Return the declaration whose marks the instructions about tools have."""
    system = {"role": "system", "content": "ZQSYSTEM"}
    with_tools = chats.opening(tools=True) or chats.render([system, USER])
    without = chats.opening(tools=False)

    def tells(mark: str) -> bool:
        return bool(mark) and mark in with_tools and mark not in without

    best, most = "", 0
    for name, family in families.items():
        if (calls := family.calls) is None:
            continue
        own = _own_marks(calls)
        first = head(calls.call)
        section = calls.section[0].strip()
        if first and first not in with_tools and not (section and section in with_tools):
            continue
        told = sum(len(mark) for mark in own if tells(mark))
        if calls.argument:
            mark = segments(calls.argument)[0].literal.strip()
            told = told + len(mark) if tells(mark) else 0
        if told > most:
            best, most = name, told
    if best:
        return best
    added = with_tools.replace(without, "") if without else with_tools
    if _PYTHONIC.search(added) and "pythonic" in families:
        return "pythonic"
    return "llama3" if _JSON_CALL.search(added) and "llama3" in families else ""

"""How a model marks its reasoning, and which variables of its template switch it on and off.

Both are seen in prompts: an earlier turn with marked reasoning, the beginning of an answer, and how
it differs by a variable. Templates raise for a word that they do not know, or leave it out;
requests have OpenAI's words, so they are translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from calculators.llm.parsers.families import FAMILIES, ReasoningMarks
from calculators.llm.prompt.chat_template.detector import (
    NOT_THINKING,
    TEXT,
    THINKING,
    THOUGHT,
    ProbeChats,
    assistant,
    results,
)
from calculators.llm.prompt.chat_template.made_calls import common_length

#: The members of a turn in which templates look for its reasoning, OpenAI's kin first.
MEMBERS: Final = ("reasoning_content", "reasoning", "thinking")
_MARK: Final = re.compile(r"\s*(<[^<>\n]*>|\[[^\[\]\n]*\]|\S+)")
_LAST_MARK: Final = re.compile(r"(<[^<>\n]*>|\[[^\[\]\n]*\])\s*\Z")
_SIDES: Final = re.compile("begin|start|open|prefix|end|stop|close|suffix")
_MORE: Final = {"role": "user", "content": "ZQMORE"}


def content_with_thought(form: str, thought: str, content: Any) -> Any:
    """Return a content that holds reasoning, in a form of `CONTENT_FORMS`."""
    text = [{"type": "text", "text": content}] if isinstance(content, str) and content else []
    parts = content if isinstance(content, list) else text
    match form:
        case "thinking":
            return [{"type": "thinking", "thinking": thought}, *parts]
        case "thinking parts":
            return [{"type": "thinking", "thinking": [{"type": "text", "text": thought}]}, *parts]
        case "reasoning":
            return [{"type": "reasoning", "text": thought}, *parts]
        case _:
            pass
    said = "".join(part.get("text", "") for part in parts)
    response = [{"type": "response", "text": said}] if said else []
    return {"blocks": [{"type": "thoughts", "text": thought}, *response]}


#: Ways in which templates take reasoning inside the content: Mistral's, Cohere's, Apertus's.
CONTENT_FORMS: Final = ("thinking", "thinking parts", "reasoning", "blocks")


@dataclass(frozen=True, slots=True)
class Switch:
    """A variable that changes what a template says about reasoning.

    Attributes:
        values: those that the template tells apart.
        default: the one that is as none; None where none is.
    """

    name: str
    values: tuple[Any, ...]
    default: Any = None


@dataclass(frozen=True, slots=True)
class FoundReasoning:
    """The marks of a model's reasoning.

    Attributes:
        marks: begin and end, without white space; None: the model shows none.
        found_by: the kind of evidence, a word for people.
        opens: "open", "closed" or "" for the prompt by default, with reasoning "on", and "off".
        content_form: of `CONTENT_FORMS`, where the template takes reasoning in no member.
    """

    marks: tuple[str, str] | None = None
    found_by: str = ""
    opens: Mapping[str, str] = field(default_factory=dict)
    content_form: str = ""


def _known_marks() -> list[tuple[str, str]]:
    """Return the marks of all declarations, the longest beginnings first."""
    pairs = {
        (begin.strip(), end.strip())
        for family in FAMILIES.values()
        if family.reasoning is not None
        for begin, end in zip(family.reasoning.begin, family.reasoning.end, strict=False)
    }
    return sorted(pairs, key=lambda pair: (-len(pair[0]), pair))


_KNOWN: Final = _known_marks()


def find_reasoning(
    chats: ProbeChats,
    own: ReasoningMarks | None = None,
    source: str = "",
    *,
    declared: ReasoningMarks | None = None,
) -> FoundReasoning:
    """Find the marks around a model's reasoning.

    Args:
        own: the marks of the family whose calls the model writes.
        source: the text of the template.
        declared: what the checkpoint says itself.
    """
    prompts = [chats.opening(**each) for each in ({}, THINKING, NOT_THINKING)]
    evidence = _evidence(chats, own, source, prompts)
    if declared is not None:
        evidence = chain([((declared.begin[0], declared.end[0]), "the checkpoint", "")], evidence)
    for marks, found_by, form in evidence:
        opens = {
            name: _opens(prompt, marks)
            for name, prompt in zip(("default", "on", "off"), prompts, strict=True)
        }
        return FoundReasoning(marks, found_by, opens, form)
    return FoundReasoning()


def _opens(prompt: str, marks: tuple[str, str]) -> str:
    tail = prompt.rstrip()
    if marks[0] and tail.endswith(marks[0]):
        return "open"
    return "closed" if tail.endswith(marks[1]) else ""


def _evidence(
    chats: ProbeChats, own: ReasoningMarks | None, source: str, prompts: list[str]
) -> Iterator[tuple[tuple[str, str], str, str]]:
    """Yield marks, why, and the form of a content that takes reasoning; the best reason first."""
    for turn, variables in _turns(chats):
        if THOUGHT in turn and (marks := _around(turn, chats, variables)):
            yield marks, "its rendering", ""
    for form in CONTENT_FORMS:
        turn = chats.turn(assistant(text=content_with_thought(form, THOUGHT, TEXT)))
        if re.search(rf"""(?<!['"]){THOUGHT}""", turn) and (marks := _around(turn, chats, {})):
            yield marks, "its rendering", form
    for begin, end in _KNOWN:
        if any(prompt.rstrip().endswith((begin, end)) for prompt in prompts):
            yield (begin, end), "the beginning of answers", ""
    # A template that cuts any text out of an earlier answer says nothing about marks.
    other = chats.render([*_asked(f"ZQ a b:\n{THOUGHT}[ZQ c d] {TEXT}"), _MORE])
    for begin, end in _KNOWN if THOUGHT in other else ():
        split = chats.render([*_asked(f"{begin}{THOUGHT}{end}{TEXT}"), _MORE])
        if TEXT in split and THOUGHT not in split:
            yield (begin, end), "what it leaves out of earlier answers", ""
    for begin, end in _KNOWN:
        if any(begin in prompt and end in prompt for prompt in prompts):
            yield (begin, end), "the instructions in the prompt", ""
    if own is not None:
        begin, end = own.begin[0].strip(), own.end[0].strip()
        if end in source or any(end in prompt for prompt in prompts):
            yield (begin, end), "its family", ""


def _asked(answer: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "ZQUSER"}, {"role": "assistant", "content": answer}]


def _turns(chats: ProbeChats) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield turns of the assistant with marked reasoning. Many show it only beside a call."""
    for count, follow in ((1, True), (0, False), (2, True), (1, False)):
        for as_text in (False, True) if count else (False,):
            for variables in ({}, THINKING):
                for names in (*((name,) for name in MEMBERS), MEMBERS):
                    members = dict.fromkeys(names, THOUGHT)
                    for text in (TEXT, "") if count else (TEXT,):
                        message = {**assistant(count, text, as_text=as_text), **members}
                        after = results(count) if follow else []
                        yield chats.turn(message, *after, **variables), variables


def _around(turn: str, chats: ProbeChats, variables: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the marks around the marked reasoning of a turn; None without any."""
    before, _, after = turn.partition(THOUGHT)
    for begin, end in _KNOWN:
        if before.rstrip().endswith(begin) and after.lstrip().startswith(end):
            return begin, end
    if before.endswith(('"', "'")):  # the whole message as JSON
        return None
    # Unknown marks: what stands between the beginning of the turn and the reasoning.
    openings = [chats.opening(**each) for each in (variables, THINKING, NOT_THINKING)]
    headers = [opening.rpartition("ZQUSER")[2] for opening in openings if opening]
    headers.append(chats.turn(assistant(), **variables))
    size = min((common_length(before, each) for each in headers if each), default=0)
    begin = before[size:].strip()
    mark = _MARK.match(after.partition(TEXT)[0]) if TEXT in after else None
    if mark is None:
        return None
    last = _LAST_MARK.search(before)
    if not begin and last is not None and _word(last[1]) == _word(mark[1]):
        begin = last[1]  # every turn begins with it, also one without reasoning
    return (begin, mark[1]) if begin else None


def _word(mark: str) -> str:
    """Return the letters of a mark without those that tell its beginning from its end."""
    letters = _SIDES.sub("", mark.lower())
    return "".join(filter(str.isalnum, letters)) or mark


# Switches -----------------------------------------------------------------------------------------

_ON_OFF: Final = {
    "enable_thinking": (True, False),
    "thinking": (True, False),
    "thinking_mode": ("enabled", "disabled", "adaptive"),
    "thinking_budget": (512, 0),
}
#: OpenAI's words for efforts, from none on, and the word of Tencent's for the first.
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_NO_EFFORT: Final = "no_think"
_NO_WORD: Final = "zqeffort"
#: The words that models know whose template writes any word into the prompt.
_USUAL: Final = ("low", "medium", "high")
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Switches:
    """The variables of one template that are about reasoning.

    Attributes:
        found: those that it reads.
        efforts: the template's words in place of a request's that it does not know.
    """

    found: tuple[Switch, ...] = ()
    efforts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, chats: ProbeChats) -> Switches:
        """Probe a template."""
        plain = chats.opening(tools=False) or chats.opening()
        found = []
        for name, values in _ON_OFF.items():
            prompts = {value: _prompt(chats, name, value) for value in values}
            if len({*prompts.values(), plain} - {""}) > 1:
                known = tuple(value for value in values if prompts[value])
                default = next((each for each in known if prompts[each] == plain), None)
                found.append(Switch(name, known, default))
        words, efforts = _efforts(chats, plain)
        if words:
            default = next((w for w in words if _prompt(chats, _EFFORT, w) == plain), None)
            found.append(Switch(_EFFORT, words, default))
        return cls(tuple(found), efforts)

    def applied(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables of a request in the words of this template."""
        given = dict(variables)
        names = {switch.name for switch in self.found}
        for name in ("enable_thinking", "thinking"):
            if isinstance(word := given.get(name), str) and word.lower() in _BOOLEANS:
                given[name] = _BOOLEANS[word.lower()]  # any text is true to a template
        thinks = given.get("enable_thinking", given.get("thinking"))
        if isinstance(thinks, bool) and not names.intersection(
            {"enable_thinking", "thinking"} & given.keys()
        ):
            for switch in self.found:
                if switch.name in _ON_OFF and len(switch.values) > 1:
                    given.setdefault(switch.name, switch.values[0 if thinks else 1])
            if not thinks and not names.intersection(_ON_OFF):
                for switch in self.found:
                    for word in {"none", _NO_EFFORT}.intersection(switch.values):
                        given[switch.name] = word
        effort = given.get(_EFFORT)
        if isinstance(effort, str):
            given[_EFFORT] = self.efforts.get(effort, effort)
        return given


_EFFORT: Final = "reasoning_effort"


def _prompt(chats: ProbeChats, name: str, value: Any) -> str:
    """Return the prompt of a chat with a variable; "" where the template refuses the value."""
    with_tools = chats.opening(tools=True, **{name: value})
    if not with_tools and chats.opening(tools=True):
        return ""
    return chats.opening(tools=False, **{name: value}) or with_tools


def _efforts(chats: ProbeChats, plain: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the words that the template knows, and a known word for each of the others."""
    prompts = {word: _prompt(chats, _EFFORT, word) for word in (*_EFFORTS, _NO_EFFORT, _NO_WORD)}
    other = prompts.pop(_NO_WORD)
    if len({*prompts.values(), other, plain}) == 1:
        return (), {}
    if not other:  # it raises for a word that it does not know
        known = [word for word, prompt in prompts.items() if prompt]
    else:
        known = [word for word in prompts if prompts[word] != other.replace(_NO_WORD, word)]
        if _NO_WORD in other:
            known = [word for word in (*_EFFORTS, _NO_EFFORT) if word in {*known, *_USUAL}]
    efforts: dict[str, str] = {}
    for word in _EFFORTS:
        if word in known:
            continue
        if word == "none" and _NO_EFFORT in known:
            efforts[word] = _NO_EFFORT
        elif near := _nearest(word, known, anywhere=not other or _NO_WORD in other):
            efforts[word] = near
    return tuple(known), efforts


def _nearest(word: str, known: list[str], *, anywhere: bool) -> str:
    """Return the known word that is nearest, the higher one of two; "" for none.

    Args:
        anywhere: a word that is not known must not be written. Otherwise only neighbours at the
            ends of the scale are taken for each other.
    """
    place = _EFFORTS.index(word)
    others = [
        (abs(_EFFORTS.index(each) - place), -_EFFORTS.index(each), each)
        for each in known
        if each in _EFFORTS
    ]
    if anywhere:
        return min(others)[2] if others else ""
    kin = {"minimal": "low", "xhigh": "max", "max": "xhigh"}.get(word, "")
    return kin if kin in known else ""

"""Cost of parsing an answer: CPU time per streamed token of every output parser.

    python -m bench.output_parsers [--write FILE]

A token is a chunk of four characters, and every chunk is fed alone, as in a stream.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Final

from bench.machine import add_write, describe_machine, publish
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import (
    reasoning_parser,
    reasoning_parser_names,
    tool_parser,
    tool_parser_names,
)

REPEATS: Final = 5
CHARACTERS: Final = 4
#: Length, in tokens, of the answers that are timed.
TOKENS: Final = 20_000
#: The aim, in microseconds.
LIMIT: Final = 10.0

PLAIN: Final = "The quick brown fox <i>jumps</i> over [the] lazy dog, {twice} a day; or 'so'. "
STRING: Final = "Some words of an argument that is long, with <b>tags</b> and so on. "
TOOLS: Final = {"f": {"type": "object", "properties": {"a": {"type": "string"}}}}


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a tool call: ``begin``, arguments, ``end``; ``string`` is one of the arguments.

    ``string`` has %s for a long text, ``small`` is a typical call.
    """

    begin: str
    end: str
    string: str
    small: str


def _json_form(begin: str, end: str) -> Form:
    return Form(begin, end, '{"a": "%s"}', '{"a": "Paris", "b": [1, 2.5, true], "c": {"d": null}}')


def _xml_form(block: tuple[str, str], function: str, parameter: str, ends: tuple[str, str]) -> Form:
    begin, end = block[0] + function, ends[0] + block[1]
    small = "".join(
        parameter % name + value + ends[1]
        for name, value in (("a", "Paris"), ("b", "[1, 2.5, true]"), ("c", '{"d": null}'))
    )
    return Form(begin, end, parameter % "a" + "%s" + ends[1], small)


FORMS: Final = {
    "hermes3": _json_form('<tool_call>\n{"name": "f", "arguments": ', "}\n</tool_call>\n"),
    "llama3": _json_form('<|python_tag|>{"name": "f", "parameters": ', "}\n"),
    "phi4": _json_form('functools[{"name": "f", "arguments": ', "}]\n"),
    "mistral": _json_form('[TOOL_CALLS][{"name": "f", "arguments": ', "}]\n"),
    "devstral": _json_form("[TOOL_CALLS]f[ARGS]", "</s>"),
    "qwen3coder": _xml_form(
        ("<tool_call>\n", "</tool_call>\n"),
        "<function=f>\n",
        "<parameter=%s>\n",
        ("</function>\n", "\n</parameter>\n"),
    ),
    "gptoss": _json_form(
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>", "<|call|>"
    ),
    "lfm2": Form(
        "<|tool_call_start|>[f(",
        ")]<|tool_call_end|>",
        "a='%s'",
        "a='Paris', b=[1, 2.5, True], c={'d': None}",
    ),
    "gemma4": Form(
        "<|tool_call>call:f{",
        "}<tool_call|>",
        'a:<|"|>%s<|"|>',
        'a:<|"|>Paris<|"|>,b:[1,2.5,true],c:{d:null}',
    ),
    "onyx": _xml_form(
        ("<atem:function_calls>\n", "</atem:function_calls>\n"),
        '<atem:invoke name="f">\n',
        '<atem:parameter name="%s">',
        ("</atem:invoke>\n", "</atem:parameter>\n"),
    ),
    "minicpm5": _xml_form(
        ("", "\n"), '<function name="f">', '<param name="%s">', ("</function>", "</param>")
    ),
}
REASONING_BEGINS: Final = {
    "qwen3": "<think>",
    "gptoss": "<|channel|>analysis<|message|>",
    "lfm2": "<think>",
    "gemma4": "<|channel>thought\n",
    "onyx": " to=self<|message|>",
    "minicpm5": "<think>",
}


def chunks(text: str, tokens: int = 0) -> list[str]:
    """Split ``text`` into tokens, repeated until there are ``tokens`` of them."""
    if tokens:
        text *= tokens * CHARACTERS // len(text) + 1
    return [text[place : place + CHARACTERS] for place in range(0, len(text), CHARACTERS)]


def microseconds(parsers: OutputParsers, answer: Sequence[str]) -> list[float]:
    """Return the microseconds of CPU time per chunk of each repetition, sorted."""
    results = []
    for _ in range(REPEATS):
        stream = parsers.start(tools=TOOLS)
        feed = stream.feed
        gc.collect()
        started = process_time()
        for chunk in answer:
            feed(chunk)
        stream.finish()
        results.append((process_time() - started) / len(answer) * 1e6)
    return sorted(results)


class Table:
    """A table of figures.

    Attributes:
        worst: the largest median so far.
    """

    def __init__(self, *columns: str) -> None:
        self.lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
        self.worst = 0.0

    def add(self, name: str, *cells: list[float]) -> None:
        shown = []
        for values in cells:
            self.worst = max(self.worst, median(values))
            shown.append(f"{median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})")
        self.lines.append("| " + " | ".join((name, *shown)) + " |")
        print(self.lines[-1], file=sys.stderr)


def tool_table() -> Table:
    table = Table("tool parser", "plain text", "many calls", "one long string", "one large object")
    large = json.dumps([{"key": "value", "n": [1, 2.5, True, None]}] * 1500)
    for name in tool_parser_names():
        if name not in FORMS:
            continue
        form, parsers = FORMS[name], OutputParsers(tool=tool_parser(name))
        long = form.begin + form.string % (STRING * (TOKENS * CHARACTERS // len(STRING))) + form.end
        answers = (
            chunks(PLAIN, TOKENS),
            chunks(form.begin + form.small + form.end, TOKENS),
            chunks(long),
            chunks(form.begin + _with_object(form, large) + form.end),
        )
        table.add(name, *(microseconds(parsers, answer) for answer in answers))
    return table


def _with_object(form: Form, large: str) -> str:
    """Return arguments with a large value that is not a string, as the form writes it."""
    for quote in ('"', "'", '<|"|>'):
        if f"{quote}%s{quote}" in form.string:
            if quote == "'":
                large = large.replace("true", "True").replace("null", "None").replace('"', "'")
            elif quote != '"':
                large = large.replace('"key"', "key").replace('"n"', "n").replace('"', quote)
            return form.string.replace(f"{quote}%s{quote}", large)
    return form.string.replace('"a"', '"b"').replace("=a>", "=b>") % large


def reasoning_table() -> Table:
    table = Table("reasoning parser", "plain text", "reasoning", "plain text, with a tool parser")
    for name in reasoning_parser_names():
        if name not in REASONING_BEGINS:
            continue
        parser = reasoning_parser(name)
        both = OutputParsers(tool_parser(name if name in FORMS else "hermes3"), parser)
        alone = OutputParsers(reasoning=parser)
        plain = chunks(PLAIN, TOKENS)
        reasoning = chunks(REASONING_BEGINS[name] + "".join(plain))
        table.add(
            name,
            microseconds(alone, plain),
            microseconds(alone, reasoning),
            microseconds(both, plain),
        )
    return table


def linearity_table() -> Table:
    """Return time per token at one size and at ten times that size: equal if time is linear."""
    sizes = (40_000, 400_000)
    answers: dict[str, Callable[[Form, int], str]] = {
        "a tag opened and never closed, then text": lambda form, size: _fill(form, PLAIN, size),
        "the beginning of a call again and again": lambda form, size: _fill(form, form.begin, size),
        "arrays in arrays": lambda form, size: _fill(form, "[", size),
        "an open string": lambda form, size: form.begin + form.string.split("%s")[0] + "x" * size,
    }
    columns = [f"{answer}, {size // CHARACTERS:,} tokens" for answer in answers for size in sizes]
    table = Table("tool parser", *columns)
    for name in tool_parser_names():
        if name not in FORMS:
            continue
        parsers = OutputParsers(tool=tool_parser(name))
        table.add(
            name,
            *(
                microseconds(parsers, chunks(make(FORMS[name], size)))
                for make in answers.values()
                for size in sizes
            ),
        )
    return table


def _fill(form: Form, piece: str, size: int) -> str:
    return form.begin + piece * (size // len(piece))


def report() -> str:
    """Return all tables as Markdown."""
    tools, reasoning, linearity = tool_table(), reasoning_table(), linearity_table()
    worst = max(tools.worst, reasoning.worst, linearity.worst)
    lines = [
        "# What output parsers cost",
        "",
        f"`python -m bench.output_parsers` on {describe_machine()}. Microseconds of CPU per token, "
        f"a chunk of {CHARACTERS} characters; median (minimum to maximum) of {REPEATS}. Answers of "
        f"{TOKENS:,} tokens and more.",
        "",
        *tools.lines,
        "",
        *reasoning.lines,
        "",
        "Text that could cost more the longer it is; the same at both sizes is linear:",
        "",
        *linearity.lines,
        "",
        f"The aim is under {LIMIT:.0f} µs per token: the worst median above is {worst:.1f} µs, "
        f"{'reached' if worst < LIMIT else 'not reached'}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_write(parser)
    arguments = parser.parse_args()
    text = report()
    publish(text, arguments.write)


if __name__ == "__main__":
    main()

"""What the forms of answers cost: parsing an answer, and making and compiling a grammar.

    python -m bench.answer_forms parsers [--write FILE]
    python -m bench.answer_forms grammars [--write FILE]

``parsers``: CPU time per streamed token of every output parser. A token is a chunk of four
characters, and every chunk is fed alone, as in a stream.

``grammars`` compiles the tools of ten agents, each as a forced tool and all together, and some
schemas, with the example model's vocabulary and with that of Qwen (151,851 tokens), which pip
fetches with the wheel of PyPI's ``dashscope``. Times are milliseconds of processor time.
"""

from __future__ import annotations

import argparse
import base64
import gc
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any, Final

import numpy as np
import openvino
import openvino_genai as genai

from bench.downloads import wheel
from bench.machine import (
    DEMO,
    ROOT,
    add_write,
    describe_machine,
    head,
    publish,
    row,
    run_command,
    say,
)
from calculators.llm.engine.constrained_decoding import CompileProbe, DetokenizerFiles
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import form_grammar
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import (
    reasoning_parser,
    reasoning_parser_names,
    tool_parser,
    tool_parser_names,
)

# Parsers ------------------------------------------------------------------------------------------

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
        self.lines = head(*columns)
        self.worst = 0.0

    def add(self, name: str, *cells: list[float]) -> None:
        self.worst = max(self.worst, *map(median, cells))
        shown = (f"{median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})" for each in cells)
        self.lines.append(row(name, *shown))
        say(self.lines[-1])


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


def parsers_report() -> list[str]:
    """Return all tables as Markdown."""
    tools, reasoning, linearity = tool_table(), reasoning_table(), linearity_table()
    worst = max(tools.worst, reasoning.worst, linearity.worst)
    return [
        "# What output parsers cost",
        "",
        f"`python -m bench.answer_forms parsers` on {describe_machine()}. Microseconds of CPU per "
        f"token, a chunk of {CHARACTERS} characters; median (minimum to maximum) of {REPEATS}. "
        f"Answers of {TOKENS:,} tokens and more.",
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


def parsers(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """CPU time per streamed token of every output parser."""
    add_write(parser)
    given = parser.parse_args(words)
    publish(parsers_report(), given.write)


# Grammars -----------------------------------------------------------------------------------------

_TOOLS: Final = ROOT / "tests" / "calculators" / "llm" / "grammars" / "corpora" / "agents.jsonl.gz"

_SCHEMAS: Final[dict[str, Any]] = {
    "string": {"type": "string"},
    "maxLength 1000": {"type": "string", "maxLength": 1000},
    "maxLength 524288": {"type": "string", "maxLength": 524_288},
    "integer of 53 bits": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
    "uri of 2083 letters": {"type": "string", "format": "uri", "maxLength": 2083},
    "host name": {"type": "string", "format": "hostname"},
    "pattern @": {"type": "string", "pattern": "@"},
    "letters of any script": {"type": "string", "pattern": r"^\p{L}+$"},
    "password": {"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d).{8,20}$"},
    "set": {"type": "array", "items": {"enum": list("abcdefg")}, "uniqueItems": True},
}


def qwen_tokens() -> list[bytes]:
    """Fetch the tokens of Qwen, with its special ones at the end."""
    with wheel("dashscope==2.0.2") as archive:
        lines = archive.read("dashscope/resources/qwen.tiktoken").splitlines()
    named = [b"<|endoftext|>", b"<|im_start|>", b"<|im_end|>"]
    extra = [f"<|extra_{i}|>".encode() for i in range(205)]
    return [*(base64.b64decode(line.split()[0]) for line in lines), *named, *extra]


def probe_of(tokens: list[bytes] | None) -> CompileProbe:
    """Return a probe with these tokens in the example model's tokenizer; None: its own."""
    files = DetokenizerFiles(DEMO)
    tokens = files.tokens if tokens is None else tokens
    xml, weights = files.with_tokens(tokens)
    tokenizer = genai.Tokenizer(
        (DEMO / "openvino_tokenizer.xml").read_text(encoding="utf-8"),
        openvino.Tensor(np.fromfile(DEMO / "openvino_tokenizer.bin", dtype=np.uint8)),
        xml,
        openvino.Tensor(weights),
    )
    probe = CompileProbe(tokenizer, len(tokens))
    probe.compile(Grammar('root ::= "warm"'))
    return probe


def forms() -> Iterator[tuple[str, Format]]:
    """Yield the forms with their names."""
    tools = [json.loads(line) for line in gzip.decompress(_TOOLS.read_bytes()).splitlines()]
    tags = [
        formats.tag(f'{{"t{i}": ', formats.json_schema(tool["schema"], ""), "}")
        for i, tool in enumerate(tools)
    ]
    for tool, tag in zip(tools, tags, strict=True):
        yield tool["id"], tag
    yield f"all {len(tags)} tools", formats.tags(tags, "\n")
    yield f"all {len(tags)} tools, backwards", formats.tags(tags[::-1], "\n")
    for name, schema in _SCHEMAS.items():
        yield name, formats.json_schema(schema, "")


def grammars_report() -> Iterator[str]:
    """Measure, and yield the table."""
    probes = [probe_of(None), probe_of(qwen_tokens())]
    yield from head("form", "make", "example model", "Qwen", "characters")
    for name, form in forms():
        start = process_time()
        grammar = form_grammar(AnswerForm(json.dumps(form))).grammar
        times = [process_time() - start]
        for probe in probes:
            start = process_time()
            probe.compile(grammar)
            times.append(process_time() - start)
        yield row(name, *(f"{seconds * 1000:.0f}" for seconds in times), len(grammar.text))


def grammars(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Time to make and compile forms with vocabularies of two sizes."""
    add_write(parser)
    publish(grammars_report(), parser.parse_args(words).write)


if __name__ == "__main__":
    run_command("bench.answer_forms", __doc__, {"parsers": parsers, "grammars": grammars})

"""Measure the cost of forms of answers: of parsers, of grammars, and of the APIs that send them.

    python -m bench.answer_forms parsers [--write FILE]
    python -m bench.answer_forms apis [--write FILE]
    python -m bench.answer_forms grammars [--write FILE]

``parsers``: CPU time per streamed token of the answers of every family. A token is a chunk of four
characters, and every chunk is fed alone, as in a stream.

``apis``: processor time of reading a short request of each API, of the beginning and the end of
its stream, and of one token, as a piece of text with its id; the least of several rounds, in which
the APIs take turns.

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
from functools import partial
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
from calculators.kit.requests.http_payload import NoClient
from calculators.language.delta import Begun, Ended, Finished, FinishReason, Gained, Usage
from calculators.language.events import Content
from calculators.language.generation_request import GenerationRequest
from calculators.llm.answers.answer_writer import DeltaWriter
from calculators.llm.api.neutral_request import neutral_request
from calculators.llm.api.whole_answer import answer_writer
from calculators.llm.endpoint import Generating
from calculators.llm.endpoints import endpoint_of
from calculators.llm.engine.constrained_decoding import CompileProbe, DetokenizerFiles
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import form_grammar
from calculators.llm.grammars.formats import Format, Tool
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from calculators.llm.grammars.notation import written_calls
from calculators.llm.parsers.families import FAMILIES, CallSyntax
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import reasoning_parser, tool_parser
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

_LIMITS: Final = RequestLimits(max_model_length=4096)
_DEFAULTS: Final = ModelDefaults()
_TOKEN: Final = [Gained(0, (Content(" token"),), token_ids=[5])]

# Parsers ------------------------------------------------------------------------------------------

REPEATS: Final = 5
CHARACTERS: Final = 4
#: Streams that are read in turns, and the tokens of all.
STREAMS: Final = 64
TOKENS: Final = 20_000
#: The aim: microseconds per token more than text that no parser reads.
LIMIT: Final = 3.0

PLAIN: Final = "The quick brown fox <i>jumps</i> over [the] lazy dog, {twice} a day; or 'so'. "
STRING: Final = "Some words of an argument that is long, with <b>tags</b> and so on. "
TOOLS: Final = {"f": {"type": "object", "properties": {"a": {"type": "string"}}}}
SMALL: Final = {"a": "Paris", "b": [1, 2.5, True], "c": {"d": None}}
#: Families with readers of their own kind, for answers that could take more than linear time.
READERS: Final = (
    "hermes", "mistral", "devstral", "deepseek_v3", "qwen3coder", "glm45", "minicpm5", "kimi_k3",
    "minimax_m3", "lfm2", "gemma4", "gptoss", "onyx",
)  # fmt: skip


def chunks(text: str, tokens: int = 0) -> list[str]:
    """Split ``text`` into tokens, repeated until there are ``tokens`` of them."""
    if tokens:
        text *= tokens * CHARACTERS // len(text) + 1
    return [text[place : place + CHARACTERS] for place in range(0, len(text), CHARACTERS)]


def microseconds(parsers: OutputParsers, answer: Sequence[str], streams: int = 1) -> list[float]:
    """Return the microseconds of CPU time per chunk of each repetition, sorted."""
    results = []
    for _ in range(REPEATS):
        readers = [parsers.start(tools=TOOLS) for _ in range(streams)]
        feeds = [reader.feed for reader in readers]
        gc.collect()
        started = process_time()
        for chunk in answer:
            for feed in feeds:
                feed(chunk)
        for reader in readers:
            reader.finish()
        results.append((process_time() - started) / len(answer) / streams * 1e6)
    return sorted(results)


class Table:
    """A table of figures.

    Attributes:
        worst: the largest median of the first column so far.
    """

    def __init__(self, *columns: str) -> None:
        self.lines = head(*columns)
        self.worst = 0.0

    def add(self, name: str, *cells: list[float] | None) -> None:
        self.worst = max(self.worst, *(median(each) for each in cells[:1] if each))
        shown = (
            f"{median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})" if each else "none"
            for each in cells
        )  # fmt: skip
        self.lines.append(row(name, *shown))
        say(self.lines[-1])


def call_of(form: CallSyntax, name: str, value: object) -> str:
    return written_calls(form, [("f", {name: value})])


def many_calls(form: CallSyntax, length: int) -> str:
    """Return calls of so many characters."""
    one = written_calls(form, [("f", SMALL)])
    count = length // len(one) + 1
    return one * count if form.only_one else written_calls(form, [("f", SMALL)] * count)


def cost_table() -> Table:
    """Return what each family's answers cost more than text that no parser reads."""
    table = Table("family", "an answer", "text", "reasoning", "a long string", "a large object",
                  "small calls only")  # fmt: skip
    length = TOKENS * CHARACTERS // STREAMS
    plain = chunks(PLAIN, TOKENS // STREAMS)
    base = median(microseconds(OutputParsers(), plain, STREAMS))
    large = [{"key": "value", "n": [1, 2.5, True, None]}] * (length // 50)
    for name in (*FAMILIES, "gptoss", "onyx"):
        tool = tool_parser(name)
        assert tool.calls is not None
        has_reasoning = name not in FAMILIES or FAMILIES[name].reasoning is not None
        parsers = OutputParsers(tool, reasoning_parser(name) if has_reasoning else None)
        begins, ends = parsers.reasoning_marks
        begin, end = begins[0] if begins else _BEGIN, ends[0] if ends else _END
        thoughts = begin + "".join(plain) if has_reasoning else None
        text = call_of(tool.calls, "a", STRING * (length // len(STRING)))
        # Thoughts, words, a text to write and a small call, as an agent answers.
        whole = "".join(plain[: len(plain) // 4])
        whole = (f"{begin}{whole}{end}" if has_reasoning else whole) + whole
        whole += call_of(tool.calls, "a", STRING * (length // len(STRING) // 2))
        whole += "\n" + written_calls(tool.calls, [("f", SMALL)])
        answers = (
            whole,
            "".join(plain),
            thoughts,
            text,
            call_of(tool.calls, "b", large),
            many_calls(tool.calls, length),
        )
        times: list[list[float] | None] = []
        for each in answers:
            took = None if each is None else microseconds(parsers, chunks(each), STREAMS)
            times.append(took and [time - base for time in took])
        table.add(name, *times)
    return table


#: Around the reasoning of gpt-oss.
_BEGIN: Final = "<|channel|>analysis<|message|>"
_END: Final = "<|end|><|start|>assistant<|channel|>final<|message|>"


def linearity_table() -> Table:
    """Return time per token at one size and at ten times that size: equal if time is linear."""
    sizes = (40_000, 400_000)
    answers: dict[str, Callable[[str, int], str]] = {
        "a call that never ends, then text": lambda begin, size: begin + _filled(PLAIN, size),
        "the beginning of a call again and again": _filled,
        "arrays in arrays": lambda begin, size: begin + "[" * size,
    }
    columns = [f"{answer}, {size // CHARACTERS:,} tokens" for answer in answers for size in sizes]
    table = Table("family", *columns)
    for name in READERS:
        tool = tool_parser(name)
        assert tool.calls is not None
        begin = call_of(tool.calls, "a", "%s").partition("%s")[0]
        table.add(
            name,
            *(
                microseconds(OutputParsers(tool), chunks(make(begin, size)))
                for make in answers.values()
                for size in sizes
            ),
        )
    return table


def _filled(piece: str, size: int) -> str:
    return piece * (size // len(piece))


def parsers_report() -> list[str]:
    """Return all tables as Markdown."""
    cost, linearity = cost_table(), linearity_table()
    return [
        "# What output parsers cost",
        "",
        f"`python -m bench.answer_forms parsers` on {describe_machine()}. Microseconds of CPU per "
        f"token, a chunk of {CHARACTERS} characters; median (minimum to maximum) of {REPEATS}.",
        "",
        f"How much more than text that no parser reads, for {STREAMS} streams in turns, of "
        f"{TOKENS:,} tokens together:",
        "",
        *cost.lines,
        "",
        f"An answer has thoughts, words, a call with a long text and a small one. The aim is at "
        f"most {LIMIT:.0f} µs for it: the worst median is {cost.worst:.1f} µs, "
        f"{'reached' if cost.worst <= LIMIT else 'not reached'}. Nothing but small calls is the "
        "dearest text there is: every other token ends a string or a value.",
        "",
        "Text that could cost more the longer it is; the same at both sizes is linear:",
        "",
        *linearity.lines,
    ]


def parsers(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """CPU time per streamed token of every output parser."""
    add_write(parser)
    given = parser.parse_args(words)
    publish(parsers_report(), given.write)


# Grammars -----------------------------------------------------------------------------------------

_TOOLS: Final = ROOT / "tests" / "calculators" / "llm" / "grammars" / "corpora" / "agents.jsonl.gz"

_HERMES: Final = CallSyntax(call="<tool_call>\n{object}\n</tool_call>")
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
    lines = gzip.decompress(_TOOLS.read_bytes()).splitlines()
    tools = [Tool(f"t{i}", json.loads(line)["schema"], "") for i, line in enumerate(lines)]
    for tool, line in zip(tools, lines, strict=True):
        yield json.loads(line)["id"], formats.calls(_HERMES, [tool], only_one=True)
    for name in READERS:
        form = tool_parser(name).calls
        assert form is not None
        yield f"all {len(tools)} tools, {name}", formats.calls(form, tools)
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


# APIs ---------------------------------------------------------------------------------------------

_SAID: Final = [{"role": "user", "content": "Hello"}]
_OPTIONS: Final = {"num_predict": 9, "temperature": 0.5}
_DOCUMENT: Final = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "It is so. It is not. " * 5},
    "citations": {"enabled": True},
}
#: A streamed request by path; the first is what the others are compared with.
_ASKED: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "chat": (
        "/v3/chat/completions",
        {"messages": _SAID, "stream_options": {"include_usage": True}},
    ),
    "completions": ("/v3/completions", {"prompt": "Hello"}),
    "responses": ("/v3/responses", {"input": _SAID, "max_output_tokens": 9}),
    "messages": ("/v3/messages", {"messages": _SAID}),
    "messages, with a document to cite": (
        "/v3/messages",
        {"messages": [{"role": "user", "content": [_DOCUMENT, {"type": "text", "text": "So?"}]}]},
    ),
    "Google's": (
        "/v1beta/models/m:streamGenerateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
            "generationConfig": {"maxOutputTokens": 9, "temperature": 0.5},
        },
    ),
    "Ollama's chat": ("/api/chat", {"messages": _SAID, "options": _OPTIONS}),
    "Ollama's generate": ("/api/generate", {"prompt": "Hello", "options": _OPTIONS}),
    "Cohere's": ("/v2/chat", {"messages": _SAID}),
    "llama.cpp's": ("/completion", {"prompt": "Hello", "n_predict": 9, "temperature": 0.5}),
    "text-generation-inference's": (
        "/generate_stream",
        {"inputs": "Hello", "parameters": {"max_new_tokens": 9, "temperature": 0.5}},
    ),
    "SGLang's": (
        "/generate",
        {"text": "Hello", "sampling_params": {"max_new_tokens": 9, "temperature": 0.5}},
    ),
}
#: APIs whose bodies have no members of OpenAI's beside their own.
_OWN_MEMBERS: Final = ("Google's", "Ollama's", "llama.cpp's", "text-", "SGLang's")
_ROUNDS: Final = 7
_REQUESTS: Final = 200
#: Tokens of an answer, as of a paragraph.
_ANSWER: Final = 200


def _asked(name: str) -> GenerationRequest:
    """Read a request."""
    path, body = _ASKED[name]
    endpoint = endpoint_of(path)
    handling = endpoint.handling()
    assert isinstance(handling, Generating)
    checked = endpoint.parse(body, _LIMITS, _DEFAULTS)
    return neutral_request(checked, handling.api, body, NoClient(), None, has_prompt=False)


def _begun(request: GenerationRequest) -> DeltaWriter:
    writer = DeltaWriter(answer_writer)
    writer.write([Begun(1, Usage(5, 0), request, prompt_ids=[bytes(40)])])
    return writer


def _whole_stream(request: GenerationRequest, tokens: int) -> None:
    writer = _begun(request)
    for _ in range(tokens):
        writer.write(_TOKEN)
    writer.write([Finished(0, FinishReason.STOP)])
    writer.write([Ended(Usage(5, tokens))])


def _least(work: Callable[[], object], times: int) -> float:
    """Return the microseconds of one of so many calls."""
    gc.collect()
    started = process_time()
    for _ in range(times):
        work()
    return (process_time() - started) / times * 1e6


def apis_report() -> Iterator[str]:
    """Measure, and yield the table."""
    for name, (_, body) in _ASKED.items():
        body |= {"model": "m", "stream": True}
        if not name.startswith(_OWN_MEMBERS):
            body |= {"temperature": 0.5}
            if name != "responses":
                body |= {"max_tokens": 9}
    found: dict[str, list[list[float]]] = {name: [] for name in _ASKED}
    for _ in range(_ROUNDS):
        for name, rounds in found.items():
            request = _asked(name)
            reading = _least(partial(_asked, name), _REQUESTS)
            ends = _least(partial(_whole_stream, request, 0), _REQUESTS)
            whole = _least(partial(_whole_stream, request, _ANSWER), _REQUESTS // 10)
            rounds.append([reading, ends, (whole - ends) / _ANSWER])
    yield "# What the APIs cost"
    yield ""
    yield (
        f"`python -m bench.answer_forms apis` on {describe_machine()}. Microseconds of processor "
        f"time, the least of {_ROUNDS} rounds: to read a short request, to begin and end its "
        f"stream, and for each of {_ANSWER} tokens between."
    )
    yield ""
    yield from head("API", "a request", "beginning and end", "a token")
    for name, rounds in found.items():
        yield row(name, *(f"{min(each):.1f}" for each in zip(*rounds, strict=True)))


def apis(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Processor time of each API's reader and writer."""
    add_write(parser)
    publish(apis_report(), parser.parse_args(words).write)


if __name__ == "__main__":
    commands = {"parsers": parsers, "grammars": grammars, "apis": apis}
    run_command("bench.answer_forms", __doc__, commands)

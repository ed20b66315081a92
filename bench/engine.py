"""openvino-genai's engine, driven directly: throughput, memory, caches and proposed tokens.

    python -m bench.engine throughput examples/models/demo/graph.pbtxt --concurrency 8
    python -m bench.engine memory [--requests 5000] [--at_once 60] [--plugin 64] [--onednn 128]
                                  [--tools] [--arenas 2]
    python -m bench.engine cached_answers [--model DIR] [--conversations 20]
    python -m bench.engine speculative [--repetitions N] [--write FILE]

``throughput``: the upper limit of a server. Generates the requests of `bench.load_generator` with
the options of the graph, the model's chat template and the same sampling:
``ContinuousBatchingPipeline.step`` in a loop, and nothing else. Prompts are made before the clock
starts.

``memory``: over requests of random lengths, by the bounds of the caches. Prompts of 20, 50 or 100
random tokens and answers of 4 to 60 on the example model. With ``--tools`` each answer calls tools:
32 lists of tools recur, and every tenth request has one of its own. Linux with glibc: the heap is
what ``malloc_info`` reports as not free; its arenas are as many as in servers, or the C library's
default with ``--arenas 0``.

``cached_answers``: does prefix caching change greedy answers? Conversations of four turns, one
request at a time, in the processor's default precision and in float32, without it, with it, and
once more. Prints how many conversations have an answer that differs.

``speculative``: speculative decoding against one token at a time: the same greedy requests, one
after the other. ``plain`` is the example model; ``draft model`` and ``prompt look-up`` add the
options of ``examples/graphs/speculative`` and ``prompt_lookup``. The engine is driven as its
process does it. An accepted token is one that was proposed and is in the answer.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

import numpy as np
import openvino
import openvino_genai as genai

import calculators
from bench.load_generator import add_load_arguments, workload_of, write_figures
from bench.machine import (
    DEMO,
    MIB,
    ROOT,
    add_write,
    describe_machine,
    head,
    publish,
    row,
    run_command,
    say,
)
from calculators.kit.memory import resident_bytes
from calculators.llm.engine.core import EngineCore
from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.library_config import generation_config, scheduler_config
from calculators.llm.engine.messages import Add, Step
from calculators.llm.engine.settings import EngineSettings, GenerationSettings, PluginValue
from calculators.llm.grammars.form_grammar import grammar_of
from calculators.llm.grammars.formats import Tool, calls
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from calculators.llm.options.node_options import NodeOptions, read_node_options
from calculators.llm.parsers.registry import tool_parser
from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.prompt.messages import Chat
from calculators.llm.requests.sampling import read_assisted_decoding
from graph_runtime import REGISTRY, Registry, ResourceSettings
from servers.load.client import RequestOutcome
from servers.load.client import words as some_words
from servers.load.figures import Figures, figures_of
from servers.serving.graph_source import GraphSource

# Throughput ---------------------------------------------------------------------------------------


class Prompt(NamedTuple):
    """Token ids (shape (1, length), int64) and the number of tokens to generate."""

    input_ids: Any
    output_tokens: int


class EngineRun(NamedTuple):
    """Measurements of a run, and its outputs in the order of the prompts."""

    figures: Figures
    cpu_seconds: float
    token_ids: list[list[int]]


def model_options(graph: Path) -> NodeOptions:
    """The options of a graph's LLM node."""
    calculators.register_all(REGISTRY)
    plan = GraphSource(str(graph), Registry(REGISTRY)).validate()
    node = next(each for each in plan.nodes if each.calculator_type.endswith("LLMCalculator"))
    return read_node_options(node, ResourceSettings(graph.parent.resolve()))


def open_pipeline(settings: EngineSettings) -> Any:
    """Open the pipeline as the server opens it."""
    return genai.ContinuousBatchingPipeline(
        settings.model_path,
        scheduler_config(settings),
        settings.device or "CPU",
        dict(settings.plugin_config),
    )


def prompt_encoder(maker: PromptBuilder) -> Callable[[str], Any]:
    """Return a function from the text of a user's message to the token ids of its prompt."""

    def encode(text: str) -> Any:
        prompt = maker.render(Chat([{"role": "user", "content": text}]))
        return np.frombuffer(maker.encode(prompt, special=False), dtype=np.int64).reshape(1, -1)

    return encode


def tokens_per_word(maker: PromptBuilder) -> float:
    """The number of tokens per word of the prompts."""
    count = 2_000
    text = some_words(random.Random(1), count)
    return len(maker.encode(text, special=False)) / np.dtype(np.int64).itemsize / count


def run_engine(pipeline: Any, prompts: Sequence[Prompt], *, concurrency: int) -> EngineRun:
    """Keep ``concurrency`` requests open until all prompts are answered."""
    outcomes: list[RequestOutcome] = []
    generated: list[list[int]] = [[] for _ in prompts]
    handles: dict[int, Any] = {}
    waiting = iter(enumerate(prompts))

    def add() -> None:
        number, prompt = next(waiting, (-1, None))
        if prompt is None:
            return
        outcomes.append(RequestOutcome(perf_counter(), input_tokens=prompt.input_ids.shape[1]))
        settings = GenerationSettings(max_new_tokens=prompt.output_tokens, ignore_eos=True)
        handles[number] = pipeline.add_request(
            number, openvino.Tensor(prompt.input_ids), generation_config(settings)
        )

    gc.disable()
    cpu = process_time()
    started = perf_counter()
    for _ in range(concurrency):
        add()
    while handles:
        pipeline.step()
        now = perf_counter()
        ended: list[int] = []
        for number, handle in handles.items():
            if not handle.can_read():
                continue
            (output,) = handle.read().values()
            outcomes[number].arrivals.append(now)
            generated[number] += output.generated_ids
            if output.finish_reason != genai.GenerationFinishReason.NONE:
                outcomes[number].output_tokens = len(generated[number])
                ended.append(number)
        for number in ended:
            del handles[number]
            add()
    duration = perf_counter() - started
    cpu = process_time() - cpu
    gc.enable()
    return EngineRun(figures_of(outcomes, duration), cpu, generated)


def throughput(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Throughput of openvino-genai's pipeline, driven directly: the upper limit of a server."""
    parser.add_argument("graph", type=Path, help="a graph.pbtxt with an LLM node")
    add_load_arguments(parser)
    given = parser.parse_args(words)
    options = model_options(given.graph)
    encode = prompt_encoder(PromptBuilder(str(options.model_path)))
    prompts = [Prompt(encode(each.text), each.output_tokens) for each in workload_of(given)]
    pipeline = open_pipeline(options.engine)
    warm_up = [Prompt(encode(f"warm up {number}"), 8) for number in range(given.warm_up)]
    run_engine(pipeline, warm_up, concurrency=1)
    run = run_engine(pipeline, prompts, concurrency=given.concurrency)
    write_figures(run.figures, run.cpu_seconds, given.json)


# Memory -------------------------------------------------------------------------------------------

#: Lists of tools that recur.
_FORMS: Final = 32
#: The part of requests with one of their own.
_NEW_FORMS: Final = 0.1


def heap_in_use() -> float:
    """Return the bytes, in MiB, that this process has allocated and not freed."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    libc.fclose.argtypes = [ctypes.c_void_p]
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    with tempfile.NamedTemporaryFile() as file:
        stream = libc.fopen(file.name.encode(), b"w")
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        report = Path(file.name).read_text(encoding="ascii")
    of_all_heaps = report.rpartition("</heap>")[2]
    free = re.findall(r'<total type="(?:fast|rest)" count="\d+" size="(\d+)"', of_all_heaps)
    taken = re.findall(
        r'<(?:system type="current"|total type="mmap" count="\d+") size="(\d+)"', of_all_heaps
    )
    return (sum(map(int, taken)) - sum(map(int, free))) / MIB


def grammar_of_calls(chance: random.Random, number: int) -> Grammar:
    """Return the grammar of calls of one to three tools, as Hermes' models write them."""
    properties = {
        f"name{number}": {"type": "string", "maxLength": 5 + number % 20},
        f"count{number}": {"type": "integer", "minimum": number},
        f"kind{number}": {"enum": [f"a{number}", f"b{number}"]},
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    form = tool_parser("hermes").calls
    assert form is not None
    tools = [Tool(f"f{place}", schema, "tools") for place in range(chance.randint(1, 3))]
    return grammar_of(AnswerForm(json.dumps(calls(form, tools))))


def answer_all(requests: int, at_once: int, kernels: int, *, has_tools: bool) -> None:
    """Answer the requests, and print a row of the table every thousand."""
    plugin: dict[str, PluginValue | dict[str, dict[str, PluginValue]]] = {
        "CPU_RUNTIME_CACHE_CAPACITY": kernels
    }
    core = EngineCore(GenaiPipeline(EngineSettings(model_path=str(DEMO), plugin_config=plugin)))
    chance = random.Random(1)
    recurring = [grammar_of_calls(chance, number) for number in range(_FORMS if has_tools else 0)]

    def grammar() -> Grammar | None:
        if not recurring:
            return None
        if chance.random() < _NEW_FORMS:
            return grammar_of_calls(chance, chance.randrange(10**9))
        return chance.choice(recurring)

    asked = answered = 0
    while answered < requests:
        while asked - answered < at_once:
            asked += 1
            length = chance.choice((20, 20, 20, 50, 100))
            ids = np.array([chance.randrange(5, 2000) for _ in range(length)], dtype=np.int64)
            settings = GenerationSettings(
                max_new_tokens=chance.randint(4, 60),
                ignore_eos=not has_tools,
                grammar=grammar(),
            )
            core.handle(Add(asked, ids.tobytes(), settings))
        for news in core.step():
            for tokens in news.tokens if isinstance(news, Step) else ():
                if tokens.finish_reason is None:
                    continue
                answered += 1
                if answered % 1000 == 0:
                    resident = (resident_bytes(os.getpid()) or 0) / MIB
                    figures = (heap_in_use(), resident, process_time())
                    print(row(answered, *(f"{each:.0f}" for each in figures)), flush=True)


def memory(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Memory of the engine, over requests of random lengths, by the bounds of its caches."""
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--at_once", type=int, default=60)
    parser.add_argument("--plugin", type=int, default=64, help="CPU_RUNTIME_CACHE_CAPACITY")
    parser.add_argument("--onednn", type=int, default=128, help="ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    parser.add_argument("--arenas", type=int, default=2, help="of the C library; 0: its default")
    parser.add_argument("--tools", action="store_true", help="answers call tools")
    args = parser.parse_args(words)
    # The C library reads its variable before Python starts, so this process starts anew.
    tunables = ["glibc.malloc.hugetlb=1"]
    if args.arenas:
        tunables.append(f"glibc.malloc.arena_max={args.arenas}")
    environment = {
        "GLIBC_TUNABLES": ":".join(tunables),
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(args.onednn),
    }
    if environment.items() - os.environ.items():
        again = [sys.executable, "-m", "bench.engine", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **environment})
    print(f"{describe_machine()}\n")
    columns = ("requests", "heap in use, MiB", "resident, MiB", "processor time, s")
    print(*head(*columns), sep="\n")
    answer_all(args.requests, args.at_once, args.plugin, has_tools=args.tools)
    sys.stdout.flush()
    os._exit(0)  # requests in flight make the library end with an error


# Cached answers -----------------------------------------------------------------------------------

_TURNS: Final = 4
_FIRST_WORDS, _NEXT_WORDS = 150, 45
_ANSWER_TOKENS: Final = 40


def cached_pipeline(model: Path, precision: str | None, *, caches: bool) -> Any:
    """Load the model with a cache of 1 GB."""
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = caches
    scheduler.cache_size = 1
    properties = {} if precision is None else {"INFERENCE_PRECISION_HINT": precision}
    return genai.ContinuousBatchingPipeline(str(model), scheduler, "CPU", properties)


def converse(pipe: Any, seed: int) -> list[str]:
    """Hold one conversation; return its answers."""
    chance = random.Random(seed)
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = _ANSWER_TOKENS, True, False
    messages: list[dict[str, str]] = []
    answers = []
    for turn in range(_TURNS):
        text = some_words(chance, _NEXT_WORDS if turn else _FIRST_WORDS)
        messages.append({"role": "user", "content": text})
        prompt = pipe.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True)
        answers.append(pipe.generate([prompt], [config])[0].m_generation_ids[0])
        messages.append({"role": "assistant", "content": answers[-1]})
    return answers


def cached_answers(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Does prefix caching change greedy answers?"""
    parser.add_argument("--model", metavar="DIR", type=Path, default=DEMO)
    parser.add_argument("--conversations", type=int, default=20)
    arguments = parser.parse_args(words)
    seeds = range(arguments.conversations)
    for precision in (None, "f32"):
        plain = cached_pipeline(arguments.model, precision, caches=False)
        without = [converse(plain, seed) for seed in seeds]
        pipe = cached_pipeline(arguments.model, precision, caches=True)
        cached, again = ([converse(pipe, seed) for seed in seeds] for _ in range(2))
        print(
            f"{precision or 'default'}: of {len(seeds)} conversations differ, with and without: "
            f"{_differing(without, cached)}; asked again: {_differing(cached, again)}"
        )


def _differing(first: Sequence[list[str]], second: Sequence[list[str]]) -> int:
    return sum(one != other for one, other in zip(first, second, strict=True))


# Proposed tokens ----------------------------------------------------------------------------------

GRAPHS: Final = {
    "plain": ROOT / "examples" / "models/demo/graph.pbtxt",
    "draft model": ROOT / "examples" / "graphs/speculative/graph.pbtxt",
    "prompt look-up": ROOT / "examples" / "graphs/prompt_lookup/graph.pbtxt",
}
MAX_TOKENS: Final = 120
TEXTS: Final = {
    "counting": ("Count from 3 to 40.", "Count from 20 to 1.", "Count from 50 to 99."),
    "answers": ("What is graphrt?", "How do I serve a model?", "What is a calculator?"),
    "stories": ("Tell me a long story about a fox.", "Write a poem", "A story about a duck"),
    "repeating": (
        "Repeat: one two three four five six seven eight nine ten",
        "Copy this: red house blue tree green hill white cloud black stone",
        "Repeat the words: apple river stone cloud horse lamp",
    ),
}


class Proposals(NamedTuple):
    """Sums over all requests of a kind; ``passes`` excludes those of the prompts."""

    tokens: int
    seconds: float
    passes: int


def measure_proposals(
    engine: GenaiPipeline, settings: EngineSettings, prompts: Sequence[bytes]
) -> Proposals:
    """Run one request after the other."""
    assisted = read_assisted_decoding({}, settings.decoding_mode)
    asked = GenerationSettings(max_new_tokens=MAX_TOKENS, **assisted._asdict())
    tokens = steps = 0
    start = perf_counter()
    for number, prompt in enumerate(prompts):
        engine.add(Add(number, prompt, asked))
        while engine.has_work:
            gained = sum(len(each.token_ids) for each in engine.step())
            tokens += gained
            steps += gained > 0
    return Proposals(tokens, perf_counter() - start, steps - len(prompts))


def compare_ways(repetitions: int) -> dict[str, dict[str, list[Proposals]]]:
    """Compare all ways with all texts; return the results by text and way."""
    settings = {way: model_options(graph).engine for way, graph in GRAPHS.items()}
    engines = {way: GenaiPipeline(each) for way, each in settings.items()}
    encode = prompt_encoder(PromptBuilder(settings["plain"].model_path))
    prompts = {text: [encode(each).tobytes() for each in asked] for text, asked in TEXTS.items()}
    results: dict[str, dict[str, list[Proposals]]] = {
        text: {way: [] for way in GRAPHS} for text in TEXTS
    }
    for _ in range(repetitions + 1):
        # The ways take turns, so that a machine that slows down favours none; the first turn warms
        # up.
        for text, asked in prompts.items():
            for way, engine in engines.items():
                results[text][way].append(measure_proposals(engine, settings[way], asked))
                say(f"{text}, {way}: {results[text][way][-1]}")
    return {text: {way: runs[1:] for way, runs in ways.items()} for text, ways in results.items()}


def proposals_report(
    results: dict[str, dict[str, list[Proposals]]], repetitions: int, note: str
) -> Iterator[str]:
    """Yield the table."""
    yield "# Proposed tokens"
    yield ""
    yield (
        f"`python -m bench.engine speculative` on {describe_machine()}. Median (minimum to "
        f"maximum) of {repetitions}; greedy, one request at a time, at most {MAX_TOKENS} tokens "
        f"each. {note}".rstrip()
    )
    yield ""
    columns = ("texts", "way", "tokens", "tokens per pass", "accepted per pass", "tokens/s")
    yield from head(*columns)
    for text, ways in results.items():
        for way, runs in ways.items():
            one = runs[0]
            after = one.tokens - len(TEXTS[text])
            speeds = [run.tokens / run.seconds for run in runs]
            yield row(
                text,
                way,
                one.tokens,
                f"{after / one.passes:.2f}",
                f"{after / one.passes - 1:.2f}",
                f"{median(speeds):.0f} ({min(speeds):.0f} to {max(speeds):.0f})",
            )
    yield ""
    yield (
        "A pass of the model over a request brings one token of its own, and those that it accepts "
        "of the proposed ones (5 at a time). The example model is so small that a pass of its "
        "draft model costs nearly as much as one of its own; the passes that are saved are what a "
        "large model gains. In bf16 the last digits of a pass over several tokens differ, so an "
        "answer may take another turn where two tokens are as likely: then the numbers of tokens "
        "differ."
    )


def speculative(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Speculative decoding against one token at a time."""
    add_write(parser)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--note", default="", help="a sentence on the circumstances")
    given = parser.parse_args(words)
    results = compare_ways(given.repetitions)
    publish(proposals_report(results, given.repetitions, given.note), given.write)


if __name__ == "__main__":
    commands = {
        "throughput": throughput,
        "memory": memory,
        "cached_answers": cached_answers,
        "speculative": speculative,
    }
    run_command("bench.engine", __doc__, commands)

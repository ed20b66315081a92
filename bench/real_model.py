"""SmolLM2-135M (`bench.downloads`) in graphrt beside others: streams, conversations, scores.

    python -m bench.real_model streams --llama-server PATH [--write FILE] [--quick]
    python -m bench.real_model conversations [--model PATH] [--url NAME=URL,MODEL ...]
    python -m bench.real_model scores --lm-eval PATH [--write FILE]

``streams``: beside llama.cpp, from the same GGUF file (Q4_1). Tables of two loads: streams of chat
completions, as `bench.peers` measures them, and the first and later answers that have to follow a
form, on graphrt alone.

``conversations``: the wait for the first token of each of six turns, beside other servers. Serves a
model without a graph twice: as graphrt writes its graph, with prefix caching and a cache of fixed
size, and with ``--enable_prefix_caching false``; ``--url`` adds servers of the OpenAI API that run
already, such as llama.cpp's. Servers take turns with 1, 6 and 32 conversations at once, each of six
turns: a prompt of 150 words, then of 45 each, answers of 40 tokens. Each request has a connection
of its own, as llama.cpp closes those of streams.

``scores``: by lm-eval, served by graphrt and under transformers. ``--lm-eval`` is the executable of
an environment of its own: ``pip install 'lm-eval[api,hf]' gguf``. Both sides get the same tokens
and the weights of the same GGUF file, which transformers reads into float32: the file (Q4_1), and
the same weights in float16, whose products take inputs that are not rounded. The tasks are made
here, so nothing is downloaded:

- ``continuation``: which of four sentences follows in these documents? By log-probability
  (``echo`` and ``logprobs`` of ``/v1/completions``).
- ``capitals``: the capitals of the example model's data, by generated text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any, Final, NamedTuple

import aiohttp

from bench.downloads import get_smollm2
from bench.engine import tokens_per_word
from bench.load_generator import OUTPUT_TOKENS
from bench.machine import (
    ROOT,
    JsonClient,
    ServerProcess,
    add_write,
    describe_machine,
    head,
    publish,
    row,
    run_command,
    say,
    versions,
)
from bench.peer_servers import PeerModel, Setting, llama_cpp
from bench.peers import ModelRuns, load, peer_version, rows, way_of
from calculators.llm.prompt.builder import PromptBuilder
from calculators.llm.tuning.arena import median_interval
from servers.load.client import CHAT, BenchmarkClient, BenchmarkPrompt
from servers.load.client import words as some_words

_NAME: Final = "smollm2"
_TYPE: Final = "q4_1"
#: Requests at each number of streams.
_REQUESTS: Final = {1: 8, 8: 24, 32: 64}
_QUICK_REQUESTS: Final = {1: 3, 8: 8, 32: 32}
_REPETITIONS: Final = 3
_WARM_UP_SEED: Final = 1000
_FORM_TURNS: Final = 5
_NOTES: Final = (
    "One server at a time, all in turns; the clients share the machine with the server. Prompts of "
    "about 215 tokens, outputs of about {} (log-normal), greedy, `ignore_eos`, no common "
    "prefixes. graphrt serves the file as `graphrt serve FILE` does; llama.cpp has 64 slots of "
    "2,048 tokens, no reuse of prompts, and a new connection for every request."
)


def _served(path: Path, *flags: str) -> ServerProcess:
    """Serve a model under its name in this benchmark."""
    return ServerProcess(path, "--model_name", _NAME, *flags)


# Streams ------------------------------------------------------------------------------------------


def settings_of(path: Path, program: Path | None) -> list[Setting]:
    """Return the ways to serve the file."""
    settings = [Setting("graphrt", "defaults", partial(_served, path))]
    if program is not None:
        settings += llama_cpp(program, PeerModel({_TYPE: path}, path.parent), [_TYPE])
    return settings


def measure_streams(
    settings: Sequence[Setting],
    requests: Mapping[int, int],
    lengths: Sequence[str],
    repetitions: int,
) -> Iterator[ModelRuns]:
    """Load every server in turns; yield all measurements after each repetition."""
    runs = ModelRuns(_NAME, "SmolLM2-135M-Instruct, Q4_1", list(requests))
    for repetition in range(repetitions):
        # The order changes, so that a machine that slows down favours no server.
        first = repetition % len(settings)
        for setting in [*settings[first:], *settings[:first]]:
            with setting.start() as target:
                common = [
                    *("--url", target.url, "--model", target.model),
                    *lengths,
                    *(["--reconnect"] if setting.reconnect else []),
                ]
                most = max(requests)
                load([*common, "--output_tokens", "16"], most, most, seed=_WARM_UP_SEED)
                for streams, count in requests.items():
                    run = load(common, streams, count, seed=streams)
                    say(f"{streams}: {setting.server}, {setting.words}: {run.throughput:.0f}")
                    runs.add(way_of(setting), streams, run)
        yield runs


# Forms --------------------------------------------------------------------------------------------

_ABOUT: Final = [{"role": "user", "content": "Anna is 32 years old. Describe her."}]


def _object(properties: int, turn: int) -> dict[str, Any]:
    """Return a schema that no earlier turn had."""
    members = {f"member_{turn}_{n}": {"type": "string"} for n in range(properties)}
    return {"type": "object", "properties": members, "required": list(members)}


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    named = {"name": "form", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _tool(turn: int) -> dict[str, Any]:
    function = {"name": f"look_up_{turn}", "parameters": _object(3, turn)}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}


#: Members of a request that ask for a form, by the number of the turn.
_FORMS: Final[Mapping[str, Callable[[int], dict[str, Any]]]] = {
    "none": lambda turn: {},
    "choice of 3": lambda turn: {
        "structured_outputs": {"choice": [f"{turn} {word}" for word in ("old", "young", "none")]}
    },
    "regular expression": lambda turn: {
        "structured_outputs": {"regex": rf"{turn}-\d{{4}}-\w{{2}}"}
    },
    "schema of 3 strings": lambda turn: _schema(_object(3, turn)),
    "schema of 30 strings": lambda turn: _schema(_object(30, turn)),
    "a tool of 3 strings": _tool,
}


def measure_forms(turns: int, path: Path) -> dict[str, tuple[list[float], list[float]]]:
    """Return the seconds of a one-token answer with a form: a new one, and the same again."""
    with _served(path) as server, JsonClient(server.address) as client:
        found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in _FORMS}
        _ask(client, _FORMS["choice of 3"](-1))  # starts the grammar process
        for turn in range(turns):
            for name, form in _FORMS.items():
                for seconds in found[name]:
                    seconds.append(_ask(client, form(turn)))
        return found


def _ask(client: JsonClient, members: Mapping[str, Any]) -> float:
    """Return the seconds to the answer of a request with these members."""
    body = {"model": _NAME, "messages": _ABOUT, "max_tokens": 1, "temperature": 0, **members}
    begin = perf_counter()
    client.post("/v3/chat/completions", body)
    return perf_counter() - begin


def streams_report(
    runs: ModelRuns,
    forms: Mapping[str, tuple[list[float], list[float]]],
    repetitions: int,
    arguments: argparse.Namespace,
) -> str:
    """Return all tables as Markdown."""
    program = arguments.llama_server
    peers = [] if program is None else [f"llama.cpp {peer_version(program)}"]
    busy = " The machine was shared with other work." if arguments.shared else ""
    lines = [
        "# A real model: SmolLM2-135M",
        "",
        f"`python -m bench.real_model streams{' --quick' if arguments.quick else ''}` on "
        f"{describe_machine()}; {', '.join((versions(), *peers))}. "
        f"Medians of {repetitions}.{busy}",
        "",
        _NOTES.format(arguments.output_tokens),
        "",
        *rows(runs),
        "",
        "## Answers that follow a form",
        "",
        "graphrt, vocabulary of 49,152 tokens: milliseconds of a whole request for one token, with "
        "a form that the server has not seen before, and with the same again. Medians of "
        f"{_FORM_TURNS}.",
        "",
        *head("form", "new", "again"),
    ]
    for name, (new, again) in forms.items():
        lines.append(row(name, *(f"{median(each) * 1000:,.0f}" for each in (new, again))))
    return "\n".join(lines) + "\n"


def streams(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """SmolLM2-135M in graphrt beside llama.cpp, from the same GGUF file."""
    parser.add_argument("--llama-server", metavar="PATH", type=Path)
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to a file")
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    parser.add_argument("--repetitions", type=int, default=_REPETITIONS)
    parser.add_argument("--output-tokens", type=int, default=round(OUTPUT_TOKENS), help="mean")
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    arguments = parser.parse_args(words)
    path = get_smollm2()
    forms = measure_forms(_FORM_TURNS, path)
    lengths = [
        *("--tokens_per_word", f"{tokens_per_word(PromptBuilder(str(path))):.4f}"),
        *("--output_tokens", str(arguments.output_tokens)),
    ]
    settings = settings_of(path, arguments.llama_server)
    requests = _QUICK_REQUESTS if arguments.quick else _REQUESTS
    text = ""
    measured = measure_streams(settings, requests, lengths, arguments.repetitions)
    for repetition, runs in enumerate(measured, 1):
        text = streams_report(runs, forms, repetition, arguments)
        if arguments.write:
            arguments.write.write_text(text, encoding="utf-8")
    print(text)


# Conversations ------------------------------------------------------------------------------------

_CONVERSATIONS: Final = (1, 6, 32)
_TURNS: Final = 6
_FIRST_WORDS, _NEXT_WORDS = 150, 45
_OUTPUT_TOKENS: Final = 40
#: Threads of some servers keep a core busy for a while after the last answer.
_PAUSE_SECONDS: Final = 5.0


class Target(NamedTuple):
    """A running server: the base of its OpenAI API, and the model's name there."""

    name: str
    url: str
    model: str


#: Seconds to the first token, by turn.
Waits = list[list[float]]


async def converse(client: BenchmarkClient, seed: int) -> list[float]:
    """Hold one conversation; return the wait of each turn.

    Raises:
        RuntimeError: a request failed.
    """
    chance = random.Random(seed)
    messages: list[Mapping[str, Any]] = []
    waits = []
    for turn in range(_TURNS):
        text = some_words(chance, _NEXT_WORDS if turn else _FIRST_WORDS)
        messages.append({"role": "user", "content": f"{seed} {text}"})
        outcome = await client.ask(client.body(BenchmarkPrompt(tuple(messages), _OUTPUT_TOKENS)))
        if not outcome.is_good:
            raise RuntimeError(f"turn {turn + 1}: {outcome.error or 'no token came'}")
        waits.append(outcome.ttft)
        messages.append({"role": "assistant", "content": outcome.text})
    return waits


async def hold(target: Target, conversations: int, seed: int) -> Waits:
    """Hold so many conversations at once; return the waits of all by turn."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        extra = {"temperature": 0, "ignore_eos": True}
        client = BenchmarkClient(session, f"{target.url}{CHAT}", target.model, extra)
        each = await asyncio.gather(
            *(converse(client, 1000 * seed + number) for number in range(conversations))
        )
    return [list(turn) for turn in zip(*each, strict=True)]


def waits_row(target: Target, conversations: int, waits: Waits) -> str:
    """Return the row of one server: medians with their limits, in milliseconds."""
    cells = [
        "{1:.0f} ({0:.0f} to {2:.0f})".format(*(1000 * value for value in median_interval(turn)))
        for turn in (waits[0], waits[1], waits[-1])
    ]
    part = median_interval([last / first for first, last in zip(waits[0], waits[-1], strict=True)])
    shown = f"{part.median:.2f} ({part.low:.2f} to {part.high:.2f})"
    return row(conversations, target.name, *cells, shown)


def conversations(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """The wait for the first token of each turn of conversations, beside other servers."""
    parser.add_argument("--model", metavar="PATH", type=Path, help="default SmolLM2, a GGUF file")
    parser.add_argument("--url", metavar="NAME=URL,MODEL", action="append", default=[])
    parser.add_argument("--conversations", metavar="N", type=int, nargs="+", default=_CONVERSATIONS)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    add_write(parser)
    arguments = parser.parse_args(words)
    path = (arguments.model or get_smollm2()).absolute()
    # A server that runs already may have the prompts of an earlier run in its cache.
    first_seed = time.time_ns() % 1_000_000
    found: dict[tuple[int, Target], Waits] = {}
    with ExitStack() as stack:
        targets = []
        for name, flags in (
            ("graphrt", ()),
            ("graphrt, no prefix caching", ("--enable_prefix_caching", "false")),
        ):
            server = stack.enter_context(_served(path, *flags))
            targets.append(Target(name, f"{server.url}/v1", _NAME))
        for each in arguments.url:
            name, _, rest = each.partition("=")
            url, _, model = rest.partition(",")
            targets.append(Target(name, url, model))
        for repetition in range(arguments.repetitions):
            for conversations in arguments.conversations:
                first = repetition % len(targets)
                for target in [*targets[first:], *targets[:first]]:
                    time.sleep(_PAUSE_SECONDS)
                    waits = asyncio.run(hold(target, conversations, first_seed + repetition))
                    say(f"{conversations}: {target.name}: {1000 * waits[-1][0]:.0f} ms")
                    before = found.setdefault((conversations, target), [[] for _ in waits])
                    for turn, values in zip(before, waits, strict=True):
                        turn += values
    busy = " The machine was shared with other work: compare rows with each other only."
    lines = [
        "# Conversations of six turns",
        "",
        f"`python -m bench.real_model conversations` on {describe_machine()}; {versions()}; "
        f"{path.name}. Milliseconds to the first token, medians with their limits (95 %) over "
        f"all conversations of {arguments.repetitions} repetitions, servers in turns."
        f"{busy if arguments.shared else ''}",
        "",
        *head("conversations", "server", "turn 1", "turn 2", "turn 6", "turn 6 / turn 1"),
        *(waits_row(target, number, waits) for (number, target), waits in found.items()),
    ]
    publish(lines, arguments.write)


# Scores -------------------------------------------------------------------------------------------

_CONTINUATION, _CAPITALS = "continuation", "capitals"
_DOCUMENTS: Final = 60
_CHOICES: Final = 4
_SENTENCE: Final = re.compile(r"(?<=[.:]) (?=[A-Z`])")
#: Writes the tokenizer of a GGUF file as lm-eval reads it.
_SAVE_TOKENIZER: Final = (
    "import sys; from transformers import AutoTokenizer; "
    "AutoTokenizer.from_pretrained(sys.argv[1], gguf_file=sys.argv[2]).save_pretrained(sys.argv[3])"
)

#: Writes a GGUF file with the weights of another one in float16; run in lm-eval's environment.
_WRITE_FLOAT16: Final = """
import sys
import gguf
import numpy

reader = gguf.GGUFReader(sys.argv[1])
writer = gguf.GGUFWriter(sys.argv[2], reader.get_field("general.architecture").contents())
for field in reader.fields.values():
    if field.name.startswith("GGUF.") or field.name == "general.architecture":
        continue
    if field.name == "general.file_type":
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        continue
    kind, *of = field.types
    writer.add_key_value(field.name, field.contents(), kind, of[-1] if of else None)
for tensor in reader.tensors:
    values = gguf.dequantize(tensor.data, tensor.tensor_type)
    values = values.astype(numpy.float16 if values.ndim > 1 else numpy.float32)
    writer.add_tensor(tensor.name, values)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
"""


def write_tasks(directory: Path) -> None:
    """Write both tasks: a YAML file and a file of JSON lines each."""
    test = {"dataset_path": "json", "test_split": "test", "metadata": {"version": 1}}
    tasks: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        _CONTINUATION: (
            continuations(),
            {
                "output_type": "multiple_choice",
                "doc_to_text": "{{begin}}",
                "doc_to_choice": "{{ends}}",
                "doc_to_target": "{{right}}",
                "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
            },
        ),
        _CAPITALS: (
            capitals(),
            {
                "output_type": "generate_until",
                "doc_to_text": "The capital of Italy is Rome.\nThe capital of {{country}} is",
                "doc_to_target": "{{city}}",
                "generation_kwargs": {
                    "until": [".", ",", "\n"],
                    "max_gen_toks": 8,
                    "do_sample": False,
                    "temperature": 0,
                },
                "filter_list": [
                    {
                        "name": "stripped",
                        "filter": [
                            {"function": "regex", "regex_pattern": r"\s*(.*)"},
                            {"function": "take_first"},
                        ],
                    }
                ],
                "metric_list": [{"metric": "exact_match", "aggregation": "mean"}],
            },
        ),
    }
    for name, (documents, task) in tasks.items():
        file = directory / f"{name}.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
        given = {"task": name, **test, "dataset_kwargs": {"data_files": {"test": str(file)}}}
        # JSON is YAML.
        (directory / f"{name}.yaml").write_text(json.dumps({**given, **task}), encoding="utf-8")


def continuations() -> list[dict[str, Any]]:
    """Return beginnings of paragraphs in ``docs``, each with four ends, one of them right."""
    pairs = list(_sentence_pairs())
    chance = random.Random(0)
    documents = []
    for begin, end in chance.sample(pairs, min(_DOCUMENTS, len(pairs))):
        others = [other for _, other in chance.sample(pairs, _CHOICES) if other != end]
        ends = [end, *others[: _CHOICES - 1]]
        chance.shuffle(ends)
        documents.append({"begin": begin, "ends": ends, "right": ends.index(end)})
    return documents


def _sentence_pairs() -> Iterator[tuple[str, str]]:
    """Return two sentences that follow each other, from every paragraph of prose."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            text = " ".join(paragraph.split())
            if not text[:1].isalpha():
                continue  # tables, lists, code, headings
            sentences = _SENTENCE.split(text)
            if len(sentences) > 1 and all(20 < len(each) < 300 for each in sentences[:2]):
                yield sentences[0], sentences[1]


def capitals() -> list[dict[str, Any]]:
    """Return countries and their capitals."""
    texts = tomllib.loads(
        (ROOT / "examples/models/training/small_talk.toml").read_text(encoding="utf-8")
    )
    return [
        {"country": country, "city": city}
        for country, city in texts["capitals"].items()
        if city != "Rome"
    ]


@dataclass(frozen=True, slots=True)
class Scores:
    """The outcome of a run.

    Attributes:
        results: metric and value by task, lm-eval's.
        samples: its record of every document by task, in the order of the documents.
    """

    results: Mapping[str, Mapping[str, Any]]
    samples: Mapping[str, Sequence[Mapping[str, Any]]]


def run_lm_eval(program: Path, model: str, arguments: str, tasks: Path, place: Path) -> Scores:
    """Run both tasks on a model; ``arguments``: lm-eval's ``model_args``."""
    output = place / f"{model}_scores"
    command = [
        *(str(program), "run", "--model", model, "--model_args", arguments, "--device", "cpu"),
        *("--tasks", _CONTINUATION, _CAPITALS, "--include_path", str(tasks)),
        *("--output_path", str(output), "--log_samples", "--batch_size", "1"),
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(place / "cache")}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(f"lm-eval failed:\n{done.stdout[-4000:]}")
    (results,) = output.rglob("results_*.json")
    samples = {}
    for name in (_CONTINUATION, _CAPITALS):
        (file,) = output.rglob(f"samples_{name}_*.jsonl")
        records = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        samples[name] = sorted(records, key=lambda record: record["doc_id"])
    return Scores(json.loads(results.read_text(encoding="utf-8"))["results"], samples)


def measure_scores(program: Path, path: Path, place: Path) -> tuple[Scores, Scores, Scores]:
    """Return the scores of graphrt, of graphrt with weights in float16, and of transformers."""
    tasks, tokenizer = place / "tasks", place / "tokenizer"
    tasks.mkdir()
    write_tasks(tasks)
    python = program.parent / "python"
    save = [str(python), "-c", _SAVE_TOKENIZER, str(path.parent), path.name, str(tokenizer)]
    subprocess.run(save, check=True, capture_output=True)
    float16 = place / "float16.gguf"
    subprocess.run([str(python), "-c", _WRITE_FLOAT16, str(path), str(float16)], check=True)
    ours = []
    for file in (path, float16):
        say(f"graphrt, {file.name}")
        scores = place / file.stem
        scores.mkdir()
        ours.append(_served_scores(program, file, tasks, tokenizer, scores))
    say("transformers")
    arguments = (
        f"pretrained={path.parent},gguf_file={path.name},tokenizer={tokenizer},dtype=float32"
    )
    return ours[0], ours[1], run_lm_eval(program, "hf", arguments, tasks, place)


def _served_scores(program: Path, path: Path, tasks: Path, tokenizer: Path, place: Path) -> Scores:
    with _served(path, "--enable_prefix_caching", "false") as server:
        arguments = (
            f"model={_NAME},base_url={server.url}/v1/completions,tokenizer={tokenizer},"
            "tokenizer_backend=huggingface,tokenized_requests=True,num_concurrent=8,max_retries=1"
        )
        return run_lm_eval(program, "local-completions", arguments, tasks, place)


def scores_report(ours: Scores, float16: Scores, theirs: Scores, program: Path) -> str:
    """Return tables as Markdown."""
    columns = ("task", "documents", "metric", "graphrt, float16", "transformers")
    lines = [
        "# Scores of a real model",
        "",
        f"`python -m bench.real_model scores` on {describe_machine()}; {versions()}, "
        f"{', '.join(_peer_versions(program))}. SmolLM2-135M-Instruct from one GGUF file: "
        "graphrt over `/v1/completions`, with `--enable_prefix_caching false` and else its default "
        "options, from the file itself (Q4_1) and from its weights written in float16; "
        "transformers in float32. All by lm-eval with the same tokens.",
        "",
        *head(*columns, "graphrt, Q4_1", "standard error"),
    ]
    for task, results in theirs.results.items():
        for metric, value in results.items():
            if not isinstance(value, float) or "stderr" in metric:
                continue
            name, _, filter_ = metric.partition(",")
            error = results[f"{name}_stderr,{filter_}"]
            lines.append(
                row(
                    *(task, len(theirs.samples[task]), name),
                    f"{float16.results[task][metric]:.3f}",
                    f"{value:.3f}",
                    f"{ours.results[task][metric]:.3f}",
                    f"{error:.3f}",
                )
            )
    return (
        "\n".join(
            [
                *lines,
                "",
                f"Float16 and transformers: {_difference(float16, theirs)}",
                "",
                f"Q4_1 and transformers: {_difference(ours, theirs)} openvino-genai 2026.4 rounds "
                "the offset of each block of a Q4_1 or Q4_K file to a whole step between two "
                "weights, so it serves other weights than the file has. Q4_0, Q6_K, Q8_0 and F16 "
                "have no such offsets.",
            ]
        )
        + "\n"
    )


def _difference(ours: Scores, theirs: Scores) -> str:
    pairs = list(zip(_likelihoods(ours), _likelihoods(theirs), strict=True))
    gaps = [abs(mine - other) for both in pairs for mine, other in zip(*both, strict=True)]
    sizes = [abs(other) for _, each in pairs for other in each]
    chosen = sum(_best(mine) != _best(other) for mine, other in pairs)
    texts = [
        [sample["filtered_resps"] for sample in scores.samples[_CAPITALS]]
        for scores in (ours, theirs)
    ]
    other_texts = sum(mine != other for mine, other in zip(*texts, strict=True))
    return (
        f"log-probabilities of the {len(gaps)} ends differ by {mean(gaps):.2f} in the mean and "
        f"{max(gaps):.2f} at most, where they are {-mean(sizes):.0f} in the mean; for {chosen} of "
        f"{len(pairs)} documents another end is the most likely. Of {len(texts[0])} generated "
        f"texts {other_texts} differ."
    )


def _likelihoods(scores: Scores) -> list[list[float]]:
    return [
        [float(response[0][0]) for response in sample["resps"]]
        for sample in scores.samples[_CONTINUATION]
    ]


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _peer_versions(program: Path) -> list[str]:
    names = ("lm_eval", "transformers", "torch")
    script = f"from importlib.metadata import version\nfor n in {names}: print(n, version(n))"
    python = program.parent / "python"
    done = subprocess.run(
        [str(python), "-c", script], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()


def scores(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Scores by lm-eval: served by graphrt, and under transformers."""
    parser.add_argument("--lm-eval", metavar="PATH", type=Path, required=True)
    add_write(parser)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as place:
        measured = measure_scores(given.lm_eval, get_smollm2(), Path(place))
        publish(scores_report(*measured, given.lm_eval), given.write)


if __name__ == "__main__":
    commands = {"streams": streams, "conversations": conversations, "scores": scores}
    run_command("bench.real_model", __doc__, commands)

"""SmolLM2-135M in graphrt beside llama.cpp, from the same GGUF file (Q4_1).

    python -m bench.real_model --llama-server PATH [--write FILE] [--quick]

Tables of two loads: streams of chat completions, as `bench.peers` measures them, and the first and
later answers that have to follow a form, on graphrt alone. The model is that of `bench.smollm2`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final
from urllib.parse import urlsplit

from bench.engine_throughput import tokens_per_word
from bench.load_generator import OUTPUT_TOKENS
from bench.machine import ServerProcess, describe_machine
from bench.peer_servers import PeerModel, Setting, llama_cpp
from bench.peers import ModelRuns, load, peer_version, rows, way_of
from bench.serve_vs_engine import say, versions
from bench.smollm2 import get_smollm2
from calculators.llm.prompt.builder import PromptBuilder

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


class _Served(ServerProcess):
    """graphrt with the GGUF file, under its name in this benchmark."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "--model_name", _NAME)
        self.model = _NAME


# Streams ------------------------------------------------------------------------------------------


def settings_of(path: Path, program: Path | None) -> list[Setting]:
    """Return the ways to serve the file."""
    settings = [Setting("graphrt", "defaults", partial(_Served, path))]
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
    with _Served(path) as server:
        found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in _FORMS}
        _ask(server, _FORMS["choice of 3"](-1))  # starts the grammar process
        for turn in range(turns):
            for name, form in _FORMS.items():
                for seconds in found[name]:
                    seconds.append(_ask(server, form(turn)))
        return found


def _ask(server: ServerProcess, members: Mapping[str, Any]) -> float:
    body = {"model": _NAME, "messages": _ABOUT, "max_tokens": 1, "temperature": 0, **members}
    with closing(http.client.HTTPConnection(urlsplit(server.url).netloc)) as connection:
        begin = perf_counter()
        connection.request(
            "POST", "/v3/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        said = response.read()
        seconds = perf_counter() - begin
    if response.status != 200:
        raise RuntimeError(f"{members}: {said!r}")
    return seconds


# Report -------------------------------------------------------------------------------------------


def report(
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
        f"`python -m bench.real_model{' --quick' if arguments.quick else ''}` on "
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
        "| form | new | again |",
        "|---|---|---|",
    ]
    for name, (new, again) in forms.items():
        lines.append(f"| {name} | {median(new) * 1000:,.0f} | {median(again) * 1000:,.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--llama-server", metavar="PATH", type=Path)
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to a file")
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    parser.add_argument("--repetitions", type=int, default=_REPETITIONS)
    parser.add_argument("--output-tokens", type=int, default=round(OUTPUT_TOKENS), help="mean")
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    arguments = parser.parse_args()
    # Otherwise a server would outlive this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
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
        text = report(runs, forms, repetition, arguments)
        if arguments.write:
            arguments.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

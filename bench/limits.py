"""Long and wide: what a stream, a prompt, a graph, a connection and a long answer cost.

    python -m bench.limits [--only streams prompts graphs connections answers] [--write FILE]

Each part grows one thing and leaves the rest alone, so that a cost that grows faster than its cause
shows: the last column of each table would rise. Memory is that of all processes of the server, a
page of several processes counted in parts (PSS); CPU time is theirs too.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from bench.downloads import get_smollm2
from bench.load_generator import Address, Connection, chat_body, connect, read_answer, run_loop
from bench.machine import (
    DEMO,
    MIB,
    ServerProcess,
    describe_machine,
    family_bytes,
    family_seconds,
    head,
    publish,
    report_parser,
    row,
    say,
    versions,
)
from servers.load.client import RequestOutcome

_STREAMS: Final = (1, 64, 256, 1024, 2048)
_STREAM_TOKENS: Final = 32
_PROMPTS: Final = (500, 1000, 2000, 4000, 7900)
_GRAPHS: Final = (1, 10, 100)
_MODELS: Final = (1, 4, 8)
_CONNECTIONS: Final = (100, 1_000, 10_000)
_ANSWERS: Final = (1_000, 10_000, 100_000)
_MODEL_ANSWERS: Final = (1_000, 4_000, 16_000)
_TOO_MANY: Final = b"HTTP/1.1 429"
#: A node that answers with as many words as the request asks for, and its graph.
_NODE: Final = """\
from calculators.language import answers

@answers
async def repeated_word(request):
    for _ in range(int(request.last_text())):
        yield "word "
"""
_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "REQUEST:request"
}
node {
  calculator: "repeated_word"
  input_stream: "REQUEST:request"
  output_stream: "DELTAS:deltas"
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


class Used(NamedTuple):
    """Memory and processor time of all processes of a server so far."""

    memory: int
    cpu: float


def used(server: ServerProcess) -> Used:
    pid = server.pids["server"]
    return Used(family_bytes(pid), family_seconds(pid))


def streams() -> Iterator[str]:
    """Streams of the example model at once, of 32 tokens each."""
    columns = ("streams", "tokens/s", "first token, median", "CPU per token", "memory")
    yield from head(*columns, "per stream")
    with demo(f"max_num_seqs: {max(_STREAMS)}") as place, ServerProcess(place) as server:
        run_loop(ask(server, [chat_body(server.model, "warm up", _STREAM_TOKENS)] * 8))
        base = used(server).memory
        for count in _STREAMS:
            begin = used(server)
            bodies = [
                chat_body(server.model, f"{number}: tell a story", _STREAM_TOKENS)
                for number in range(count)
            ]
            started = perf_counter()
            outcomes, peak = run_loop(ask(server, bodies))
            seconds = perf_counter() - started
            tokens = sum(each.output_tokens for each in outcomes)
            cpu = used(server).cpu - begin.cpu
            first = median(each.ttft for each in outcomes)
            yield row(
                f"{count:,}",
                f"{tokens / seconds:,.0f}",
                f"{first * 1e3:,.0f} ms",
                f"{cpu / tokens * 1e6:,.0f} us",
                f"{peak / MIB:,.0f} MiB",
                f"{(peak - base) / count / 1024:,.0f} KiB",
            )


def prompts() -> Iterator[str]:
    """Prompts of SmolLM2-135M (GGUF, Q4_1), one at a time, with an answer of 2 tokens."""
    columns = ("tokens of the prompt", "first token", "per 1,000 tokens", "CPU per 1,000")
    yield from head(*columns, "more memory")
    with ServerProcess(get_smollm2(), "--model_name", "measured") as server:
        run_loop(ask(server, [chat_body("measured", "warm up " * 200, 8)]))
        for count in _PROMPTS:
            begin = used(server)
            # Each has another beginning, so none finds another's in the cache.
            text = f"{count}: " + "a " * (count - 40)
            (outcome,), peak = run_loop(ask(server, [chat_body("measured", text, 2)]))
            thousands = outcome.input_tokens / 1000
            cpu = used(server).cpu - begin.cpu
            yield row(
                f"{outcome.input_tokens:,}",
                f"{outcome.ttft:.2f} s",
                f"{outcome.ttft / thousands:.2f} s",
                f"{cpu / thousands:.2f} s",
                f"{(peak - begin.memory) / MIB:,.0f} MiB",
            )


def graphs() -> Iterator[str]:
    """Graphs of a server: three nodes without a model, and the example model's of two processes."""
    yield from head("graphs", "ready after", "per graph", "memory", "per graph beyond the first")
    for kind, counts in (("without a model", _GRAPHS), ("the example model", _MODELS)):
        first = 0
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                flags = _write_graphs(Path(folder), count, kind == "without a model")
                started = perf_counter()
                with ServerProcess(Path(folder, "config.json"), *flags) as server:
                    seconds = perf_counter() - started
                    memory = used(server).memory
            first = first or memory
            more = f"{(memory - first) / (count - 1) / 1024:,.0f} KiB" if count > 1 else ""
            yield row(
                f"{count}, {kind}",
                f"{seconds:.2f} s",
                f"{seconds / count * 1e3:,.0f} ms",
                f"{memory / MIB:,.0f} MiB",
                more,
            )


def connections() -> Iterator[str]:
    """Connections that have had one answer and stay open, beside requests of another."""
    columns = ("idle connections", "memory", "per connection", "CPU in 2 s")
    yield from head(*columns, "a request beside")
    limit = str(max(_CONNECTIONS) + 100)
    with _words_server("--max_connections", limit) as server:
        yield from run_loop(_idle(server))


def answers() -> Iterator[str]:
    """Tokens of one answer: of a node without a model, and of the example model made longer."""
    columns = ("tokens", "seconds", "server's CPU per token", "engine's CPU per token")
    yield from head(*columns, "more memory")
    with _words_server() as server:
        for count in _ANSWERS:
            yield _answer(server, f"{count:,}, without a model", str(count), count)
    with demo() as place:
        config = place / "config.json"
        text = config.read_text(encoding="utf-8").replace("2048", str(1 << 17))
        config.write_text(text, encoding="utf-8")
        with ServerProcess(place) as server:
            for count in _MODEL_ANSWERS:
                yield _answer(server, f"{count:,}, of the model", f"{count}: tell a story", count)


PARTS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    each.__name__: each for each in (streams, prompts, graphs, connections, answers)
}


def _answer(server: ServerProcess, name: str, text: str, count: int) -> str:
    """Measure one answer; return its row."""
    before, memory = server.cpu(), used(server).memory
    started = perf_counter()
    _, peak = run_loop(ask(server, [chat_body(server.model, text, count)]))
    seconds = perf_counter() - started
    spent = {part: cpu - before[part] for part, cpu in server.cpu().items()}
    engine = spent.get("engine")
    return row(
        name,
        f"{seconds:.1f} s",
        f"{spent['server'] / count * 1e6:,.0f} us",
        "" if engine is None else f"{engine / count * 1e6:,.0f} us",
        f"{(peak - memory) / MIB:,.0f} MiB",
    )


async def ask(server: ServerProcess, bodies: Sequence[bytes]) -> tuple[list[RequestOutcome], int]:
    """Send requests at once; return the outcomes and the most memory meanwhile.

    Raises:
        RuntimeError: a request failed.
    """
    address = Address.parse(server.url)
    clients: list[Connection] = [await connect(address) for _ in bodies]
    tasks = [
        asyncio.create_task(_ask(address, client, body))
        for client, body in zip(clients, bodies, strict=True)
    ]
    peak = 0
    while not all(task.done() for task in tasks):
        await asyncio.wait(tasks, timeout=0.5)
        peak = max(peak, used(server).memory)
    for client in clients:
        client.close()
    outcomes = [read_answer(*task.result()) for task in tasks]
    for each in outcomes:
        if not each.is_good:
            raise RuntimeError(f"a request failed: {each.error or 'no token came'}")
    return outcomes, peak


async def _ask(
    address: Address, client: Connection, body: bytes
) -> tuple[float, list[tuple[float, bytes]]]:
    """Ask again, as clients do, while too many wait; the time of the first request counts."""
    first = perf_counter()
    _, pieces = await client.ask(body)
    while pieces and pieces[0][1].startswith(_TOO_MANY):
        await asyncio.sleep(1)
        again = await connect(address)
        _, pieces = await again.ask(body)
        again.close()
    return first, pieces


async def _idle(server: ServerProcess) -> list[str]:
    base = used(server).memory
    address = Address.parse(server.url)
    lines: list[str] = []
    open_ones: list[asyncio.StreamWriter] = []
    request = f"GET /v2/health/live HTTP/1.1\r\nHost: {address.host}\r\n\r\n".encode()
    for count in _CONNECTIONS:
        while len(open_ones) < count:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
            open_ones.append(writer)
        begin = used(server)
        await asyncio.sleep(2)
        idle = used(server).cpu - begin.cpu
        waits = []
        for _ in range(50):
            (outcome,), _ = await ask(server, [chat_body(server.model, "10", 10)])
            waits.append(outcome.ttft)
        lines.append(
            row(
                f"{count:,}",
                f"{begin.memory / MIB:,.0f} MiB",
                f"{(begin.memory - base) / count / 1024:.1f} KiB",
                f"{idle * 1e3:.0f} ms",
                f"{median(waits) * 1e3:.1f} ms",
            )
        )
    for writer in open_ones:
        writer.close()
    return lines


@contextmanager
def demo(options: str = "") -> Iterator[Path]:
    """Copy the example model, with further options in its graph."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "demo")
        shutil.copytree(DEMO, place)
        graph = place / "graph.pbtxt"
        text = graph.read_text(encoding="utf-8")
        known = 'models_path: "./"'
        assert known in text
        graph.write_text(text.replace(known, f"{known} {options}"), encoding="utf-8")
        yield place


@contextmanager
def _words_server(*flags: str) -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "words")
        place.mkdir()
        nodes = place / "nodes.py"
        nodes.write_text(_NODE, encoding="utf-8")
        (place / "graph.pbtxt").write_text(_GRAPH, encoding="utf-8")
        with ServerProcess(place, "--calculators", str(nodes), *flags) as server:
            yield server


def _write_graphs(folder: Path, count: int, is_plain: bool) -> tuple[str, ...]:
    """Write a config.json of so many graphs; return the flags that its server needs."""
    graph = DEMO / "graph.pbtxt"
    flags: tuple[str, ...] = ()
    if is_plain:
        graph, nodes = folder / "graph.pbtxt", folder / "nodes.py"
        graph.write_text(_GRAPH, encoding="utf-8")
        nodes.write_text(_NODE, encoding="utf-8")
        flags = ("--calculators", str(nodes))
    entries = [
        {"name": f"graph{number}", "base_path": str(graph.parent)} for number in range(count)
    ]
    text = json.dumps({"model_config_list": [], "mediapipe_config_list": entries})
    (folder / "config.json").write_text(text, encoding="utf-8")
    return flags


def main(words: Sequence[str] | None = None) -> None:
    parser = report_parser(__doc__)
    parser.add_argument("--only", choices=list(PARTS), nargs="+", default=list(PARTS))
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    arguments = parser.parse_args(words)
    busy = " The machine was shared with other work." if arguments.shared else ""
    publish(report(arguments.only, busy), arguments.write)


def report(names: Sequence[str], note: str) -> Iterator[str]:
    """Measure these parts; yield their tables."""
    yield "# Long and wide"
    yield ""
    yield f"`python -m bench.limits` on {describe_machine()}; {versions()}. One run.{note}"
    for name in names:
        say(name)
        yield from ("", f"## {name.capitalize()}", "", (PARTS[name].__doc__ or "").strip(), "")
        yield from PARTS[name]()


if __name__ == "__main__":
    main()

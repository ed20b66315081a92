"""Memory that many open streams cost the server.

    python -m bench.open_streams [--streams 1000]

All streams are chat completions that the engine computes together; the server's own process is
measured when each of them has brought text, and once more a while later.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from bench.load_generator import Address, Connection, chat_body, connect, run_loop
from bench.machine import ServerProcess

DEMO: Final = Path(__file__).parents[1] / "examples/models/demo"
#: More tokens than are generated before the measurement.
OUTPUT_TOKENS: Final = 1900
LATER: Final = 2.0


class StreamMemory(NamedTuple):
    """Bytes of the server's process: before, with the streams open, and after they are closed."""

    streams: int
    before: int
    during: int
    after: int


def measure_open_streams(streams: int) -> StreamMemory:
    """Serve the example model to ``streams`` clients at once.

    Raises:
        RuntimeError: not all streams were open together.
    """
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place, "demo")
        shutil.copytree(DEMO, directory)
        graph = directory / "graph.pbtxt"
        text = graph.read_text(encoding="utf-8")
        option = 'models_path: "./"'
        assert option in text
        graph.write_text(text.replace(option, f"{option}, max_num_seqs: {streams}"), "utf-8")
        with ServerProcess(directory) as server:
            return run_loop(_measure(server, streams))


async def _measure(server: ServerProcess, streams: int) -> StreamMemory:
    address = Address.parse(server.url)
    # The first request of each kind allocates what later ones share.
    warm = await connect(address)
    for number in range(20):
        await warm.ask(chat_body(server.model, f"warm up {number}", 8))
    warm.close()
    before = server.resident()
    connections = [await connect(address) for _ in range(streams)]
    tasks = [
        asyncio.create_task(each.ask(chat_body(server.model, f"{number}: go", OUTPUT_TOKENS)))
        for number, each in enumerate(connections)
    ]
    while not all(map(_has_text, connections)):
        if any(task.done() for task in tasks):
            raise RuntimeError("a stream ended before all of them were open")
        await asyncio.sleep(0.1)
    during = server.resident()
    await asyncio.sleep(LATER)
    if any(task.done() for task in tasks):
        raise RuntimeError("a stream ended while memory was measured")
    during = max(during, server.resident())
    for connection in connections:
        connection.close()
    await asyncio.gather(*tasks)
    await asyncio.sleep(LATER)
    return StreamMemory(streams, before, during, server.resident())


def _has_text(connection: Connection) -> bool:
    """Return True if text has arrived, and not the head of the answer alone."""
    return connection.pieces >= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    memory = measure_open_streams(parser.parse_args().streams)
    print(
        f"{memory.streams} open streams: {(memory.during - memory.before) / 1e6:.1f} MB "
        f"({memory.before / 1e6:.1f} to {memory.during / 1e6:.1f}, {memory.after / 1e6:.1f} after)"
    )


if __name__ == "__main__":
    main()

"""Single embedding queries, alone and beside a request of 2,048 texts.

    python -m bench.embeddings_beside_lists [--queries N] [--write FILE]

The model has the shape of all-MiniLM-L6-v2 and random weights of 8 bits. One client asks for
queries of 8 tokens, one after the other: alone, and while another client has a request of 2,048
texts in work, of 8 and of 64 tokens. A batch has at most 256 tokens, so the time of one is that of
the long request by its number of batches, times the streams that run beside one another. A query
waits fairly when it takes at most two batches longer than alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from bench.encoder_model import make_encoder, text_of
from bench.machine import describe_machine
from bench.server_process import ServerProcess
from bench.written_report import WrittenReport
from calculators.kit.cpu_features import usable_processors

_TEXTS: Final = 2048
_TOKENS_OF_A_BATCH: Final = 256
_QUERY_TOKENS: Final = 8
_PATIENCE: Final = 600


def body_of(model: str, count: int, tokens: int) -> bytes:
    texts = [text_of(tokens, seed) for seed in range(count)]
    return json.dumps({"model": model, "input": texts, "encoding_format": "base64"}).encode()


def seconds_of(address: str, body: bytes) -> float:
    """Return the time of a request in a connection of its own."""
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=_PATIENCE)
    try:
        connection.connect()
        begun = perf_counter()
        connection.request("POST", "/v3/embeddings", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {content[:200]!r}")
        return perf_counter() - begun
    finally:
        connection.close()


def beside(address: str, query: bytes, long: bytes) -> tuple[list[float], float]:
    """Return the times of queries that began while the long request was in work, and its time."""
    with ThreadPoolExecutor(1) as other:
        taken = other.submit(seconds_of, address, long)
        found: list[float] = []
        while not taken.done():
            found.append(seconds_of(address, query))
        return found[:-1], taken.result()  # the last one may have been alone for a part of its time


def report(queries: int, write: Callable[[str], object]) -> None:
    """Measure, and write the table."""
    streams = usable_processors()
    write("# Single queries beside long lists\n")
    write(f"`python -m bench.embeddings_beside_lists` on {describe_machine()}.")
    write("Milliseconds to the answer of a query of 8 tokens.\n")
    write("| beside | queries | median | 95 % | longest | a batch | median more than alone |")
    write("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        directory = make_encoder(Path(folder, "encoder"), int8=True)
        with ServerProcess(directory) as server:
            query = body_of(server.model, 1, _QUERY_TOKENS)
            for _ in range(queries // 4):
                seconds_of(server.address, query)
            alone = [seconds_of(server.address, query) for _ in range(queries)]
            write(f"| nothing | {_row(alone)} | | |")
            for tokens in (_QUERY_TOKENS, 64):
                long = body_of(server.model, _TEXTS, tokens)
                found, taken = beside(server.address, query, long)
                while len(found) < queries:
                    found += beside(server.address, query, long)[0]
                batches = -(-_TEXTS // max(1, _TOKENS_OF_A_BATCH // tokens))
                batch = taken / batches * streams
                more = (float(np.median(found)) - float(np.median(alone))) / batch
                write(
                    f"| {_TEXTS:,} texts of {tokens} tokens | {_row(found)} | {batch * 1e3:.1f}"
                    f" | {more:.1f} batches |"
                )


def _row(times: list[float]) -> str:
    middle, late, last = np.percentile(np.array(times) * 1e3, [50, 95, 100])
    return f"{len(times)} | {middle:.1f} | {late:.1f} | {last:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--write", type=Path, help="also write the table to this file")
    words = parser.parse_args()
    write = WrittenReport()
    report(words.queries, write)
    write.keep(words.write)


if __name__ == "__main__":
    main()

"""A speech model that several workers share: their sounds do not mix."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from graph_runtime import REGISTRY
from servers.config import find_graph
from servers.serving.loaded_graph import LoadedGraph, load_graph
from tests.calculators.kit.child_process.sharing import SharingWorkers, with_workers
from tests.calculators.speech.audio.sounds import tone, wav
from tests.calculators.speech.speech_to_text.counter import GRAPH, make_model, payload


async def text_of(loaded: LoadedGraph, content: bytes) -> str:
    packets: list[Any] = []
    await loaded.answer(payload(content), packets.append)
    text: str = json.loads(packets[0])["text"]
    return text


def test_sounds_of_two_workers_are_answered_by_one_process(tmp_path: Path) -> None:
    directory = make_model(tmp_path / "counter", GRAPH)
    sounds = [wav(tone(seconds)) for seconds in (1.0, 2.0, 3.0)]

    async def loaded(workers: SharingWorkers, number: int) -> LoadedGraph:
        with workers.worker(number):
            return await load_graph(find_graph(directory), REGISTRY)

    async def scenario(workers: SharingWorkers) -> None:
        # One after the other: a worker here is a setting of the process.
        graphs = [await loaded(workers, number) for number in (1, 2)]
        assert len(workers.pool.pids) == len(set(workers.pool.pids)) == 2  # the model, the reader
        alone = [await text_of(graphs[0], sound) for sound in sounds]
        work = [text_of(graph, sound) for graph in graphs for sound in sounds]
        assert await asyncio.gather(*work) == alone * 2
        await graphs[0].close()
        assert await text_of(graphs[1], sounds[0]) == alone[0]
        await graphs[1].close()

    with_workers(scenario)()

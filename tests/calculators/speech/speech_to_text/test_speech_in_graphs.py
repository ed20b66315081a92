"""`SpeechToTextCalculator`: sounds become text inside a graph."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from calculators.speech.audio.sound import Sound
from graph_runtime import REGISTRY, CalculatorGraph, Packet, RunError
from servers.config import find_graph
from servers.serving.loaded_graph import load_graph
from tests.calculators.speech.audio.sounds import tone
from tests.calculators.speech.speech_to_text.counter import TEXT, make_model
from tests.support.patience import PATIENCE

GRAPH = """
input_stream: "sound"
output_stream: "pieces"
output_stream: "text"
node {
  name: "Listener"
  calculator: "SpeechToTextCalculator"
  input_stream: "SOUND:sound"
  input_side_packet: "STT_NODE_RESOURCES:s2t_servable"
  output_stream: "PIECES:pieces"
  output_stream: "TEXT:text"
  node_options {
    [type.googleapis.com/mediapipe.S2tCalculatorOptions] { models_path: "./" }
  }
}
"""


def test_sounds_become_pieces_and_texts(tmp_path: Path) -> None:
    model = make_model(tmp_path, GRAPH)
    seen: dict[str, list[Packet]] = {"pieces": [], "text": []}

    async def scenario() -> None:
        loaded = await load_graph(find_graph(model), REGISTRY)
        try:
            graph = CalculatorGraph(loaded.plan)
            for name in seen:
                graph.observe_output_stream(name, lambda name, packet: seen[name].append(packet))
            await graph.start_run_async(loaded._resources.side_packets)
            for time in (0, 5):
                graph.add_packet_to_input_stream("sound", Sound(tone(1.0), 16_000), time)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
        finally:
            await loaded.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))
    texts = [(each.time, each.payload) for each in seen["text"]]
    assert texts == [(0, TEXT.strip()), (5, TEXT.strip())]
    assert "".join(each.payload for each in seen["pieces"]) == TEXT * 2
    times = [each.time for each in seen["pieces"]]
    assert times == sorted(set(times))


def test_a_graph_without_the_resource_says_which_node_needs_it() -> None:
    graph = CalculatorGraph(GRAPH)
    graph.start_run({"s2t_servable": {}})
    with pytest.raises(RunError, match="initialized STT node named: Listener"):
        graph.wait_until_done()

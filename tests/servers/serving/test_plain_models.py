"""A served graph infers with a plain model that lies beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import openvino
from numpy.typing import NDArray

import calculators.tensors.openvino
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out
from servers.serving.model_repository import ModelRepository
from tests.calculators.tensors.openvino.graphs import SESSION
from tests.calculators.tensors.openvino.tiny_models import add_one_model
from tests.servers.serving.asking import answer
from tests.servers.serving.served_graphs import REQUEST, RESPONSE, make_registry, write_graph

GRAPH = f"""
{REQUEST}{RESPONSE}
{SESSION % "add_one"}
node {{ calculator: "Read" input_stream: "input" output_stream: "x" }}
node {{
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:session"
  input_stream: "X:x"
  output_stream: "Y:y"
}}
node {{ calculator: "Write" input_stream: "y" output_stream: "output" }}
"""


class Read(Calculator):
    """Parses the body as numbers."""

    request = In[HttpPayload]()
    numbers = Out[np.ndarray]()

    def process(self, cc: CalculatorContext) -> None:
        words = cc.get(self.request).body.decode().split()
        cc.emit(self.numbers, np.array(words, dtype=np.float32))


class Write(Calculator):
    """Writes numbers as text."""

    numbers = In[np.ndarray]()
    response = Out[str]()

    def process(self, cc: CalculatorContext) -> None:
        numbers: NDArray[np.float32] = cc.get(self.numbers)
        cc.emit(self.response, " ".join(f"{each:g}" for each in numbers))


def test_requests_use_the_model_beside_the_graph(tmp_path: Path) -> None:
    entry = write_graph(tmp_path, "numbers", GRAPH)
    (entry.directory / "add_one" / "1").mkdir(parents=True)
    openvino.save_model(add_one_model(), entry.directory / "add_one" / "1" / "model.xml")
    registry = make_registry()
    calculators.tensors.openvino.register(registry)
    registry.register_calculator(Read)
    registry.register_calculator(Write)

    async def ask(repository: ModelRepository, body: str) -> str:
        [packet] = await answer(repository, "numbers", body)
        return str(packet)

    async def scenario() -> None:
        repository = ModelRepository([entry], registry)
        await repository.load_all()
        try:
            assert await ask(repository, "1 2") == "2 3"
            both = await asyncio.gather(ask(repository, "3 4"), ask(repository, "5 6"))
            assert list(both) == ["4 5", "6 7"]
        finally:
            await repository.close()

    asyncio.run(scenario())

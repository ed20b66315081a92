"""Calculators of installed packages in served graphs, and errors of those packages."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, Registry, ValidationError
from graph_runtime.streams.input_handlers.policies import DefaultInputStreamHandler
from servers.config import find_graph
from servers.serving.loaded_graph import load_graph


class Installed(Calculator):
    """Answers every request."""

    request = In[HttpPayload]()
    response = Out[str]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, "installed")


def register(registry: Registry) -> None:
    """Register the calculator, as an entry point does."""
    registry.register_calculator(Installed, "acme.Installed")


def broken(registry: Registry) -> None:
    """Fail as the entry point of a package that lacks another."""
    raise ImportError("No module named 'cv2'")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Make a registry with two packages installed, one of them broken."""
    points = [
        EntryPoint(name, f"{__name__}:{name}", "graphrt.calculators")
        for name in ("broken", "register")
    ]
    monkeypatch.setattr("graph_runtime.plan.registry.entry_points", lambda *, group: points)
    registry = Registry()
    registry.register_input_stream_handler(DefaultInputStreamHandler)
    registry.enable_entry_points()
    return registry


def answer(folder: Path, root: Registry, calculator: str) -> list[ResponsePacket]:
    (folder / "graph.pbtxt").write_text(
        f'input_stream: "input" output_stream: "output" node {{ calculator: "{calculator}" '
        f'input_stream: "input" output_stream: "output" }}'
    )
    packets: list[ResponsePacket] = []

    async def run() -> None:
        graph = await load_graph(find_graph(folder), Registry(root))
        await graph.answer(HttpPayload("/v3/x", {}), packets.append)
        await graph.close()

    asyncio.run(run())
    return packets


def test_a_graph_finds_calculators_of_installed_packages(tmp_path: Path, root: Registry) -> None:
    assert answer(tmp_path, root, "acme.Installed") == ["installed"]


def test_a_missing_calculator_is_reported_with_the_failed_package(
    tmp_path: Path, root: Registry
) -> None:
    with pytest.raises(ValidationError) as caught:
        answer(tmp_path, root, "acme.Missing")
    reason = "(entry points that failed to load: broken: ImportError: No module named 'cv2')"
    assert reason in str(caught.value)

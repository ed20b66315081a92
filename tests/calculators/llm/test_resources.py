"""Resources of LLM nodes: found by name, loaded as the graph says, closed at the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from calculators.llm.engine.engine import ProcessEngine
from calculators.llm.prompt.client import PromptProcess
from calculators.llm.servable import LlmServable
from graph_runtime import GraphResources, ResourceError, has_options
from protos import messages
from tests.calculators.llm.demo_model import DEMO, copy_of_demo, rewrite
from tests.calculators.llm.graph_texts import (
    GRAPHS,
    PULLED,
    QUICKSTART,
    plan_of,
    resources_of,
    two_nodes,
)
from tests.support.conditions import soon
from tests.support.processes import is_running


def pids(resources: GraphResources) -> list[int]:
    """Return the processes of all engines and prompts."""
    found: list[int] = []
    for resource in resources.resources:
        assert isinstance(resource, LlmServable)
        for part in (resource.engine, resource.prompts):
            assert isinstance(part, (ProcessEngine, PromptProcess))
            assert part.pid is not None
            found.append(part.pid)
    return found


@pytest.mark.parametrize("name", ["demo", "pulled"])
def test_existing_graphs_load_as_they_are(name: str) -> None:
    async def run() -> None:
        resources = await soon(resources_of(GRAPHS[name], DEMO))
        assert resources.unavailable_reason == ""
        servable = resources.side_packets["llm"]["LLMExecutor"]
        assert isinstance(servable, LlmServable)
        assert resources.side_packets.get("llm_ctx") == ({} if name == "pulled" else None)
        processes = pids(resources)
        await soon(resources.close())
        assert not any(map(is_running, processes))
        assert "shut down" in resources.unavailable_reason

    asyncio.run(run())


@pytest.mark.parametrize("name", GRAPHS)
def test_all_spellings_give_the_same_graph(name: str) -> None:
    plan = plan_of(GRAPHS[name])
    assert [node.config.name for node in plan.nodes] == ["LLMExecutor"]
    assert [node.calculator_type for node in plan.nodes] == ["HttpLLMCalculator"]
    assert has_options(plan.nodes[0].config, messages.LLMCalculatorOptions)


def test_the_demo_models_own_graph_is_the_quickstarts() -> None:
    assert (DEMO / "graph.pbtxt").read_text(encoding="utf-8").split() == QUICKSTART.split()


def test_two_llm_nodes_of_one_graph_have_an_engine_each() -> None:
    async def run() -> None:
        resources = await soon(resources_of(two_nodes(), DEMO))
        assert resources.side_packets["llm"].keys() == {"first", "second"}
        assert len(set(pids(resources))) == 4
        await soon(resources.close())

    asyncio.run(run())


def refusal(text: str, directory: Path = DEMO) -> str:
    with pytest.raises(ResourceError) as caught:
        asyncio.run(soon(resources_of(text, directory)))
    return str(caught.value)


def test_a_node_needs_a_name() -> None:
    text = refusal(PULLED.replace('name: "LLMExecutor"', ""))
    assert "has no name" in text
    assert 'name: "LLM"' in text


def test_two_nodes_of_one_name_are_refused_and_nothing_stays_open() -> None:
    assert '"same"' in refusal(two_nodes("same", "same"))


def test_an_error_of_the_second_node_closes_the_first() -> None:
    text = two_nodes()
    place = text.rindex('"./"')
    reason = refusal(text[:place] + '"./none"' + text[place + 4 :])
    assert 'node "second"' in reason
    assert '"./none"' in reason


def test_a_model_that_does_not_load_names_node_and_file(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")
    rewrite(folder / "openvino_model.xml", lambda content: content[:5000])
    text = refusal(QUICKSTART, folder)
    assert 'node "LLMExecutor": the model cannot be loaded: ' in text
    assert "openvino_model.xml" in text
    assert str(tmp_path) not in text

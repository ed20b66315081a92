"""A served language model over changes of its graph and of calculators: one engine throughout."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.calculators.llm.graph_texts import loop_with
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.processes import children_of, module_of

DEMO = ROOT / "examples" / "models" / "demo"
CHAT = "/v3/chat/completions"
BODY = {
    "model": "demo",
    "messages": [{"role": "user", "content": "Hello"}],
    "temperature": 0,
}
ENGINE = "calculators.llm.engine.process"
LOADED = "on CPU, loaded in "
WORDS = ["graph", "--model_name", "demo", "--file_system_poll_wait_seconds", "0.05"]
#: Writes a word behind every event, so that the code that runs shows.
SHOUT = """\
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Mark(Calculator):
    events = In[str]("EVENTS")
    marked = Out[str]("EVENTS")
    timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.marked, cc.get(self.events) + {word!r})
"""
GRAPH = (
    loop_with(
        'models_path: "../model" plugin_config: \'{ "PERFORMANCE_HINT": "LATENCY" }\'', "events"
    )
    + 'node { calculator: "Mark" input_stream: "EVENTS:events" output_stream: "EVENTS:output" }\n'
)


class Site:
    """A server of a graph with a calculator of ``shout.py`` behind the model."""

    def __init__(self, folder: Path) -> None:
        self.graph = folder / "graph" / "graph.pbtxt"
        self.module = folder / "shout.py"
        self.model = folder / "model"
        shutil.copytree(DEMO, self.model)
        self.graph.parent.mkdir()
        self.graph.write_text(GRAPH)
        self.module.write_text(SHOUT.format(word=" one"))
        #: How many engines the tests expect to have been loaded.
        self.loads = 1
        self.server = Serving(folder, *WORDS, calculators=("--calculators", "shout.py"))

    @property
    def engines(self) -> list[int]:
        """The processes of engines. The log has a line for each that was ever loaded."""
        loaded = [line for line in self.server.log if LOADED in line]
        engines = [pid for pid in children_of(self.server.pid) if module_of(pid) == ENGINE]
        assert len(loaded) == self.loads
        return engines

    def edit(self, file: Path, old: str, new: str) -> None:
        """Change a text in a file, and wait until the graph is loaded again."""
        text = file.read_text()
        assert old in text
        # In one step, so that the watcher never reads half of it.
        file.with_suffix(".new").write_text(text.replace(old, new))
        os.replace(file.with_suffix(".new"), file)
        self.server.wait_for("reloaded: demo")

    def ask(self, **members: Any) -> tuple[int, str]:
        with self.server.request("POST", CHAT, {**BODY, "max_tokens": 8, **members}) as answer:
            return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, child_program: None) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    with site.server:
        site.server.wait_until_serving()
        yield site


def test_an_edited_calculator_of_the_command_line_is_served_by_the_same_engine(site: Site) -> None:
    (engine,) = site.engines
    before = site.ask()[1]
    assert before.endswith(" one")
    site.edit(site.module, " one", " two")
    assert (
        site.ask()[1].removesuffix(" two").partition('"choices"')[2]
        == (before.removesuffix(" one").partition('"choices"')[2])
    )
    assert site.engines == [engine]


def test_a_broken_calculator_of_the_command_line_changes_nothing(site: Site) -> None:
    (engine,) = site.engines
    before = site.module.read_text()
    site.edit(site.module, "def process", "def (process")
    assert any("shout.py:10: SyntaxError" in line for line in site.server.log)
    assert site.ask()[0] == 200
    site.edit(site.module, "def (process", "def process")
    assert site.module.read_text() == before
    assert site.engines == [engine]


def test_an_edited_line_of_the_graph_keeps_the_engine_and_takes_effect(site: Site) -> None:
    (engine,) = site.engines
    site.edit(site.graph, "plugin_config", "max_tokens_limit: 4 plugin_config")
    status, text = site.ask(max_tokens=8)
    assert (status, "max_tokens" in text) == (400, True)
    site.edit(site.graph, "max_tokens_limit: 4 plugin_config", "plugin_config")
    assert site.ask(max_tokens=8)[0] == 200
    site.edit(site.graph, "plugin_config", 'tool_parser: "llama3" plugin_config')
    site.edit(site.graph, 'tool_parser: "llama3" plugin_config', "plugin_config")
    assert site.engines == [engine]


def test_a_renamed_node_keeps_the_engine_and_has_its_metrics(site: Site) -> None:
    (engine,) = site.engines
    site.edit(site.graph, '"LLMExecutor"', '"Other"')
    with site.server.request("GET", "/metrics") as answer:
        lines = answer.read().decode().splitlines()
    up = {line for line in lines if line.startswith("graphrt_llm_engine_up{")}
    assert up == {
        'graphrt_llm_engine_up{graph="demo",node="LLMExecutor"} 0.0',
        'graphrt_llm_engine_up{graph="demo",node="Other"} 1.0',
    }
    site.edit(site.graph, '"Other"', '"LLMExecutor"')
    assert site.engines == [engine]


def test_a_request_in_flight_ends_on_the_old_graph_with_the_shared_engine(site: Site) -> None:
    (engine,) = site.engines
    members = {"stream": True, "max_tokens": 400, "ignore_eos": True}
    with site.server.request("POST", CHAT, {**BODY, **members}) as answer:
        first = answer.readline()
        assert first.startswith(b"data: ")
        site.edit(site.module, " two", " three")
        assert site.ask()[1].endswith(" three")
        rest = answer.read().decode()
    assert rest.count(" three") == 0
    assert "data: [DONE]" in rest
    assert '"finish_reason":"length"' in rest
    site.edit(site.module, " three", " two")
    assert site.engines == [engine]


def test_a_changed_option_of_the_engine_makes_a_new_one(site: Site) -> None:
    (engine,) = site.engines
    site.edit(site.graph, "plugin_config", "max_num_seqs: 32 plugin_config")
    site.server.wait_for("demo: unloaded")
    site.loads += 1
    (new,) = site.engines
    assert new != engine
    assert site.ask()[0] == 200


def test_changed_weights_come_with_the_next_reload(site: Site) -> None:
    (engine,) = site.engines
    weights = site.model / "openvino_model.bin"
    shutil.copy(weights, site.model / "copy")
    os.replace(site.model / "copy", weights)
    site.edit(site.graph, 'node { calculator: "Mark"', '# changed\nnode { calculator: "Mark"')
    site.server.wait_for("demo: unloaded")
    site.loads += 1
    (new,) = site.engines
    assert new != engine
    assert json.loads(site.ask()[1].removesuffix(" two"))["choices"]

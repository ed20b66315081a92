"""Tasks found by entry points, those of other packages like ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from calculators.kit import tasks
from calculators.kit.settings.declaration import options_of
from calculators.kit.tasks import ErrorForm
from calculators.llm.endpoint import Generating
from calculators.llm.endpoints import ENDPOINTS
from servers.fronts.http.routes import error_form, find_route, may_stream
from tests.support.checkout import ROOT
from tests.support.installed_package import install
from tests.support.patience import PATIENCE

#: Another package with a task of its own, and a broken one.
STRANGER = """
from dataclasses import dataclass
from calculators.kit.settings.declaration import option
from calculators.kit.settings.declaration import TASK
from calculators.kit.settings.value_types import count
from calculators.kit.tasks import Task, TaskEndpoint
from calculators.kit.tasks.operation import TaskDescription
from calculators.kit.tasks.task import DeviceOptions

def register(registry):
    from graph_runtime import Calculator, In, Out
    class ShoutCalculator(Calculator):
        request = In[object]("REQUEST_PAYLOAD")
        response = Out[object]("RESPONSE_PAYLOAD")
        def process(self, cc):
            cc.emit(self.response, cc.take(self.request).parsed_json["text"].upper())
    registry.register_calculator(ShoutCalculator)

GRAPH = '''
input_stream: "REQUEST_PAYLOAD:in" output_stream: "RESPONSE_PAYLOAD:out"
node { calculator: "ShoutCalculator" input_stream: "REQUEST_PAYLOAD:in"
       output_stream: "RESPONSE_PAYLOAD:out" }
'''
@dataclass(frozen=True, slots=True, kw_only=True)
class ShoutOptions(DeviceOptions):
    loudness: int = option(1, "how loud", group=TASK, metavar="N", reads=count)

@dataclass(frozen=True, slots=True, kw_only=True)
class OtherOptions:
    pooling: int = option(1, "liters", group=TASK, metavar="N", reads=count)

class Shout(Task):
    name = "shout"
    endpoints = (TaskEndpoint("/audio/shouts", streams=True),)
    options = ShoutOptions

    def register(self, registry):
        register(registry)

    def serves(self, calculator):
        return calculator == "ShoutCalculator"

    def describe(self, model):
        return TaskDescription((), {})

    def graph(self, options, model):
        return GRAPH

    def example(self, model):
        return "/v3/audio/shouts", {"model": model, "text": "hello"}

class Pools(Shout):
    name = "pools"
    endpoints = ()
    options = OtherOptions

SHOUT = Shout()
TAKEN = SHOUT
POOLS = Pools()
"""
ENTRY_POINTS = """\
[graphrt.tasks]
shout = stranger:SHOUT
taken = stranger:TAKEN
pools = stranger:POOLS
gone = stranger_that_is_not_there:TASK
"""
REPORT = """
import json
from calculators.kit import tasks
from graph_runtime import REGISTRY
from servers.cli.arguments import make_parser
from servers.cli.command_line import spread
from servers.fronts.http.routes import may_stream, nothing_at
words = spread(["serve", "--task", "shout", "--loudness", "3", "--model_path", "."])
print(json.dumps({
    "tasks": [task.name for task in tasks.installed_tasks()],
    "failed": tasks.failed_tasks(),
    "paths": sorted(tasks.endpoint_paths()),
    "streams": may_stream("/v1/audio/shouts"),
    "nothing": nothing_at("/v3/other"),
    "calculator": REGISTRY.find_calculator("ShoutCalculator") is not None,
    "loudness": make_parser().parse_args(words).loudness,
}))
"""


def test_a_task_of_another_package_is_found_like_ours(tmp_path: Path) -> None:
    (tmp_path / "stranger.py").write_text(STRANGER, encoding="utf-8")
    install(tmp_path, "stranger", ENTRY_POINTS)
    paths = (str(tmp_path), os.environ.get("PYTHONPATH", ""), str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    own = [
        *("embeddings", "image_generation", "rerank", "shout"),
        *("speech2text", "text2speech", "text_classification"),
    ]
    assert found["tasks"] == ["text_generation", *own]
    assert "stranger_that_is_not_there" in found["failed"]["gone"]
    assert 'named "shout"' in found["failed"]["taken"]
    assert "OtherOptions.pooling: --pooling is declared elsewhere" in found["failed"]["pools"]
    assert {"/v3/audio/shouts", "/v1/audio/shouts"} <= set(found["paths"])
    assert found["streams"] is True
    assert "/v3/audio/shouts" in found["nothing"]
    assert found["calculator"] is True
    assert found["loudness"] == 3


@pytest.mark.parametrize("path", ["/v3/chat/completions", "/v1/embeddings", "/v3/v1/embeddings"])
def test_every_task_answers_under_each_prefix(path: str) -> None:
    assert path in tasks.endpoint_paths()
    assert find_route(path) is not None


def test_tasks_define_how_their_paths_behave() -> None:
    assert may_stream("/v3/chat/completions")
    assert not may_stream("/v3/embeddings")
    assert error_form("/v1/messages") is ErrorForm.ANTHROPIC
    assert error_form("/v1/embeddings") is ErrorForm.OPENAI


@pytest.mark.parametrize("task", tasks.installed_tasks(), ids=lambda task: task.name)
def test_every_task_is_described_completely(task: tasks.Task) -> None:
    """Each endpoint is documented under each prefix, and each example has an endpoint."""
    described = {path for each in task.describe("m").operations for path in each.paths.values()}
    assert described == {path for each in task.endpoints for path in each.paths()}
    path, body = task.example("m")
    assert path in described
    assert body["model"] == "m"
    assert (ROOT / task.docs).is_file()
    assert options_of(task.options)


def test_the_language_models_endpoints_stream_what_may_be_asked_for_as_a_stream() -> None:
    for endpoint in ENDPOINTS:
        # The path of some says whether the answer is a stream.
        if not endpoint.names_model:
            handling = endpoint.handling()
            may_stream = isinstance(handling, Generating) and "stream" in handling.members
            assert endpoint.streams is may_stream

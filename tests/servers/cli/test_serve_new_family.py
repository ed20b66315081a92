"""A family of models is one folder and one entry point, from which servers take everything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.tasks import installed_tasks
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.installed_package import install

FAMILY = '''
from dataclasses import dataclass

from calculators.kit.requests.schema import record, ref, string
from calculators.kit.settings.declaration import RUNNING, TASK, option
from calculators.kit.settings.value_types import count
from calculators.kit.tasks import ErrorForm, Task, TaskEndpoint
from calculators.kit.tasks.operation import JSON, Operation, TaskDescription
from calculators.kit.tasks.operation import answer, media, paths_of
from calculators.kit.tasks.task import DeviceOptions

GRAPH = """
input_stream: "REQUEST_PAYLOAD:in" output_stream: "RESPONSE_PAYLOAD:out"
node { name: "ShoutExecutor" calculator: "ShoutCalculator"
       input_side_packet: "SHOUT_RESOURCES:shout"
       input_stream: "REQUEST_PAYLOAD:in" output_stream: "RESPONSE_PAYLOAD:out"
       node_options { [type.googleapis.com/shout.Options] { marks: %d } } }
"""
SHOUTS = TaskEndpoint("/shouts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShoutOptions(DeviceOptions):
    marks: int = option(1, "exclamation marks", group=TASK, metavar="N", reads=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShoutSettings:
    shout_limit: int = option(
        9, "letters of a shout; default {default}", group=RUNNING, metavar="N", reads=count
    )


class Shouting(Task):
    name = "shout"
    endpoints = (SHOUTS,)
    calculators = ("ShoutCalculator",)
    options = ShoutOptions
    settings = (ShoutSettings,)

    def register(self, registry):
        from shouting.nodes import Initializer, ShoutCalculator

        registry.register_calculator(ShoutCalculator)
        registry.register_resource_initializer(Initializer())

    def serves(self, calculator):
        return calculator == "ShoutCalculator"

    def describe(self, model):
        members = {"model": string(), "text": string("The words to shout.")}
        operation = Operation(
            method="post", paths=paths_of(SHOUTS), id="shout", tag="Shouts", summary="Shout",
            form=ErrorForm.OPENAI, runs_graph=True, body={JSON: media(ref("ShoutRequest"))},
            answers={200: answer("The shout.", {JSON: media(string())})},
        )
        return TaskDescription((operation,), {"ShoutRequest": record(members)})

    def graph(self, options, model):
        return GRAPH % ShoutOptions(**options).marks

    def example(self, model):
        return "/v3/shouts", {"model": model, "text": "hello"}

    def recognizes(self, path):
        return (path / "voice.txt").is_file()

    def model_facts(self, resource):
        return {"longest_shout": resource.limit}


TASK = Shouting()
'''
NODES = """
import json
from pathlib import Path

from calculators.kit.tasks.nodes import node_resource
from graph_runtime import Calculator, In, Out, SideIn, options
from shouting.task import ShoutSettings


@options("shout.Options")
class Options:
    marks: int = 1


class Voice:
    unavailable_reason = ""

    def __init__(self, word, limit):
        self.word, self.limit = word, limit

    async def close(self):
        pass


class Initializer:
    tag = "SHOUT_RESOURCES"
    context_tags = ()

    def matches(self, calculator):
        return calculator == "ShoutCalculator"

    async def make(self, node, settings):
        word = Path(settings.directory, "voice.txt").read_text()
        return Voice(word, settings.of(ShoutSettings).shout_limit)


class ShoutCalculator(Calculator):
    options_type = Options
    request = In[object]("REQUEST_PAYLOAD")
    response = Out[object]("RESPONSE_PAYLOAD")
    resources = SideIn[dict[str, object]]("SHOUT_RESOURCES")

    def open(self, cc):
        self.voice = node_resource(cc, self.resources, "shouts")

    def process(self, cc):
        text = cc.take(self.request).parsed_json["text"].upper()[: self.voice.limit]
        shout = f"{self.voice.word} {text}" + "!" * cc.options(Options).marks
        cc.emit(self.response, json.dumps({"shout": shout}))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of one family, its one entry point, and a model."""
    folder = tmp_path_factory.mktemp("family")
    package, model = folder / "shouting", folder / "loud"
    package.mkdir()
    model.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(FAMILY)
    (package / "nodes.py").write_text(NODES)
    (model / "voice.txt").write_text("HEY")
    install(folder, "shouting", "[graphrt.tasks]\nshout = shouting.task:TASK\n")
    return folder


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[Serving]:
    words = ("--marks", "3", "--shout_limit", "5", "loud")
    with Serving(site, *words, calculators=()) as serving:
        yield serving.wait_until_serving()


def asked(server: Serving, method: str, path: str, body: Any = None) -> Any:
    with server.request(method, path, body) as response:
        assert response.status == 200
        return json.loads(response.read())


@pytest.mark.parametrize("path", ["/v3/shouts", "/v1/shouts"])
def test_its_endpoint_answers_with_the_options_of_its_flags(server: Serving, path: str) -> None:
    answer = asked(server, "POST", path, {"model": "loud", "text": "good morning"})
    assert answer == {"shout": "HEY GOOD !!!"}


def test_its_schemas_are_in_the_document(server: Serving) -> None:
    document = asked(server, "GET", "/openapi.json")
    assert "post" in document["paths"]["/v3/shouts"]
    members = document["components"]["schemas"]["ShoutRequest"]["properties"]
    assert members["text"]["description"] == "The words to shout."


def test_the_list_that_the_page_reads_has_its_task_and_facts(server: Serving) -> None:
    (model,) = asked(server, "GET", "/v1/models")["data"]
    found = {name: model[name] for name in ("id", "task", "endpoints", "longest_shout")}
    assert found == {
        "id": "loud",
        "task": "shout",
        "endpoints": ["/shouts"],
        "longest_shout": 5,
    }


def test_the_first_request_that_is_printed_is_its_example(server: Serving) -> None:
    (line,) = [line for line in server.log if "curl" in line]
    assert "/v3/shouts" in line
    assert '"text": "hello"' in line


@pytest.mark.parametrize(
    ("command", "flags"),
    [("serve", {"--marks", "--shout_limit"}), ("pull", {"--marks"}), ("configure", {"--marks"})],
)
def test_its_flags_and_name_are_in_the_help(site: Path, command: str, flags: set[str]) -> None:
    help = graphrt(command, "--help", cwd=site).stdout
    assert flags <= set(help.split())
    names = [task.name for task in installed_tasks()]
    listed = help[help.index("  --task TASK") :].split(";")[0].split("TASK")[1]
    assert {*names, "shout"} == {name.strip() for name in listed.split(",")}


def test_its_graph_is_written(site: Path, tmp_path: Path) -> None:
    shutil.copytree(site / "loud", tmp_path / "loud")
    words = ("configure", "--task", "shout", "--marks", "2", tmp_path / "loud")
    done = graphrt(*words, cwd=site)
    assert done.returncode == 0, done.stderr
    assert "marks: 2" in (tmp_path / "loud" / "graph.pbtxt").read_text()

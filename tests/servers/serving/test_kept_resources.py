"""Resources over reloads: a changed graph takes them, unless what they are made of has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from graph_runtime import NodeResource, ResourceError, ResourceSettings, identity_of
from graph_runtime.plan.plan import NodePlan
from servers.operations.metrics.server_metrics import Served, ServerMetrics
from tests.servers.serving.reloading import (
    SAY,
    Site,
    all_retired,
    reloading,
    write_config,
    write_saying,
)
from tests.servers.serving.served_graphs import (
    REQUEST,
    TELL_GRAPH,
    Initializer,
    Resource,
    Wait,
    http_graph,
    write_graph,
)

#: A second node, whose resource is beside the answer.
SECOND = f"""\
node {{
  name: "second" calculator: "Tell" {REQUEST} output_stream: "HTTP_RESPONSE_PAYLOAD:unused"
  input_side_packet: "TEST_RESOURCES:told"
}}
"""


class Adopted:
    """A resource as a changed graph has it."""

    def __init__(self, resource: Resource, settings: ResourceSettings) -> None:
        self.resource = resource
        self.settings = settings

    @property
    def unavailable_reason(self) -> str:
        return self.resource.unavailable_reason

    async def close(self) -> None:
        raise AssertionError("the resource is closed, and not what a node makes of it")


class Sharing(Initializer):
    """Makes a resource of the file ``weights`` beside the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal = ""
        #: What had been made when each was made, and how often it had been closed.
        self.closed_before: list[list[int]] = []

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        return identity_of(files=[settings.directory / "weights"])

    async def make(self, node: NodePlan, settings: ResourceSettings) -> NodeResource:
        settings.metrics.of_node(node.config.name).gauge("up", "Up.").follow(lambda: 1)
        self.closed_before.append([each.closed for each in self.made])
        return await super().make(node, settings)

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        if self.refusal:
            raise ResourceError(self.refusal)
        assert isinstance(resource, Resource)
        return Adopted(resource, settings)

    @property
    def closed(self) -> list[int]:
        return [each.closed for each in self.made]


def write_tell(folder: Path, **entry: Any) -> Path:
    """Write a graph "tell" with a resource, and its weights; the path of the graph."""
    write_graph(folder, "tell", TELL_GRAPH)
    (folder / "tell" / "weights").write_text("1")
    write_config(folder, {"name": "tell", **entry})
    return folder / "tell" / "graph.pbtxt"


def test_an_edited_graph_has_the_same_resource(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()

    async def scenario(site: Site) -> None:
        for number in range(3):
            graph.write_text(f"{TELL_GRAPH}# {number}")
            assert await site.step()
            await all_retired()
            assert await site.ask("tell") == "tell"
            assert sharing.closed == [0]

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1]


def test_a_changed_python_file_leaves_the_resource(tmp_path: Path) -> None:
    write_saying(tmp_path, "say", "one")
    graph = tmp_path / "say" / "graph.pbtxt"
    graph.write_text(http_graph("Say") + SECOND)
    (tmp_path / "say" / "weights").write_text("1")
    write_config(tmp_path, {"name": "say", "python_path": "say/say.py"})
    sharing = Sharing()

    async def scenario(site: Site) -> None:
        (tmp_path / "say" / "say.py").write_text(SAY % "two")
        assert await site.step()
        await all_retired()
        assert sharing.closed == [0]

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1]


def test_changed_weights_make_a_new_resource(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()

    async def scenario(site: Site) -> None:
        (tmp_path / "tell" / "weights").write_text("2")
        assert not await site.step()  # weights are not watched
        graph.write_text(TELL_GRAPH + "# changed")
        assert await site.step()
        await all_retired()
        assert await site.ask("tell") == "tell"
        assert sharing.closed == [1, 0]
        assert sharing.closed_before == [[], [0]]  # the old one answered until then

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1, 1]


def test_weights_that_change_while_they_are_read_are_read_again(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()

    async def scenario(site: Site) -> None:
        sharing.began, sharing.gate = asyncio.Event(), asyncio.Event()
        (tmp_path / "tell" / "weights").write_text("2")
        graph.write_text(TELL_GRAPH + "# changed")
        step = asyncio.create_task(site.step())
        await sharing.began.wait()
        (tmp_path / "tell" / "weights").write_text("3")
        sharing.gate.set()
        assert await step
        graph.write_text(TELL_GRAPH + "# changed again")
        assert await site.step()
        await all_retired()
        assert sharing.closed == [1, 1, 0]

    reloading(tmp_path, scenario, [sharing])


def test_a_graph_that_cannot_be_loaded_takes_nothing_away(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()

    async def scenario(site: Site) -> None:
        for text in ("node {", TELL_GRAPH.replace('"Tell"', '"Nothing"'), http_graph("Tell")):
            graph.write_text(text)
            assert await site.step()
            assert await site.ask("tell") == "tell"
        sharing.refusal = "this node cannot have it"
        graph.write_text(TELL_GRAPH + "# changed")
        assert await site.step()
        assert "this node cannot have it" in site.status("tell")[2]
        assert await site.ask("tell") == "tell"
        assert sharing.closed == [0]
        sharing.refusal = ""
        graph.write_text(TELL_GRAPH + "# mended")
        assert await site.step()
        await all_retired()
        assert site.status("tell") == ("AVAILABLE", "OK", "OK")
        assert sharing.closed == [0]

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1]


def test_the_resource_of_a_new_node_that_fails_leaves_the_others(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()

    async def scenario(site: Site) -> None:
        sharing.failure = "no memory"
        graph.write_text(TELL_GRAPH + SECOND)
        assert await site.step()
        assert "no memory" in site.status("tell")[2]
        assert await site.ask("tell") == "tell"
        assert sharing.closed == [0]

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1]


def test_two_nodes_with_equal_resources_have_one_each(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()

    async def scenario(site: Site) -> None:
        graph.write_text(TELL_GRAPH + SECOND)
        assert await site.step()
        await all_retired()
        assert sharing.closed == [0, 0]
        graph.write_text(TELL_GRAPH)
        assert await site.step()
        await all_retired()
        assert sorted(sharing.closed) == [0, 1]

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1, 1]


def test_a_request_in_flight_keeps_the_resource_of_its_graph(tmp_path: Path) -> None:
    text = http_graph("Wait") + SECOND.replace('"second"', '"teller"')
    write_graph(tmp_path, "wait", text)
    (tmp_path / "wait" / "weights").write_text("1")
    write_config(tmp_path, "wait")
    sharing = Sharing()

    async def scenario(site: Site) -> None:
        Wait.began, Wait.go_on, Wait.closed = asyncio.Event(), asyncio.Event(), 0
        old = asyncio.create_task(site.ask("wait"))
        await Wait.began.wait()
        (tmp_path / "wait" / "graph.pbtxt").write_text(text + "# changed")
        assert await site.step()
        write_config(tmp_path)  # the new one goes first
        assert await site.step()
        assert sharing.closed == [0]
        Wait.go_on.set()
        assert await old == "ended"
        await all_retired()

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1]


def test_what_does_not_work_is_not_handed_over(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()

    async def scenario(site: Site) -> None:
        sharing.made[0].unavailable_reason = "its process cannot be started"
        graph.write_text(TELL_GRAPH + "# changed")
        assert await site.step()
        await all_retired()
        assert sharing.closed == [1, 0]

    reloading(tmp_path, scenario, [sharing])


def test_unloading_first_keeps_what_fits_and_closes_the_rest_before(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path, reload="after_unload"), Sharing()

    async def scenario(site: Site) -> None:
        graph.write_text(TELL_GRAPH + "# changed")
        assert await site.step()
        assert await site.ask("tell") == "tell"
        assert sharing.closed == [0]
        (tmp_path / "tell" / "weights").write_text("2")
        graph.write_text(TELL_GRAPH)
        assert await site.step()
        assert await site.ask("tell") == "tell"
        assert sharing.closed_before == [[], [1]]
        graph.write_text("node {")
        assert await site.step()
        assert site.status("tell")[1] != "OK"
        assert sharing.closed == [1, 1]

    reloading(tmp_path, scenario, [sharing])


def test_a_graph_that_is_removed_while_it_unloads_first_leaves_nothing(tmp_path: Path) -> None:
    write_graph(tmp_path, "wait", http_graph("Wait") + SECOND.replace('"second"', '"teller"'))
    graph = tmp_path / "wait" / "graph.pbtxt"
    (tmp_path / "wait" / "weights").write_text("1")
    write_config(tmp_path, {"name": "wait", "reload": "after_unload"})
    sharing = Sharing()

    async def scenario(site: Site) -> None:
        Wait.began, Wait.go_on, Wait.closed = asyncio.Event(), asyncio.Event(), 0
        request = asyncio.create_task(site.ask("wait"))
        await Wait.began.wait()
        graph.write_text(graph.read_text() + "# changed")
        await site.reloader.look()  # it waits for the request now
        write_config(tmp_path)
        await site.reloader.look()
        assert sharing.closed == [0]
        Wait.go_on.set()
        assert await request == "ended"
        await all_retired()

    reloading(tmp_path, scenario, [sharing])
    assert sharing.closed == [1]


def test_a_node_with_a_new_name_has_the_metrics_of_its_resource(tmp_path: Path) -> None:
    graph, sharing = write_tell(tmp_path), Sharing()
    metrics = ServerMetrics()
    metrics.served = lambda: [Served("tell", is_ready=True)]

    def up(node: str) -> str:
        head = f'up{{graph="tell",node="{node}"}} '
        lines = metrics.text().body.decode().splitlines()
        return next((line.removeprefix(head) for line in lines if line.startswith(head)), "")

    async def scenario(site: Site) -> None:
        assert up("teller") == "1.0"
        graph.write_text(TELL_GRAPH.replace('"teller"', '"other"') + "node {")
        assert await site.step()
        assert (up("teller"), up("other")) == ("1.0", "")
        graph.write_text(TELL_GRAPH.replace('"teller"', '"other"'))
        assert await site.step()
        assert (up("teller"), up("other")) == ("0.0", "1.0")
        assert sharing.closed == [0]

    reloading(tmp_path, scenario, [sharing], metrics=metrics)


MAKER = """\
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import (
    Calculator, CalculatorContext, In, Out, SideIn, calculator, resource_initializer,
)


class Word:
    unavailable_reason = ""

    def __init__(self, word):
        self.word = word

    async def close(self):
        pass


@resource_initializer
class Words:
    tag = "WORDS"
    context_tags = ()

    def matches(self, calculator):
        return calculator == "Speak"

    def identity(self, node, settings):
        return "words"

    async def make(self, node, settings):
        return Word(%r)

    async def adopt(self, resource, node, settings):
        return resource


@calculator
class Speak(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    words = SideIn[dict[str, Any]]("WORDS")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.side(self.words)[cc.node_name].word)
"""


def test_the_resource_of_an_authors_own_class_goes_with_its_code(tmp_path: Path) -> None:
    text = http_graph("Speak", 'input_side_packet: "WORDS:words"')
    write_graph(tmp_path, "speak", text)
    module = tmp_path / "speak" / "speak.py"
    module.write_text(MAKER % "one")
    write_config(tmp_path, {"name": "speak", "python_path": "speak/speak.py"})

    async def scenario(site: Site) -> None:
        assert await site.ask("speak") == "one"
        module.write_text(MAKER % "two")
        assert await site.step()
        assert await site.ask("speak") == "two"

    reloading(tmp_path, scenario)

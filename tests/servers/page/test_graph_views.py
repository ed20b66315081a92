"""Graphs and nodes as the page draws them, loaded or failed; contents only where allowed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from servers.page.settings import PageSettings
from tests.servers.page.watching import TURNS, Page, on_page, orders
from tests.servers.serving.served_graphs import write_graph

WRONG = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"

node {
  calculator: "Ekko"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def test_a_graph_has_its_description_drawing_and_places(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        view = (await page.client.get("/v1/graphs/turns")).json()
        (node,) = view["description"]["nodes"]
        assert node["calculator"] == "Turns"
        described = (await page.client.get("/v1/graphs/turns/nodes/turns")).json()
        assert described["calculator"] == described["docs"]["name"] == "Turns"
        assert "Sends an event per order" in described["docs"]["doc"]
        assert view["file"] == "graph.pbtxt"
        line = TURNS[: TURNS.index("node {")].count("\n") + 1
        assert view["places"] == {"turns": {"file": "graph.pbtxt", "line": line, "column": 1}}
        assert view["layout"]["width"] > 0
        assert view["text"] is None, "files are contents"
        assert str(tmp_path) not in str(view)

    on_page(tmp_path, scenario)


def test_where_contents_are_allowed_texts_and_values_are_shown(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        view = (await page.client.get("/v1/graphs/turns")).json()
        assert view["text"] == TURNS
        async with page.watching("graphs=turns&focus=turns/turns") as watched:
            assert watched is not None
            await watched.until(lambda seen: "turns" in seen.graphs)
            assert watched.hello["contents"] is True
            async with page.turning("one") as lines:
                assert await anext(lines) == "data: 0"
                orders["one"].put_nowait("fail")
                assert [line async for line in lines]
            await watched.until(lambda seen: any(each["last"] for each in seen.named("packets")))
            last = next(each["last"] for each in watched.named("packets") if each["last"])
            assert "data: 0\n\n" in [each["value"] for each in last]
            node = (await page.client.get("/v1/graphs/turns/nodes/turns")).json()
            assert "told to fail" in node["errors"][0]["text"]
            assert node["last"]

    on_page(tmp_path, scenario, page=PageSettings(contents=True))


def test_a_graph_that_cannot_run_is_drawn_with_its_problems(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        view = (await page.client.get("/v1/graphs/wrong")).json()
        assert view["revision"] == ""
        assert view["description"]["is_valid"] is False
        (problem,) = view["description"]["problems"]
        assert problem.startswith("graph.pbtxt:5:1")
        assert "Ekko" in problem
        async with page.watching() as watched:
            await watched.until(lambda seen: bool(seen.named("servables")))
            lines = {each["name"]: each for each in watched.named("servables")[0]["servables"]}
        assert lines["wrong"]["state"] == "FAILED"
        assert lines["wrong"]["place"] == {"file": "graph.pbtxt", "line": 5, "column": 1}
        assert lines["echo"]["state"] == "AVAILABLE"
        assert lines["echo"]["limit"] > 0
        node = await page.client.get("/v1/graphs/wrong/nodes/Ekko")
        assert node.status_code == 404

    on_page(tmp_path, scenario, further=(write_graph(tmp_path, "wrong", WRONG),))


def test_a_file_that_does_not_parse_is_an_error_with_its_place(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        answer = await page.client.get("/v1/graphs/broken")
        assert answer.status_code == 412
        message = answer.json()["error"]["message"]
        assert "graph.pbtxt:1:" in message
        assert str(tmp_path) not in message

    on_page(tmp_path, scenario, further=(write_graph(tmp_path, "broken", "node {{"),))


def test_names_with_slashes_are_found(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        for name in ("a/b", quote("a/b", safe="")):
            assert (await page.client.get(f"/v1/graphs/{name}")).json()["name"] == "a/b"
            node = await page.client.get(f"/v1/graphs/{name}/nodes/turns")
            assert node.json()["calculator"] == "Turns"
        async with page.watching("graphs=a/b&focus=a/b/turns") as watched:
            await watched.until(lambda seen: bool(seen.named("packets")))

    entry = replace(write_graph(tmp_path, "slashed", TURNS), name="a/b")
    on_page(tmp_path, scenario, further=(entry,))


def test_unknown_graphs_and_nodes_are_not_found(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        for path in ("/v1/graphs/nothing", "/v1/graphs/echo/nodes/nothing"):
            answer = await page.client.get(path)
            assert answer.status_code == 404
            assert "nothing" in answer.json()["error"]["message"]

    on_page(tmp_path, scenario, graphs=("echo",))

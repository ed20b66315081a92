"""A config that is rewritten a hundred times under load: no request fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.servers.fronts.http.http_client import HttpClient, Reply, chat_bytes, serving
from tests.servers.serving.reloading import SAY, Site, reloading, saying, write_config, write_saying
from tests.servers.serving.served_graphs import COUNT_GRAPH, http_graph, write_graph

REWRITES = 100


def rewrite(folder: Path, number: int) -> None:
    """Make a change, another one each time; some configs are invalid."""
    names = ["echo", "count", saying("say")]
    count = folder / "count" / "graph.pbtxt"
    match number % 5:
        case 0:
            write_config(folder, *names)
            text = (folder / "config.json").read_text()
            (folder / "config.json").write_text(text[: len(text) // 2])
        case 1:
            write_config(folder, *reversed(names), "extra")
        case 2:
            (folder / "echo" / "graph.pbtxt").write_text(http_graph("Echo") + f"# {number}")
            write_config(folder, *names)
        case 3:
            count.write_text(COUNT_GRAPH.replace("Count", "Cuont"))
            (folder / "say" / "say.py").write_text(SAY % f"{number}")
        case _:
            count.write_text(COUNT_GRAPH + f"# {number}")


@pytest.mark.unmeasured
def test_a_hundred_rewrites_fail_no_request(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_graph(tmp_path, "extra", http_graph("Echo"))
    write_graph(tmp_path, "count", COUNT_GRAPH)
    write_saying(tmp_path, "say", "0")
    write_config(tmp_path, "echo", "count", saying("say"))

    async def scenario(site: Site) -> None:
        is_over = False

        async def ask(client: HttpClient, model: str) -> list[Reply]:
            replies = []
            while not is_over:
                replies.append(await client.ask(chat_bytes(model)))
            return replies

        async with serving(site.repository) as front:
            clients = [await HttpClient.connect(front) for _ in range(4)]
            models = ("echo", "echo", "say", "say")
            asking = [
                asyncio.create_task(ask(client, model))
                for client, model in zip(clients, models, strict=True)
            ]
            counting = [asyncio.create_task(site.packets("count", "2000")) for _ in range(3)]
            touched = 0
            for number in range(REWRITES):
                rewrite(tmp_path, number)
                touched += await site.step()
            is_over = True
            replies = [reply for each in await asyncio.gather(*asking) for reply in each]
            assert await asyncio.gather(*counting) == [list(map(str, range(2001)))] * 3
            for client in clients:
                await client.close()
        assert touched == REWRITES * 4 // 5
        assert len(replies) > REWRITES
        assert [reply for reply in replies if reply.status != 200] == []
        assert replies[-1].body == b"98"
        assert site.status("count") == ("AVAILABLE", "OK", "OK")

    reloading(tmp_path, scenario)

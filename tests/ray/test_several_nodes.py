"""Replicas on several nodes of a cluster, all of which are on this machine, and two fronts."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed (make ray)")

from tests.ray.cluster_site import CHAT, Site, ask, in_threads, next_event, wait_until
from tests.ray.nodes import Nodes
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

STREAMS = 8


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        # The workers of a cluster have the environment of its nodes.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        with Nodes() as nodes:
            patch.setenv("RAY_ADDRESS", nodes.address)
            yield nodes


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("nodes"))
    site.add("probe", "First", min_replicas=2, num_cpus=1)
    site.add("both", "First", resources={"left": 1, "right": 1})
    return site


@pytest.fixture(scope="module")
def fronts(nodes: Nodes, site: Site) -> Iterator[tuple[Serving, Serving]]:
    words = ("config.json", "--on", "ray")
    with Serving(site.folder, *words) as first, Serving(site.folder, *words) as second:
        yield first.wait_until_serving(), second.wait_until_serving()
        for each in (second, first):
            each.send_signal()
            assert each.end()[0] == 0


def raylet_of(pid: int) -> int:
    """Return the process of the node that has started a replica."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_replicas_are_spread_over_the_nodes(fronts: tuple[Serving, Serving]) -> None:
    for front in fronts:
        pids = {ask(front, "probe")[1]["pid"] for _ in range(8)}
        assert len({raylet_of(pid) for pid in pids}) == 2


def test_resources_that_only_several_nodes_have_together_are_named(
    fronts: tuple[Serving, Serving],
) -> None:
    for front in fronts:
        state = front.get("/v1/config")[1]["both"]["model_version_status"][0]
        assert "no node of the Ray cluster has all" in state["status"]["error_message"]


def test_a_killed_node_ends_its_streams_only(
    nodes: Nodes, fronts: tuple[Serving, Serving], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    begun = threading.Barrier(2 * STREAMS + 1)

    def stream(front: Serving) -> tuple[int, list[str]]:
        asked = {"model": "probe", "do": "tick", "stream": True, "go": str(go)}
        with front.request("POST", CHAT, asked) as response:
            pid = int(next_event(response))
            begun.wait()
            rest = []
            while event := next_event(response):
                rest.append(event)
            ended.append(pid)
            return pid, rest

    ended: list[int] = []
    places = iter([front for front in fronts for _ in range(STREAMS)])

    def kill_and_go() -> None:
        begun.wait()
        nodes.kill()
        wait_until(lambda: ended)
        # Requests that come now are answered by the node that is left.
        for front in fronts:
            assert ask(front, "probe")[0] == 200
        go.touch()

    killing = threading.Thread(target=kill_and_go)
    killing.start()
    results = in_threads(2 * STREAMS, lambda: stream(next(places)))
    killing.join()
    done = [pid for pid, rest in results if rest == ["[DONE]"]]
    failed = [pid for pid, rest in results if rest != ["[DONE]"]]
    # All streams of one replica went on, and all of the other one failed.
    assert len(set(done)) == len(set(failed)) == 1
    assert set(done) != set(failed)
    for _, rest in results:
        if rest != ["[DONE]"]:
            assert "is gone" in json.loads(rest[0])["error"]["message"]
            assert rest[1:] == ["[DONE]"]
    # A node that comes gets the replica that is missing.
    nodes.add()
    wait_until(lambda: len({raylet_of(ask(fronts[0], "probe")[1]["pid"]) for _ in range(8)}) == 2)

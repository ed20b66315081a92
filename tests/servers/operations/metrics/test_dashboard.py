"""The dashboard and the alerts query only published metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord
from calculators.llm.engine.engine import watch_engine
from servers.operations.request_log import RequestEnd
from tests.calculators.llm.engine.engines import scripted_engine
from tests.servers.operations.metrics.metered_server import Metered, numbers, serving
from tests.support.checkout import ROOT

GRAFANA = ROOT / "docs" / "grafana"
DASHBOARD = json.loads((GRAFANA / "graphrt.json").read_text())
ALERTS = (GRAFANA / "alerts.yaml").read_text()

#: A name and the labels that are queried, if any.
_ASKED = re.compile(r"\b((?:ovms|graphrt|process)_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*=~?\s*\"")
#: Labels that Prometheus adds.
_OF_TARGETS = {"job", "instance"}


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the labels of every line that a server publishes once it has done everything."""
    found: dict[str, set[str]] = {}

    async def scenario(server: Metered) -> None:
        await server.infer("plus", numbers(1, 2))
        await server.ask("POST", "/v3/x", {"model": "letters", "text": "ab", "stream": True})
        await server.grpc.call("ServerLive")
        metrics = server.server.metrics
        assert metrics is not None
        end = watch_engine(metrics.service_of("echo").of_node("llm"), await scripted_engine())
        generation = GenerationRecord("llm", "chat/completions", finish_reasons=["stop"])
        record = RequestRecord("id", "echo", generations=[generation])
        metrics.end_request(record, RequestEnd("http", "POST", "/", "/", 200, False), 1)
        # Metrics without a value yet.
        metrics.families.counter("graphrt_graph_counter", "").of({"graph": "g", "counter": "c"})
        for name, series in (await server.values()).items():
            found[name] = {label for labels in series for label, _ in labels}
        end()

    serving(tmp_path_factory.mktemp("graphs"), scenario, with_grpc=True)
    return found


def check(text: str, published: dict[str, set[str]]) -> int:
    """Check that each queried metric is published with these labels; return their number."""
    asked = _ASKED.findall(text)
    for name, selector in asked:
        assert name in published, name
        unknown = set(_LABEL.findall(selector)) - published[name] - _OF_TARGETS
        assert not unknown, (name, unknown)
    return len(asked)


def test_the_dashboard_queries_published_metrics(published: dict[str, set[str]]) -> None:
    assert sum(check(query, published) for query in queries()) > 40


def test_names_in_by_clauses_are_labels(published: dict[str, set[str]]) -> None:
    for query in queries():
        (labels,) = re.findall(r"\bby \(([^)]*)\)", query)[:1] or [""]
        wanted = {label.strip() for label in labels.split(",")} - {""}
        names = [name for name, _ in _ASKED.findall(query)]
        if wanted:
            assert any(wanted <= published[name] for name in names), query


def test_every_family_of_graphrt_has_a_place_on_the_dashboard(
    published: dict[str, set[str]],
) -> None:
    ours = {name for name in published if name.startswith("graphrt_")}
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours}
    shown = {
        name.removesuffix("_bucket") for query in queries() for name, _ in _ASKED.findall(query)
    }
    others = {
        "graphrt_node_calls_total",
        "graphrt_grpc_call_seconds",
        "graphrt_live_readers",
        "graphrt_llm_engine_memory_bytes",
    }
    assert ours - shown == others


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    ids: list[Any] = []
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        ids.append(panel["id"])
    assert len(ids) == len(set(ids))


def test_the_alerts_query_published_metrics(published: dict[str, set[str]]) -> None:
    assert check(ALERTS, published) >= ALERTS.count("- alert:")

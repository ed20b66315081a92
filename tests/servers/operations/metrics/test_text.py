"""The text of /metrics: formats, OpenVINO Model Server's families, and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from servers.config import MetricsConfig
from servers.operations.metrics.exposition import Exposition
from servers.operations.metrics.families import Families
from tests.servers.operations.metrics.metered_server import Metered, numbers, serving, values_of

#: Type and labels of each as in OpenVINO Model Server's ``src/model_metric_reporter.cpp``.
OVMS = {
    "ovms_current_requests": ("gauge", {"name", "version"}),
    "ovms_requests_success": ("counter", {"name", "version", "api", "method", "interface"}),
    "ovms_requests_fail": ("counter", {"name", "version", "api", "method", "interface"}),
    "ovms_request_time_us": ("histogram", {"name", "version", "interface"}),
    "ovms_streams": ("gauge", {"name", "version"}),
    "ovms_inference_time_us": ("histogram", {"name", "version"}),
    "ovms_wait_for_infer_req_time_us": ("histogram", {"name", "version"}),
    "ovms_current_graphs": ("gauge", {"name"}),
    "ovms_graph_loaded": ("gauge", {"name"}),
    "ovms_requests_accepted": ("counter", {"name", "api", "method", "interface"}),
    "ovms_requests_rejected": ("counter", {"name", "api", "method", "interface"}),
    "ovms_responses": ("counter", {"name", "api", "method", "interface"}),
    "ovms_graph_error": ("counter", {"name", "api", "method", "interface"}),
    "ovms_graph_processing_time_us": ("histogram", {"name", "method"}),
}
ADDITIONAL = {
    "ovms_infer_req_queue_size": ("gauge", {"name", "version"}),
    "ovms_infer_req_active": ("gauge", {"name", "version"}),
}


def families_of(text: str) -> dict[str, tuple[str, set[str]]]:
    """Return type and labels, except those of buckets, by the names in the TYPE lines."""
    types = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE")]
    values = values_of(text)
    return {
        name: (
            kind,
            {
                label
                for line in (name, f"{name}_count")
                for labels in values.get(line, {})
                for label, _ in labels
            },
        )
        for name, kind in types
    }


def test_ovms_families_are_published_before_the_first_request(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        text = (await server.ask("GET", "/metrics")).body.decode()
        found = {k: v for k, v in families_of(text).items() if k.startswith("ovms_")}
        assert found == OVMS
        values = values_of(text)
        series = values["ovms_requests_accepted"]
        # As in OpenVINO Model Server, but without gRPC's streams over REST, which is
        # generate_stream here.
        assert len(series) == 5 * 6
        assert set(series.values()) == {0}
        # A question whether a model is ready has no version, and a graph has none.
        ready = {
            labels
            for labels in values["ovms_requests_success"]
            if ("method", "ModelReady") in labels
        }
        assert not any(label == "version" for labels in ready for label, _ in labels)

    serving(tmp_path, scenario)


def test_buckets_are_those_of_ovms(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        await server.infer("plus", numbers(1, 2))
        values = await server.values()
        series = [
            (float(dict(labels)["le"]), value)
            for labels, value in values["ovms_inference_time_us_bucket"].items()
            if ("version", "2") in labels
        ]
        bounds = [bound for bound, _ in series]
        assert len(bounds) == 34
        assert bounds[:6] == [10, 18, 32, 58, 104, 188]
        assert bounds[-1] == float("inf")
        # floor(10 * 1.8 ** i), as integer arithmetic gives it.
        assert bounds[:-1] == [10 * 18**power // 10**power for power in range(33)]
        counts = [value for _, value in series]
        assert counts == sorted(counts)
        assert counts[-1] == 1

    serving(tmp_path, scenario)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
        ),
    ],
)
def test_the_format_is_the_requested_one(tmp_path: Path, accept: str, content_type: str) -> None:
    async def scenario(server: Metered) -> None:
        await server.infer("plus", numbers(1, 2))
        await server.ask("POST", "/v3/x", {"model": "letters", "text": "ab", "stream": True})
        reply = await server.ask("GET", "/metrics", headers={"Accept": accept} if accept else None)
        assert reply.headers["content-type"] == content_type
        text = reply.body.decode()
        parse: Any = openmetrics if "openmetrics" in content_type else prometheus
        parsed = list(parse(text))
        names = [family.name for family in parsed]
        assert len(names) == len(set(names))
        assert {"ovms_requests_success", "process_resident_memory_bytes"} <= set(names)
        # Names in queries are the same in both.
        values = values_of(text)
        assert values["letters_total"][("graph", "letters"), ("node", "node")] == 2
        assert sum(values["ovms_requests_success"].values()) == 1
        assert text.endswith("# EOF\n") == ("openmetrics" in content_type)

    serving(tmp_path, scenario)


def test_texts_with_special_characters_are_escaped() -> None:
    families = Families()
    families.gauge("level", 'A "level"\nof \\.').of({"name": 'a"b\\c\nd'}).set(float("inf"))
    families.gauge("nothing", "None.").of({}).set(float("nan"))
    text = Exposition(families).text().body.decode()
    assert '# HELP level A "level"\\nof \\\\.\n# TYPE level gauge\n' in text
    assert 'level{name="a\\"b\\\\c\\nd"} +Inf\n' in text
    assert "\nnothing NaN\n" in text
    text = Exposition(families).text("application/openmetrics-text").body.decode()
    parse: Any = openmetrics
    (family, *_) = parse(text)
    assert family.samples[0].labels == {"name": 'a"b\\c\nd'}


def test_a_metric_that_cannot_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    families = Families()
    families.gauge("broken", "B.").of({}).follow(lambda: 1 / 0)
    families.gauge("whole", "W.").of({}).set(2)
    exposition = Exposition(families)
    for _ in range(2):
        assert "\nwhole 2.0\n" in exposition.text().body.decode()
    assert [record.getMessage() for record in caplog.records] == [
        "the metric 'broken' cannot be read"
    ]


def test_a_list_replaces_the_default_families_of_ovms(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        text = (await server.ask("GET", "/metrics")).body.decode()
        found = families_of(text)
        shown = {name: found[name] for name in found if name.startswith("ovms_")}
        assert shown == {**ADDITIONAL, "ovms_streams": OVMS["ovms_streams"]}
        assert "graphrt_node_calls_total" in found
        assert values_of(text)["ovms_infer_req_active"][("name", "plus"), ("version", "1")] == 0

    names = ("ovms_streams", *ADDITIONAL)
    serving(tmp_path, scenario, metrics=MetricsConfig(metrics_list=names))


def test_without_metrics_the_path_is_not_found_and_everything_else_works(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        assert (await server.ask("GET", "/metrics")).status == 404
        assert (await server.infer("plus", numbers(1, 2))).status == 200

    serving(tmp_path, scenario, metrics=MetricsConfig(enable=False))


def test_text_of_clients_never_becomes_a_label(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        before = await server.values()
        for number in range(20):
            secret = f"chosen-{number}"
            await server.ask("POST", "/v3/chat/completions", {"model": secret})
            await server.ask("POST", f"/v3/{secret}", {"model": secret})
            await server.ask("GET", f"/{secret}")
            await server.ask(f"M{number}", "/v2/health/live")
            await server.infer(secret, numbers(1))
            await server.infer("plus", numbers(1, 2), str(number + 10))
            await server.ask("GET", f"/v2/models/{secret}/ready")
        after = await server.values()
        text = (await server.ask("GET", "/metrics")).body.decode()
        assert "chosen" not in text
        grown = {name for name in after if len(after[name]) != len(before.get(name, {}))}
        assert all(name.startswith("graphrt_http_request") for name in grown)
        assert len(after["graphrt_http_requests_total"]) < 12

    serving(tmp_path, scenario)

"""The metrics of several processes as one text."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from servers.operations.metrics.exposition import Exposition, MergedText
from servers.operations.metrics.families import Families


def text_of(requests: int, waiting: float, seconds: float, **others: float) -> str:
    """Return the text of one process."""
    families = Families()
    labels = {"name": 'a "model" of two words'}
    families.counter("graphrt_requests_total", 'Requests, "all".').of(labels).add(requests)
    families.counter("ovms_requests_success", "Good ones.", is_bare=True).of(labels).add(requests)
    families.gauge("graphrt_waiting", "Waiting ones.").of(labels).set(waiting)
    families.histogram("graphrt_seconds", "Time.", (1.0, 2.0)).of(labels).observe(seconds)
    for name, value in others.items():
        families.gauge(name, "Another.").of(labels).set(value)
    return Exposition(families).text().body.decode()


def values(text: str) -> dict[str, float]:
    """Return the values by name, with the bound of a bucket."""
    return {
        sample.name + sample.labels.get("le", ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counts_and_levels_are_added() -> None:
    merged = MergedText()
    merged.add(text_of(3, 1, 0.5))
    merged.add(text_of(4, 2, 1.5))
    found = values(merged.plain())
    assert found["graphrt_requests_total"] == found["ovms_requests_success_total"] == 7
    assert found["graphrt_waiting"] == 3
    assert found["graphrt_seconds_bucket1.0"] == 1
    assert found["graphrt_seconds_bucket2.0"] == found["graphrt_seconds_bucket+Inf"] == 2
    assert (found["graphrt_seconds_count"], found["graphrt_seconds_sum"]) == (2, 2.0)


def test_what_all_processes_report_of_one_thing_is_not_added() -> None:
    merged = MergedText()
    merged.add(text_of(0, 0, 0, graphrt_llm_kv_cache_usage_ratio=0.5, graphrt_model_ready=1))
    merged.add(text_of(0, 0, 0, graphrt_llm_kv_cache_usage_ratio=0.4, graphrt_model_ready=0))
    for _ in range(2):
        merged.add(text_of(0, 0, 0, graphrt_batches=3))
    found = values(merged.plain())
    assert found["graphrt_llm_kv_cache_usage_ratio"] == 0.5
    assert found["graphrt_model_ready"] == 0
    assert found["graphrt_batches"] == 3
    assert found["process_start_time_seconds"] < 2e9


def test_counts_of_an_ended_process_stay_and_its_levels_do_not() -> None:
    merged = MergedText()
    merged.add(text_of(3, 1, 0.5))
    merged.add(text_of(4, 2, 1.5, graphrt_of_it_alone=1), is_past=True)
    found = values(merged.plain())
    assert found["graphrt_requests_total"] == 7
    assert found["graphrt_seconds_count"] == 2
    assert found["graphrt_waiting"] == 1
    assert "graphrt_of_it_alone" not in found
    alone = MergedText()
    alone.add(text_of(4, 2, 1.5), is_past=True)
    assert values(alone.plain())["graphrt_requests_total"] == 4
    assert "graphrt_waiting" not in values(alone.plain())


def test_openmetrics_is_as_one_process_writes_it() -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    families = Families()
    families.counter("graphrt_requests_total", 'Requests, "all".').of({}).add(2)
    families.counter("ovms_requests_success", "Good ones.", is_bare=True).of({}).add(2)
    exposition = Exposition(families)
    merged = MergedText()
    merged.add(exposition.text().body.decode())
    own = exposition.text(accept)
    assert merged.text(accept).content_type == own.content_type
    lines, wanted = (each.body.decode().splitlines() for each in (merged.text(accept), own))
    assert [line for line in lines if line.startswith("# ")][:4] == [
        line for line in wanted if line.startswith("# ")
    ][:4]
    assert lines[-1] == wanted[-1] == "# EOF"


def test_families_stand_under_vllms_names_too() -> None:
    families = Families()
    labels = {"graph": 'a ,graph="x"', "node": "llm", "finish_reason": "stop"}
    families.counter("graphrt_llm_choices_total", "Choices.").of(labels).add(3)
    node = {"graph": "graphrt_llm_request_seconds", "node": "llm"}
    families.gauge("graphrt_llm_kv_cache_usage_ratio", "Part.").of(node).set(0.5)
    families.histogram("graphrt_llm_request_seconds", "Time.", (1.0,)).of(node).observe(0.5)
    text = Exposition(families).text().body.decode()
    merged = MergedText()
    merged.add(text)
    merged.add(text)
    (success,) = (
        sample
        for family in text_string_to_metric_families(merged.plain())
        for sample in family.samples
        if sample.name == "vllm:request_success_total"
    )
    assert success.labels == {
        "model_name": 'a ,graph="x"',
        "engine": "llm",
        "finished_reason": "stop",
    }
    found = values(merged.plain())
    assert found["vllm:request_success_total"] == found["graphrt_llm_choices_total"] == 6
    assert found["vllm:kv_cache_usage_perc"] == 0.5
    assert found["vllm:e2e_request_latency_seconds_bucket1.0"] == 2
    openmetrics = Exposition(families).text("application/openmetrics-text").body.decode()
    assert "# TYPE vllm:request_success counter" in openmetrics

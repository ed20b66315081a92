from __future__ import annotations

import json

import pytest

from servers.load.client import RequestOutcome
from servers.load.figures import (
    Figures,
    figures_of,
    page,
    percentile,
    side_by_side,
    table,
    to_json,
)


def two_requests() -> Figures:
    outcomes = [
        RequestOutcome(0.0, [0.1, 0.2, 0.4], input_tokens=10, output_tokens=4, text="<b>"),
        RequestOutcome(1.0, [1.3, 1.5], input_tokens=20, output_tokens=2),
        RequestOutcome(1.0, error="503: busy"),
    ]
    return figures_of(outcomes, 2.0, {"ttft": 150.0})


def test_latencies_are_those_of_requests_that_succeeded() -> None:
    spreads = two_requests().spreads
    assert spreads["ttft"].mean == pytest.approx(200.0)
    assert spreads["tpot"].mean == pytest.approx(150.0)
    assert spreads["itl"].median == pytest.approx(200.0)
    assert spreads["e2el"].p99 == pytest.approx(499.0)


def test_throughput_and_goodput_are_per_second_of_the_run() -> None:
    result = to_json(two_requests(), {"model_id": "m"}, keeps_texts=True)
    assert result["model_id"] == "m"
    assert (result["completed"], result["failed"]) == (2, 1)
    assert result["request_throughput"] == 1.0
    assert result["request_goodput"] == 0.5
    assert result["output_throughput"] == 3.0
    assert result["total_token_throughput"] == 18.0
    assert result["ttfts"] == pytest.approx([0.1, 0.3, 0.0])
    assert result["errors"] == ["", "", "503: busy"]
    assert result["generated_texts"][0] == "<b>"
    assert json.loads(json.dumps(result)) == result


def test_the_table_has_the_lines_of_vllm() -> None:
    lines = table(two_requests()).splitlines()
    assert lines[0] == "============ Serving Benchmark Result ============"
    assert "Request throughput (req/s):              1.00" in lines
    assert "Mean TTFT (ms):                          200.00" in lines
    assert lines[-1] == "error, 1 times: 503: busy"


def test_a_run_in_which_all_failed_has_figures_too() -> None:
    figures = figures_of([RequestOutcome(0.0, error="no")], 0.0)
    assert "Successful requests:                     0" in table(figures)
    assert "nothing was measured" in page((figures, {}))


def test_the_page_needs_nothing_else_and_escapes_texts() -> None:
    text = page((two_requests(), {"model_id": "<script>", "url": "http://x"}))
    assert "<script>" not in text
    assert "src=" not in text
    assert text.count("<svg") == 5


def test_two_servers_are_shown_side_by_side() -> None:
    half_as_fast = figures_of(two_requests().outcomes, 4.0, {"ttft": 150.0})
    names = ["http://127.0.0.1:8000/v1", "http://127.0.0.1:11434/v1"]

    lines = side_by_side([two_requests(), half_as_fast], names).splitlines()

    assert lines[1].split() == [*names, "ratio"]
    rows = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines[2:]}
    assert rows["Successful requests"] == ["2", "2"]
    assert rows["Request throughput (req/s)"] == ["1.00", "0.50", "2.00"]
    assert rows["Mean TTFT (ms)"] == ["200.00", "200.00", "1.00"]
    assert lines[-1] == "http://127.0.0.1:11434/v1: error, 1 times: 503: busy"
    text = page((two_requests(), {"model_id": "a"}), (half_as_fast, {"model_id": "b"}))
    assert "<h1>Benchmark of a and b</h1>" in text
    assert text.count("<svg") == 10


def test_percentiles_lie_between_their_neighbours() -> None:
    assert percentile([1.0], 99) == 1.0
    assert percentile([1.0, 3.0], 50) == 2.0

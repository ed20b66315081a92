"""Metrics of generations: from records, and from a real model over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord
from servers.config import find_graph
from servers.fronts.http import HttpSettings
from servers.operations.metrics.server_metrics import Served, ServerMetrics
from servers.operations.request_log import RequestEnd
from servers.server.lifecycle import Server, ServerSettings
from tests.calculators.llm.demo_model import DEMO, copy_of_demo
from tests.servers.fronts.http.http_client import request_bytes
from tests.servers.operations.metrics.metered_server import Metered, Values, values_of
from tests.support.patience import PATIENCE

CHAT = "/v3/chat/completions"
NODE = (("graph", "demo"), ("node", "llm"))
SECOND = 1_000_000_000


def generation(**fields: object) -> GenerationRecord:
    record = GenerationRecord("llm", "chat/completions", began=0)
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def after(status: int, *generations: GenerationRecord, model: str = "demo") -> Values:
    """Return the values after a request with these records."""
    metrics = ServerMetrics()
    metrics.served = lambda: [Served("demo", is_ready=True)]
    record = RequestRecord("id", model, began=0, generations=list(generations))
    end = RequestEnd("http", "POST", CHAT, CHAT, status, status >= 500)
    metrics.end_request(record, end, 9 * SECOND)
    return values_of(metrics.text().body.decode())


def outcomes(values: Values) -> dict[str, float]:
    series = values["graphrt_llm_requests_total"]
    return {dict(labels)["outcome"]: value for labels, value in series.items() if value}


def test_times_and_tokens_are_those_of_the_record() -> None:
    values = after(
        200,
        generation(
            submitted=SECOND // 2,
            first_token=2 * SECOND,
            ended=6 * SECOND,
            prompt_tokens=7,
            completion_tokens=10,
            finish_reasons=["stop", "length"],
        ),
    )

    def total(name: str) -> float:
        assert values[f"graphrt_llm_{name}_seconds_count"][NODE] == 1
        return values[f"graphrt_llm_{name}_seconds_sum"][NODE]

    assert total("preparation") == pytest.approx(0.5)
    assert total("engine_wait") == pytest.approx(1.5)
    assert total("time_to_first_token") == pytest.approx(2)
    assert total("request") == pytest.approx(6)
    # Two choices of five tokens side by side: four steps after the first in 4 s.
    assert total("time_per_output_token") == pytest.approx(1)
    assert values["graphrt_llm_prompt_tokens_total"][NODE] == 7
    assert values["graphrt_llm_generated_tokens_total"][NODE] == 10
    assert outcomes(values) == {"finished": 1}
    reasons = values["graphrt_llm_choices_total"]
    assert {dict(labels)["finish_reason"] for labels in reasons} == {"stop", "length"}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(499, "cancelled"), (504, "cancelled"), (503, "failed"), (200, "failed"), (400, "refused")],
)
def test_a_generation_that_does_not_finish_is_counted(status: int, outcome: str) -> None:
    values = after(status, generation(submitted=SECOND, first_token=2 * SECOND, prompt_tokens=3))
    assert outcomes(values) == {outcome: 1}
    assert values["graphrt_llm_time_to_first_token_seconds_count"][NODE] == 1
    assert values["graphrt_llm_request_seconds_count"][NODE] == 0
    assert values["graphrt_llm_prompt_tokens_total"][NODE] == 3


def test_a_generation_of_a_model_that_is_not_served_is_not_counted() -> None:
    values = after(404, generation(), model="nobody")
    assert "graphrt_llm_requests_total" not in values


def test_generations_of_a_real_model_are_counted(tmp_path: Path) -> None:
    graph = find_graph(copy_of_demo(tmp_path / "demo"))

    async def run() -> None:
        server = Server(ServerSettings((graph,), HttpSettings(port=0)))
        await server.start()
        await server.load()
        metered = Metered(server, None)
        before = await metered.values()
        ((node, zero),) = before["graphrt_llm_generated_tokens_total"].items()
        assert zero == 0
        assert before["graphrt_llm_engine_up"][node] == 1
        assert before["graphrt_llm_engine_restarts_total"][node] == 0
        assert before["graphrt_llm_requests_running"][node] == 0
        assert before["graphrt_llm_requests_waiting"][node] == 0
        assert 0 <= before["graphrt_llm_kv_cache_usage_ratio"][node] <= 1

        body = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 6}
        used = [0, 0]
        for _ in range(2):
            usage = (await metered.ask("POST", CHAT, body)).json["usage"]
            used[0] += usage["prompt_tokens"]
            used[1] += usage["completion_tokens"]
        stream = {**body, "stream": True, "stream_options": {"include_usage": True}}
        reply = await metered.ask("POST", CHAT, stream)
        assert reply.status == 200
        assert (await metered.ask("POST", CHAT, {**body, "temperature": -1})).status == 400
        values = await metered.values()
        assert values["graphrt_llm_prompt_tokens_total"][node] == used[0] * 3 / 2
        assert values["graphrt_llm_generated_tokens_total"][node] == used[1] * 3 / 2
        for name in ("time_to_first_token", "engine_wait", "preparation", "request"):
            assert values[f"graphrt_llm_{name}_seconds_count"][node] == 3, name
        assert values["graphrt_llm_time_per_output_token_seconds_count"][node] == 3
        assert outcomes(values) == {"finished": 3, "refused": 1}

        endless = {**body, "stream": True, "max_tokens": None, "ignore_eos": True}
        async with metered.http() as client:
            data = json.dumps(endless).encode()
            fields = {"Content-Type": "application/json"}
            client.send(request_bytes("POST", CHAT, data, fields))
            assert (await client.head())[0] == 200
            await client.chunk()
            assert await metered.value("graphrt_llm_requests_waiting", **dict(node)) == 0
            assert await metered.value("ovms_current_graphs", name="demo") == 1
            client.abort()
        async with asyncio.timeout(PATIENCE):
            while outcomes(values := await metered.values()).get("cancelled") != 1:
                pass
        assert values["graphrt_llm_requests_running"][node] == 0
        assert values["graphrt_llm_generated_tokens_total"][node] > used[1] * 3 / 2
        await server.stop()

    assert DEMO.is_dir()
    asyncio.run(run())

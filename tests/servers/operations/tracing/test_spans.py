"""Spans of requests: their names, parents and attributes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from protos.pool import message_class
from servers.config import GraphEntry
from servers.fronts.http import HttpSettings
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.operations.request_log import RequestJournal
from servers.operations.tracing import TracingError, TracingSettings, start_traces
from servers.server.lifecycle import Server, ServerSettings
from tests.servers.fronts.http.http_client import Reply, chat_bytes, request_bytes
from tests.servers.fronts.http.kserve_requests import post
from tests.servers.operations.tracing.collector import Collector, collecting_calls
from tests.servers.serving.served_graphs import COUNT_GRAPH, http_graph, make_registry, write_graph

PASSING = """\
input_stream: "OVTENSOR:in"
output_stream: "OVTENSOR:out"
node { name: "pass" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SERVER_KIND = 2
ONE = {"name": "in", "datatype": "FP32", "shape": [1], "data": [1.0]}


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


class Traced:
    """A server whose spans are collected."""

    def __init__(self, server: Server) -> None:
        self._http = server.addresses[0].rpartition(":")[2]
        self._grpc = server.addresses[1].removeprefix("grpc://")

    async def ask(self, data: bytes) -> Reply:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self._http))
        writer.write(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        head, _, body = answer.partition(b"\r\n\r\n")
        return Reply(int(head.split()[1]), {}, body)

    async def call(self, method: str, metadata: Any = (), **fields: Any) -> Any:
        request = message_class(f"inference.{method}Request")(**fields)
        async with grpc.aio.insecure_channel(self._grpc) as channel:
            function = channel.unary_unary(
                f"/inference.GRPCInferenceService/{method}",
                response_deserializer=message_class(f"inference.{method}Response").FromString,
            )
            return await function(request.SerializeToString(), metadata=metadata)


@asynccontextmanager
async def traced(collector: Collector, *entries: GraphEntry) -> AsyncIterator[Traced]:
    """Run a server of these graphs; at the end its spans have arrived."""
    traces = start_traces(TracingSettings(collector.url))
    settings = ServerSettings(
        entries,
        http=HttpSettings(port=0),
        grpc=GrpcSettings(),
        registry=make_registry(),
        journal=RequestJournal(traces),
    )
    server = Server(settings)
    await server.start()
    await server.load()
    try:
        yield Traced(server)
    finally:
        await server.stop()
        traces.close()


async def _ask_echo(place: Path, collector: Collector) -> dict[str, Any]:
    """Return the attributes of the request's span."""
    async with traced(collector, write_graph(place, "echo", http_graph("Echo"))) as server:
        assert (await server.ask(chat_bytes("echo"))).status == 200
    return collector.only("POST /v3/chat/completions").attributes


@pytest.mark.parametrize(
    "variable",
    ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"],
)
def test_the_variables_limit_the_values_of_attributes(
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    monkeypatch.setenv(variable, str(len("/v3/chat")))
    attributes = asyncio.run(_ask_echo(tmp_path, collector))
    assert attributes["url.path"] == "/v3/chat"
    assert attributes["http.response.status_code"] == 200


def test_the_variable_limits_the_number_of_attributes(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "2")
    assert len(asyncio.run(_ask_echo(tmp_path, collector))) == 2


def test_a_request_has_spans_of_itself_its_graph_and_its_nodes(
    tmp_path: Path, collector: Collector
) -> None:
    entry = write_graph(tmp_path, "echo", http_graph("Echo"))
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "X-Request-Id": "mine"}

    async def scenario() -> None:
        async with traced(collector, entry) as server:
            assert (await server.ask(chat_bytes("echo", headers=headers))).status == 200

    asyncio.run(scenario())
    name = "POST /v3/chat/completions"
    assert collector.tree() == {name: "", "graph echo": name, "node node": "graph echo"}
    assert {span.trace_id for span in collector.spans} == {TRACE}
    assert {span.service for span in collector.spans} == {"graphrt"}
    assert collector.paths == {"/v1/traces"}
    request = collector.only(name)
    assert request.parent == CALLER
    assert request.kind == SERVER_KIND
    assert not request.is_error
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["http.route"] == "/v3/chat/completions"
    assert request.attributes["gen_ai.request.model"] == "echo"
    assert request.attributes["graphrt.request_id"] == "mine"
    node = collector.only("node node")
    assert node.attributes["graphrt.calculator"] == "Echo"
    run = collector.only("graph echo")
    assert request.begin <= run.begin <= node.begin <= node.end <= run.end <= request.end


def test_a_node_that_fails_has_its_span_too(tmp_path: Path, collector: Collector) -> None:
    entry = write_graph(tmp_path, "count", COUNT_GRAPH)

    async def scenario() -> None:
        async with traced(collector, entry) as server:
            # The body is not a number.
            assert (await server.ask(chat_bytes("count", stream=True))).status == 500

    asyncio.run(scenario())
    request = collector.only("POST /v3/chat/completions")
    assert request.is_error
    assert request.attributes["error.type"] == "500"
    assert collector.only("node node").attributes["graphrt.calls"] >= 2  # open, process


def test_kserve_over_rest_and_grpc_has_the_same_spans(tmp_path: Path, collector: Collector) -> None:
    entry = write_graph(tmp_path, "passing", PASSING)
    metadata = (("traceparent", f"00-{TRACE}-{CALLER}-01"), ("x-request-id", "mine"))

    async def scenario() -> None:
        async with traced(collector, entry) as server:
            reply = await server.ask(post("/v2/models/passing/infer", {"inputs": [ONE]}))
            assert reply.status == 200, reply.body
            tensor: dict[str, Any] = {"name": "in", "datatype": "FP32", "shape": [1]}
            tensor["contents"] = {"fp32_contents": [1.0]}
            await server.call("ModelInfer", metadata, model_name="passing", inputs=[tensor])

    asyncio.run(scenario())
    rest = collector.only("POST /v2/models/{model}/infer")
    rpc = collector.only("inference.GRPCInferenceService/ModelInfer")
    assert (rest.parent, rpc.parent, rpc.trace_id) == ("", CALLER, TRACE)
    assert rpc.attributes["rpc.method"] == "ModelInfer"
    assert rpc.attributes["rpc.service"] == "inference.GRPCInferenceService"
    assert rpc.attributes["rpc.response.status_code"] == "OK"
    assert rpc.attributes["graphrt.request_id"] == "mine"
    for request in (rest, rpc):
        (run,) = (span for span in collector.spans if span.parent == request.span_id)
        (node,) = (span for span in collector.spans if span.parent == run.span_id)
        assert (run.name, node.name) == ("graph passing", "node pass")
        assert run.trace_id == node.trace_id == request.trace_id


def test_faults_of_the_server_are_errors_and_faults_of_clients_are_not(
    tmp_path: Path, collector: Collector
) -> None:
    entry = write_graph(tmp_path, "fail", http_graph("Fail"))

    async def scenario() -> None:
        async with traced(collector, entry) as server:
            assert (await server.ask(chat_bytes("fail"))).status == 500
            assert (await server.ask(chat_bytes("nobody", path="/v1/completions"))).status == 404
            with pytest.raises(grpc.aio.AioRpcError):
                await server.call("ModelMetadata", name="nobody")

    asyncio.run(scenario())
    assert collector.only("POST /v3/chat/completions").is_error
    assert not collector.only("POST /v1/completions").is_error
    call = collector.only("inference.GRPCInferenceService/ModelMetadata")
    assert not call.is_error
    assert call.attributes["rpc.response.status_code"] == "NOT_FOUND"


def test_spans_dropped_by_caller_or_sampler_are_not_sent(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    entry = write_graph(tmp_path, "echo", http_graph("Echo"))

    def from_caller(flags: str) -> dict[str, str]:
        return {"traceparent": f"00-{TRACE}-{CALLER}-{flags}"}

    async def scenario() -> None:
        async with traced(collector, entry) as server:
            await server.ask(chat_bytes("echo"))
            await server.ask(chat_bytes("echo", headers=from_caller("00")))
            await server.ask(chat_bytes("echo", headers=from_caller("01"), path="/v1/responses"))
            await server.ask(chat_bytes("echo", headers={"traceparent": "\u00e4 no trace"}))

    asyncio.run(scenario())
    names = {span.name for span in collector.spans}
    assert names == {"POST /v1/responses", "graph echo", "node node"}


def test_health_requests_are_not_traced(tmp_path: Path, collector: Collector) -> None:
    async def scenario() -> None:
        async with traced(collector) as server:
            await server.ask(request_bytes("GET", "/v2/health/ready"))
            await server.call("ServerReady")
            await server.ask(request_bytes("GET", "/v2/health/nonsense?key=1"))
            await server.ask(request_bytes("GET", "/v1/models/some/thing"))

    asyncio.run(scenario())
    assert [span.name for span in collector.spans] == ["GET /v3/models/{model}"]


def test_the_environment_names_the_service_and_the_collector(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "chats")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    traces = start_traces(TracingSettings())

    async def scenario() -> None:
        journal = RequestJournal(traces)
        server = Server(ServerSettings((), http=HttpSettings(port=0), journal=journal))
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes("GET", "/v1/config", headers={"Connection": "close"}))
        await reader.read()
        writer.close()
        await server.stop()

    asyncio.run(scenario())
    traces.close()
    assert collector.only("GET /v1/config").service == "chats"


def test_spans_may_go_over_grpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    entry = write_graph(tmp_path, "echo", http_graph("Echo"))
    with collecting_calls() as collector:

        async def scenario() -> None:
            async with traced(collector, entry) as server:
                await server.ask(chat_bytes("echo"))

        asyncio.run(scenario())
    assert collector.paths == {"/opentelemetry.proto.collector.trace.v1.TraceService/Export"}
    assert set(collector.tree()) == {"POST /v3/chat/completions", "graph echo", "node node"}


def test_settings_that_opentelemetry_refuses_are_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier/pigeon")
    with pytest.raises(TracingError, match=r"carrier/pigeon.*known are http/protobuf and grpc"):
        start_traces(TracingSettings("http://127.0.0.1:1"))

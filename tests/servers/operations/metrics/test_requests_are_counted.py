"""Request metrics: exact after requests of each kind."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.servers.fronts.kserve_grpc.grpc_client import infer_request
from tests.servers.operations.metrics.metered_server import Metered, numbers, serving
from tests.servers.serving.served_graphs import Wait
from tests.support.patience import PATIENCE

CHAT = "/v3/chat/completions"
V3 = {"api": "V3", "interface": "REST"}
KSERVE_REST = {"api": "KServe", "interface": "REST", "method": "ModelInfer"}


def test_requests_to_a_graph_over_http_are_counted(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        for _ in range(3):
            assert (await server.ask("POST", CHAT, {"model": "echo"})).status == 200
        assert (await server.ask("POST", CHAT, {"model": "echo", "stream": True})).status == 200
        assert (await server.ask("POST", CHAT, {"model": "fail"})).status == 500
        values = await server.values()

        def of(family: str, /, **labels: str) -> float:
            return values[family][tuple(sorted({**V3, **labels}.items()))]

        assert of("ovms_requests_accepted", name="echo", method="Unary") == 3
        assert of("ovms_requests_accepted", name="echo", method="Stream") == 1
        assert of("ovms_responses", name="echo", method="Unary") == 3
        assert of("ovms_responses", name="echo", method="Stream") == 1
        assert of("ovms_graph_error", name="echo", method="Unary") == 0
        assert of("ovms_requests_accepted", name="fail", method="Unary") == 1
        assert of("ovms_graph_error", name="fail", method="Unary") == 1
        assert of("ovms_responses", name="fail", method="Unary") == 0
        assert of("ovms_requests_rejected", name="echo", method="Unary") == 0
        of_echo = (("method", "Unary"), ("name", "echo"))
        assert values["ovms_graph_processing_time_us_count"][of_echo] == 3
        assert 0 < values["ovms_graph_processing_time_us_sum"][of_echo] < 60e6
        assert values["ovms_current_graphs"][(("name", "echo"),)] == 0
        counted = values["graphrt_http_requests_total"]
        assert counted[("code", "200"), ("method", "POST"), ("route", CHAT)] == 4
        assert counted[("code", "500"), ("method", "POST"), ("route", CHAT)] == 1
        assert values["graphrt_http_request_seconds_count"][(("route", CHAT),)] == 5

    serving(tmp_path, scenario)


def test_every_packet_of_a_stream_is_a_response(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        body = {"model": "letters", "text": "abcde", "stream": True}
        reply = await server.ask("POST", CHAT, body)
        assert reply.body.count(b"data: ") == 5
        labels = {"name": "letters", "method": "Stream", **V3}
        assert await server.value("ovms_responses", **labels) == 5
        assert await server.value("ovms_requests_accepted", **labels) == 1

    serving(tmp_path, scenario)


def test_a_waiting_request_is_current_and_one_whose_client_leaves_is_cancelled(
    tmp_path: Path,
) -> None:
    async def scenario(server: Metered) -> None:
        Wait.began, Wait.go_on, Wait.closed = asyncio.Event(), asyncio.Event(), 0
        async with server.http() as client:
            body = b'{"model": "wait"}'
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            client.send(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
            await Wait.began.wait()
            assert await server.value("ovms_current_graphs", name="wait") == 1
            client.abort()
        async with asyncio.timeout(PATIENCE):
            while await server.value("ovms_current_graphs", name="wait"):
                pass
        labels = {"name": "wait", "method": "Unary", **V3}
        assert await server.value("graphrt_requests_cancelled_total", **labels) == 1
        assert await server.value("ovms_requests_accepted", **labels) == 1
        assert await server.value("ovms_graph_error", **labels) == 0

    serving(tmp_path, scenario)


def test_inferences_of_a_plain_model_over_http_are_counted(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        for _ in range(4):
            assert (await server.infer("plus", numbers(1, 2))).status == 200
        assert (await server.infer("plus", numbers(1, 2), "1")).status == 200
        assert (await server.infer("plus", numbers(1, 2, 3))).status == 400
        assert (await server.infer("plus", numbers(1, 2), "9")).status == 404
        values = await server.values()

        def infer(family: str, version: str) -> float:
            labels = {**KSERVE_REST, "name": "plus", "version": version}
            return values[family][tuple(sorted(labels.items()))]

        assert infer("ovms_requests_success", "2") == 4
        assert infer("ovms_requests_success", "1") == 1
        # The default version stands for a version that does not exist.
        assert infer("ovms_requests_fail", "2") == 2
        assert infer("ovms_requests_fail", "1") == 0
        first, second = (("name", "plus"), ("version", "1")), (("name", "plus"), ("version", "2"))
        assert values["ovms_request_time_us_count"][(("interface", "REST"), *second)] == 4
        for family in ("ovms_inference_time_us", "ovms_wait_for_infer_req_time_us"):
            assert values[f"{family}_count"][second] == 4
            assert values[f"{family}_count"][first] == 1
        assert 0 < values["ovms_inference_time_us_sum"][second] < 60e6
        assert values["ovms_current_requests"][second] == 0
        assert values["ovms_streams"][second] >= 1

    serving(tmp_path, scenario)


def test_requests_to_a_graph_of_tensors_are_counted(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        assert (await server.infer("add", {"inputs": []})).status == 400
        labels = {**KSERVE_REST, "name": "add"}
        assert await server.value("ovms_requests_rejected", **labels) == 1
        assert await server.value("ovms_requests_accepted", **labels) == 0

    serving(tmp_path, scenario)


def test_lookups_are_counted_and_those_of_generate_itself_are_not(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        for path in ("plus", "plus/ready", "plus/versions/7", "echo", "echo/ready"):
            await server.ask("GET", f"/v2/models/{path}")
        await server.ask("POST", "/v2/models/plus/generate", {"text_input": "a"})
        rest = {"api": "KServe", "interface": "REST"}
        metadata = {**rest, "method": "ModelMetadata"}
        ready = {**rest, "method": "ModelReady"}
        success, fail = "ovms_requests_success", "ovms_requests_fail"
        assert await server.value(success, name="plus", version="2", **metadata) == 1
        assert await server.value(fail, name="plus", version="2", **metadata) == 1
        # No version: the question is about any.
        assert await server.value(success, name="plus", **ready) == 1
        assert await server.value(success, name="echo", **metadata) == 1
        assert await server.value(success, name="echo", **ready) == 1

    serving(tmp_path, scenario)


def test_calls_over_grpc_are_counted(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        tensor = {"name": "X", "datatype": "FP32", "shape": [2]}
        contents = {"contents": {"fp32_contents": [1.0, 2.0]}}
        asked = {"model_name": "plus", "inputs": [{**tensor, **contents}]}
        await server.grpc.call("ModelInfer", **asked)
        assert "NOT_FOUND" in await server.grpc.refusal("ModelInfer", model_name="nobody")
        await server.grpc.call("ModelReady", name="plus")
        values = await server.values()
        labels = {"api": "KServe", "interface": "gRPC", "name": "plus"}
        infer = {**labels, "method": "ModelInfer", "version": "2"}
        assert values["ovms_requests_success"][tuple(sorted(infer.items()))] == 1
        ready = {**labels, "method": "ModelReady"}
        assert values["ovms_requests_success"][tuple(sorted(ready.items()))] == 1
        time = (("interface", "gRPC"), ("name", "plus"), ("version", "2"))
        assert values["ovms_request_time_us_count"][time] == 1
        calls = values["graphrt_grpc_calls_total"]
        assert calls[("code", "OK"), ("method", "ModelInfer")] == 1
        assert calls[("code", "NOT_FOUND"), ("method", "ModelInfer")] == 1
        assert values["graphrt_grpc_call_seconds_count"][(("method", "ModelInfer"),)] == 2

    serving(tmp_path, scenario, with_grpc=True)


def test_requests_of_a_stream_over_grpc_are_counted(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        tensor = {"name": "x", "datatype": "FP32", "shape": [2]}
        contents = {"contents": {"fp32_contents": [1.0, 2.0]}}
        async with asyncio.timeout(PATIENCE):
            call = server.grpc.stream()()
            for _ in range(3):
                await call.write(infer_request("add", inputs=[{**tensor, **contents}]))
                assert not (await call.read()).error_message
            await call.write(infer_request("add", inputs=[{**tensor, "datatype": "NONE"}]))
            assert (await call.read()).error_message
            await call.done_writing()
            assert await call.code() is not None
        labels = {"api": "KServe", "interface": "gRPC", "method": "ModelInferStream", "name": "add"}
        values = await server.values()
        key = tuple(sorted(labels.items()))
        assert values["ovms_requests_accepted"][key] == 3
        assert values["ovms_responses"][key] == 3
        assert values["ovms_graph_error"][key] == 0
        time = (("method", "ModelInferStream"), ("name", "add"))
        assert values["ovms_graph_processing_time_us_count"][time] == 1
        assert values["ovms_current_graphs"][(("name", "add"),)] == 0

    serving(tmp_path, scenario, with_grpc=True)

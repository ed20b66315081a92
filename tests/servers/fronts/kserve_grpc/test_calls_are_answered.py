"""Every unary method answers, or says why not."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import numpy as np
import pytest

from calculators.kit.requests.http_payload import ClientConnection, RequestError
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import Code, GraphError, TimestampError, UnavailableError
from graph_runtime.errors import CalculatorError, RunError
from servers import version
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane, Infer, echoed, raising
from tests.servers.fronts.kserve_grpc.grpc_client import HEALTH, infer_request, serving, shown


def test_a_server_describes_itself_and_its_models(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        async with serving(data_plane) as client:
            assert (await client.call("ServerLive")).live
            assert (await client.call("ServerReady")).ready
            data_plane.is_ready = False
            assert not (await client.call("ServerReady")).ready

            server = await client.call("ServerMetadata")
            assert (server.name, server.version) == ("graphrt", version())
            assert list(server.extensions) == ["model_repository", "parameters"]

            assert (await client.call("ModelReady", name="echo", version="2")).ready
            data_plane.unready.add("echo")
            assert not (await client.call("ModelReady", name="echo")).ready

            model = await client.call("ModelMetadata", name="echo")
            assert (model.name, model.platform) == ("echo", "graphrt")
            assert list(model.versions) == ["1", "2"]
            (x,), (y,) = model.inputs, model.outputs
            assert (x.name, x.datatype, list(x.shape)) == ("x", "FP32", [-1, 3])
            assert (y.name, y.datatype, list(y.shape)) == ("y", "INVALID", [])

    run(scenario())


def test_an_inference_is_answered(run: Run) -> None:
    async def scenario() -> None:
        x = np.arange(6, dtype="<f4").reshape(2, 3)
        async with serving(FakeDataPlane()) as client:
            answer = await client.call(
                "ModelInfer",
                model_name="echo",
                model_version="2",
                id="seven",
                parameters={"p": {"int64_param": 7}},
                inputs=[{"name": "x", "datatype": "FP32", "shape": [2, 3]}],
                raw_input_contents=[x.tobytes()],
            )
        assert (answer.model_name, answer.model_version, answer.id) == ("echo", "2", "seven")
        assert answer.parameters["p"].int64_param == 7
        (output,) = answer.outputs
        assert (output.name, output.datatype, list(output.shape)) == ("x", "FP32", [2, 3])
        assert list(answer.raw_output_contents) == [x.tobytes()]

    run(scenario())


def test_a_large_tensor_is_returned(run: Run) -> None:
    async def scenario() -> None:
        content = np.random.default_rng(1).bytes(20_000_000)
        unlimited = ("grpc.max_receive_message_length", -1)
        async with serving(FakeDataPlane(), None, unlimited) as client:
            answer = await client.call(
                "ModelInfer",
                model_name="echo",
                inputs=[{"name": "x", "datatype": "UINT8", "shape": [len(content)]}],
                raw_input_contents=[content],
            )
        assert answer.raw_output_contents[0] == content

    run(scenario())


def test_the_repository_is_listed_and_changed(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        async with serving(data_plane) as client:
            listed = (await client.call("RepositoryIndex")).models
            assert [(m.name, m.version, m.state, m.reason) for m in listed] == [
                ("echo", "1", "READY", ""),
                ("bad", "1", "UNAVAILABLE", "no such file"),
            ]
            ready = (await client.call("RepositoryIndex", ready=True)).models
            assert [model.name for model in ready] == ["echo"]

            loaded = await client.call("RepositoryModelLoad", model_name="echo")
            assert (loaded.model_name, loaded.isLoaded) == ("echo", True)
            # KServe's clients have one field, which is Triton's repository_name.
            await client.call("RepositoryModelLoad", repository_name="echo")
            assert data_plane.loaded == ["echo", "echo"]

            unloaded = await client.call(
                "RepositoryModelUnload",
                model_name="echo",
                parameters={"unload_dependents": {"bool_param": False}},
            )
            assert (unloaded.model_name, unloaded.isUnloaded) == ("echo", True)
            assert data_plane.unloaded == ["echo"]

    run(scenario())


@pytest.mark.parametrize(
    ("method", "fields", "refusal"),
    [
        ("ModelReady", {"name": "no"}, 'NOT_FOUND: The model "no" does not exist'),
        ("ModelReady", {"name": "echo", "version": "9"}, 'NOT_FOUND: The model "echo" has no ver'),
        ("ModelMetadata", {"name": "no"}, 'NOT_FOUND: The model "no" does not exist'),
        ("ModelInfer", {"model_name": "no"}, 'NOT_FOUND: The model "no" does not exist'),
        ("ModelInfer", {"model_name": "echo", "model_version": "9"}, "NOT_FOUND: The model"),
        (
            "ModelInfer",
            {"model_name": "echo", "raw_input_contents": [b""]},
            "INVALID_ARGUMENT: raw_input_contents has 1 parts for 0 inputs",
        ),
        (
            "ModelInfer",
            {"model_name": "echo", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]},
            'INVALID_ARGUMENT: inputs[0] "x": the shape [-1] has a negative dimension',
        ),
        (
            "RepositoryIndex",
            {"repository_name": "other"},
            'NOT_FOUND: there is no repository "other"',
        ),
        ("RepositoryModelLoad", {}, "INVALID_ARGUMENT: the request has no model_name"),
        ("RepositoryModelLoad", {"model_name": "no"}, 'NOT_FOUND: The model "no" does not exist'),
        (
            "RepositoryModelLoad",
            {"model_name": "echo", "parameters": {"config": {"string_param": "{}"}}},
            'UNIMPLEMENTED: the parameter "config" is not supported',
        ),
        ("RepositoryModelUnload", {"model_name": "no"}, 'NOT_FOUND: The model "no" does not'),
    ],
)
def test_wrong_requests_are_refused_by_name(
    run: Run, method: str, fields: dict[str, Any], refusal: str
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            assert (await client.refusal(method, **fields)).startswith(refusal)
            assert await client.call("ModelInfer", model_name="echo")  # the others continue

    run(scenario())


def of_calculator(cause: BaseException) -> RunError:
    failure = CalculatorError("node", "Process", str(cause))
    failure.__cause__ = cause
    return RunError([failure])


SECRET = "/srv/secret.py:12: token"

IN_NODE = 'INTERNAL: internal error in node "node" (request '


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (RequestError("too many"), "INVALID_ARGUMENT: too many"),
        (RequestError("later", code=Code.RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED: later"),
        (RequestError("handler failed", code=Code.INTERNAL), "INTERNAL: handler failed"),
        (UnavailableError("still loading"), "UNAVAILABLE: still loading"),
        (GraphError("no", code=Code.FAILED_PRECONDITION), "FAILED_PRECONDITION: no"),
        (GraphError("over", code=Code.CANCELLED), "UNAVAILABLE: over"),
        (of_calculator(RequestError("bad input")), "INVALID_ARGUMENT: bad input"),
        (of_calculator(GraphError("gone", code=Code.ABORTED)), "ABORTED: gone"),
        (of_calculator(ValueError(SECRET)), 'INTERNAL: internal error in node "node" (request '),
        (
            of_calculator(TimestampError(SECRET)),
            'INTERNAL: internal error in node "node" (request ',
        ),
        (ZeroDivisionError(SECRET), "INTERNAL: internal error (request "),
        (asyncio.CancelledError(), "INTERNAL: internal error (request "),
        (RequestError("a\nb /srv/models c"), "INVALID_ARGUMENT: a b <path> c"),
    ],
)
def test_every_failure_has_a_status_and_a_clean_text(
    run: Run, caplog: pytest.LogCaptureFixture, error: BaseException, refusal: str
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(bad=raising(error))) as client:
            status_of = await client.refusal("ModelInfer", model_name="bad")
            assert status_of.startswith(refusal)
            assert "secret" not in status_of
            assert await client.call("ModelInfer", model_name="echo")
        if "internal error" in refusal:
            reference = status_of.removesuffix(")").rpartition(" ")[2]
            (record,) = [each for each in caplog.records if reference in each.getMessage()]
            assert record.exc_info is not None

    run(scenario())


@pytest.mark.parametrize(
    ("service", "method"),
    [
        ("inference.GRPCInferenceService", "ModelInfer"),
        ("inference.GRPCInferenceService", "ServerLive"),
        (HEALTH, "Check"),
    ],
)
def test_invalid_messages_are_refused(run: Run, service: str, method: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw(method, b"\x0a\xff", service)
            assert shown(caught.value).startswith("INVALID_ARGUMENT: the request is not a ")

    run(scenario())


def test_unknown_methods_and_services_are_unimplemented(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            for path in ("/inference.GRPCInferenceService/No", "/no.Service/ServerLive", "/"):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await client.channel.unary_unary(path)(b"")
                assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    run(scenario())


def hanging(data_plane: FakeDataPlane) -> Infer:
    async def behave(request: InferRequest, client: ClientConnection) -> InferResponse:
        await asyncio.Event().wait()
        return echoed(request)

    return behave


def test_a_deadline_that_passes_cancels_the_run(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        data_plane.behaviours["slow"] = hanging(data_plane)
        async with serving(data_plane) as client:
            request = infer_request("slow").SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw("ModelInfer", request, timeout=2.0)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await data_plane.ended.wait()
            assert data_plane.cancelled == 1

    run(scenario())


def test_a_client_that_cancels_cancels_the_run_and_its_calculators(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        data_plane.behaviours["slow"] = hanging(data_plane)
        async with serving(data_plane) as client:
            call = client.call_raw("ModelInfer", infer_request("slow").SerializeToString())
            await data_plane.begun.wait()
            (seen,) = data_plane.clients
            gone = asyncio.Event()
            seen.on_disconnect(gone.set)
            assert seen.is_writable
            assert not seen.is_disconnected
            call.cancel()
            await gone.wait()
            assert seen.is_disconnected
            assert data_plane.cancelled == 1
            assert await client.call("ModelInfer", model_name="echo")

    run(scenario())


def test_a_message_over_the_limit_is_refused(run: Run) -> None:
    async def scenario() -> None:
        settings = GrpcSettings(max_message_bytes=1000)
        async with serving(FakeDataPlane(), settings) as client:
            refusal = await client.refusal("ModelInfer", model_name="x" * 1000)
            assert refusal.startswith("RESOURCE_EXHAUSTED: ")
            assert "1000" in refusal
            assert await client.call("ModelInfer", model_name="echo")

    run(scenario())


def test_a_compressed_message_over_the_limit_is_refused(run: Run) -> None:
    async def scenario() -> None:
        settings = GrpcSettings(max_message_bytes=1_000_000)
        async with serving(FakeDataPlane(), settings) as client:
            request = infer_request(id="x" * 5_000_000).SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw("ModelInfer", request, compression=grpc.Compression.Gzip)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            small = infer_request(id="x" * 500_000).SerializeToString()
            answer = await client.call_raw("ModelInfer", small, compression=grpc.Compression.Gzip)
            assert len(answer.id) == 500_000

    run(scenario())


def test_thousands_of_metadata_entries_are_refused(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            metadata = tuple((f"key-{at}", "value") for at in range(5000))
            request = infer_request().SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw("ModelInfer", request, metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await client.call("ModelInfer", model_name="echo")

    run(scenario())


def test_more_calls_than_allowed_are_refused(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        data_plane.behaviours["slow"] = hanging(data_plane)
        async with serving(data_plane, GrpcSettings(max_calls=1)) as client:
            call = client.call_raw("ModelInfer", infer_request("slow").SerializeToString())
            await data_plane.begun.wait()
            refusal = await client.refusal("ModelInfer", model_name="echo")
            assert refusal.startswith("RESOURCE_EXHAUSTED: ")
            call.cancel()

    run(scenario())


@pytest.mark.parametrize(
    ("service", "is_known"),
    [("", True), ("inference.GRPCInferenceService", True), ("echo", True), ("no", False)],
)
def test_health_of_the_server_and_of_models_is_answered(
    run: Run, service: str, is_known: bool
) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        async with serving(data_plane) as client:
            if not is_known:
                refusal = await client.refusal("Check", HEALTH, service=service)
                assert refusal == 'NOT_FOUND: there is no service "no"'
                return
            assert (await client.call("Check", HEALTH, service=service)).status == 1
            data_plane.is_ready = False
            data_plane.unready.add("echo")
            assert (await client.call("Check", HEALTH, service=service)).status == 2

    run(scenario())

"""Reflection: a client without descriptions finds the services and their messages."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from protos.pool import message_class
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane
from tests.servers.fronts.kserve_grpc.grpc_client import HEALTH, INFERENCE, Client, serving

VERSIONS = ("grpc.reflection.v1", "grpc.reflection.v1alpha")


async def ask(client: Client, version: str, *questions: dict[str, Any]) -> list[Any]:
    """Return the answers to some requests in one stream."""
    request = message_class(f"{version}.ServerReflectionRequest")
    call = client.stream("ServerReflectionInfo", f"{version}.ServerReflection")()
    answers = []
    for question in questions:
        await call.write(request(**question))
        answers.append(await call.read())
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK
    return answers


@pytest.mark.parametrize("version", VERSIONS)
def test_services_are_listed(run: Run, version: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            (answer,) = await ask(client, version, {"list_services": "*", "host": "h"})
        assert {each.name for each in answer.list_services_response.service} == {
            INFERENCE,
            HEALTH,
            *(f"{each}.ServerReflection" for each in VERSIONS),
        }
        assert answer.valid_host == "h"
        assert answer.original_request.list_services == "*"

    run(scenario())


@pytest.mark.parametrize(
    "question",
    [
        {"file_containing_symbol": INFERENCE},
        {"file_containing_symbol": f"{INFERENCE}.ModelInfer"},
        {"file_containing_symbol": "inference.ModelInferRequest"},
        {"file_containing_symbol": "inference.ModelInferRequest.InferInputTensor"},
        {"file_by_filename": "kserve/grpc_predict_v2.proto"},
    ],
)
def test_messages_can_be_made_from_the_description(run: Run, question: dict[str, str]) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            (answer,) = await ask(client, VERSIONS[0], question)
        pool = DescriptorPool()
        for content in answer.file_descriptor_response.file_descriptor_proto:
            pool.Add(FileDescriptorProto.FromString(content))
        service = pool.FindServiceByName(INFERENCE)
        described = service.methods_by_name["ModelInfer"].input_type
        assert described.fields_by_name["raw_input_contents"].number == 7

    run(scenario())


def test_unserved_names_are_not_described(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            extension = {"containing_type": "inference.ModelInferRequest", "extension_number": 1}
            answers = await ask(
                client,
                VERSIONS[0],
                {"file_containing_symbol": "mediapipe.CalculatorGraphConfig"},
                {"file_by_filename": "mediapipe/framework/calculator.proto"},
                {"file_containing_symbol": ""},
                {"all_extension_numbers_of_type": "mediapipe.CalculatorOptions"},
                {"file_containing_extension": extension},
            )
            assert [answer.error_response.error_code for answer in answers] == [5] * 5
            (known, nothing) = await ask(
                client,
                VERSIONS[0],
                {"all_extension_numbers_of_type": "inference.ModelInferRequest"},
                {},
            )
            response = known.all_extension_numbers_response
            assert (response.base_type_name, list(response.extension_number)) == (
                "inference.ModelInferRequest",
                [],
            )
            assert nothing.error_response.error_code == 3

    run(scenario())

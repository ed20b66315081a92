"""Wire format of KServe's, Triton's and gRPC's messages.

The numbers are written out by hand, from the protocols' documents.
"""

from __future__ import annotations

from typing import Any

import pytest

from protos.pool import find_message, message_class, pool

PARAMETER = "bool_param=1 int64_param=2 string_param=3"
REFLECTION = {
    "ServerReflectionRequest": "host=1 file_by_filename=3 file_containing_symbol=4"
    " file_containing_extension=5 all_extension_numbers_of_type=6 list_services=7",
    "ExtensionRequest": "containing_type=1 extension_number=2",
    "ServerReflectionResponse": "valid_host=1 original_request=2 file_descriptor_response=4"
    " all_extension_numbers_response=5 list_services_response=6 error_response=7",
    "FileDescriptorResponse": "file_descriptor_proto=1",
    "ExtensionNumberResponse": "base_type_name=1 extension_number=2",
    "ListServiceResponse": "service=1",
    "ServiceResponse": "name=1",
    "ErrorResponse": "error_code=1 error_message=2",
}
FIELDS = {
    "inference.ServerLiveResponse": "live=1",
    "inference.ServerReadyResponse": "ready=1",
    "inference.ModelReadyRequest": "name=1 version=2",
    "inference.ModelReadyResponse": "ready=1",
    "inference.ServerMetadataResponse": "name=1 version=2 extensions=3",
    "inference.ModelMetadataRequest": "name=1 version=2",
    "inference.ModelMetadataResponse": "name=1 versions=2 platform=3 inputs=4 outputs=5",
    "inference.ModelMetadataResponse.TensorMetadata": "name=1 datatype=2 shape=3",
    "inference.ModelInferRequest": "model_name=1 model_version=2 id=3 parameters=4 inputs=5"
    " outputs=6 raw_input_contents=7",
    "inference.ModelInferRequest.InferInputTensor": "name=1 datatype=2 shape=3 parameters=4"
    " contents=5",
    "inference.ModelInferRequest.InferRequestedOutputTensor": "name=1 parameters=2",
    "inference.ModelInferResponse": "model_name=1 model_version=2 id=3 parameters=4 outputs=5"
    " raw_output_contents=6",
    "inference.ModelInferResponse.InferOutputTensor": "name=1 datatype=2 shape=3 parameters=4"
    " contents=5",
    "inference.ModelStreamInferResponse": "error_message=1 infer_response=2",
    "inference.InferParameter": f"{PARAMETER} double_param=4 uint64_param=5",
    "inference.InferTensorContents": "bool_contents=1 int_contents=2 int64_contents=3"
    " uint_contents=4 uint64_contents=5 fp32_contents=6 fp64_contents=7 bytes_contents=8",
    "inference.ModelRepositoryParameter": f"{PARAMETER} bytes_param=4",
    "inference.RepositoryIndexRequest": "repository_name=1 ready=2",
    "inference.RepositoryIndexResponse": "models=1",
    "inference.RepositoryIndexResponse.ModelIndex": "name=1 version=2 state=3 reason=4",
    "inference.RepositoryModelLoadRequest": "repository_name=1 model_name=2 parameters=3",
    "inference.RepositoryModelLoadResponse": "model_name=1 isLoaded=2",
    "inference.RepositoryModelUnloadRequest": "repository_name=1 model_name=2 parameters=3",
    "inference.RepositoryModelUnloadResponse": "model_name=1 isUnloaded=2",
    "grpc.health.v1.HealthCheckRequest": "service=1",
    "grpc.health.v1.HealthCheckResponse": "status=1",
    **{f"grpc.reflection.v1.{name}": fields for name, fields in REFLECTION.items()},
    **{f"grpc.reflection.v1alpha.{name}": fields for name, fields in REFLECTION.items()},
}
SERVICES = {
    "inference.GRPCInferenceService": "ServerLive ServerReady ModelReady ServerMetadata"
    " ModelMetadata ModelInfer >ModelStreamInfer> RepositoryIndex RepositoryModelLoad"
    " RepositoryModelUnload",
    "grpc.health.v1.Health": "Check Watch>",
    "grpc.reflection.v1.ServerReflection": ">ServerReflectionInfo>",
    "grpc.reflection.v1alpha.ServerReflection": ">ServerReflectionInfo>",
}


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields_have_the_numbers_of_the_protocol(name: str) -> None:
    kind = find_message(name)

    assert kind is not None
    assert " ".join(f"{field.name}={field.number}" for field in kind.fields) == FIELDS[name]


@pytest.mark.parametrize("name", SERVICES)
def test_the_services_have_the_methods_of_the_protocol(name: str) -> None:
    service = pool().FindServiceByName(name)

    told = [
        ">" * method.client_streaming + method.name + ">" * method.server_streaming
        for method in service.methods
    ]
    assert " ".join(told) == SERVICES[name]


def test_a_request_has_the_bytes_of_the_protocol() -> None:
    request = message_class("inference.ModelInferRequest")(
        model_name="m",
        model_version="1",
        id="i",
        parameters={"p": {"int64_param": 5}},
        inputs=[
            {
                "name": "x",
                "datatype": "FP32",
                "shape": [2, 1],
                "contents": {"fp32_contents": [1.0, 2.0]},
            }
        ],
        outputs=[{"name": "y", "parameters": {"binary_data": {"bool_param": True}}}],
        raw_input_contents=[b"\x01\x02"],
    )

    assert request.SerializeToString(deterministic=True) == (
        b"\x0a\x01m\x12\x011\x1a\x01i"
        b"\x22\x07\x0a\x01p\x12\x02\x10\x05"
        b"\x2a\x19\x0a\x01x\x12\x04FP32\x1a\x02\x02\x01\x2a\x0a\x32\x08"
        b"\x00\x00\x80\x3f\x00\x00\x00\x40"
        b"\x32\x16\x0a\x01y\x12\x11\x0a\x0bbinary_data\x12\x02\x08\x01"
        b"\x3a\x02\x01\x02"
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"bool_contents": [True]}, b"\x0a\x01\x01"),
        ({"int_contents": [-1]}, b"\x12\x0a" + b"\xff" * 9 + b"\x01"),
        ({"int64_contents": [1]}, b"\x1a\x01\x01"),
        ({"uint_contents": [200]}, b"\x22\x02\xc8\x01"),
        ({"uint64_contents": [1]}, b"\x2a\x01\x01"),
        ({"fp32_contents": [1.0]}, b"\x32\x04\x00\x00\x80\x3f"),
        ({"fp64_contents": [1.0]}, b"\x3a\x08\x00\x00\x00\x00\x00\x00\xf0\x3f"),
        ({"bytes_contents": [b"ab"]}, b"\x42\x02ab"),
    ],
)
def test_contents_have_the_bytes_of_the_protocol(values: dict[str, Any], expected: bytes) -> None:
    contents = message_class("inference.InferTensorContents")(**values)

    assert contents.SerializeToString() == expected


def test_the_model_of_kserves_own_load_request_is_in_the_first_field() -> None:
    request: Any = message_class("inference.RepositoryModelLoadRequest").FromString(b"\x0a\x01m")

    assert (request.repository_name, request.model_name) == ("m", "")

"""tritonclient as the guides and demos of OpenVINO Model Server use it for Python nodes, pipelines.

Texts are put into requests without the library's own packing.
"""

from __future__ import annotations

import queue
from typing import Any, Final

import numpy as np
import tritonclient.grpc as library
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from tests.process.kserve.asked import told

IS_REST: Final = False

_TEXT: Final = "Make this text uppercase."


def facts(address: str, spare: str) -> dict[str, Any]:
    # The demos set this for long answers.
    arguments = [("grpc.http2.max_pings_without_data", 0)]
    with library.InferenceServerClient(address, channel_args=arguments) as client:
        return {
            "quickstart": _quickstart(client),
            "one_prompt": _completed(client, _prompts("One")),
            "two_prompts": _completed(client, _prompts("One", "Two")),
            "packed": _packed(client),
            "labels": _labels(client),
            "pipeline": _pipeline(client),
        }


def _quickstart(client: Any) -> str:
    data = _TEXT.encode()
    tensor = library.InferInput("text", [len(data)], "BYTES")
    tensor._raw_content = data
    text: str = client.infer("quickstart", [tensor]).as_numpy("uppercase").tobytes().decode()
    return text


def _prompts(*prompts: str) -> Any:
    tensor = library.InferInput("pre_prompt", [len(prompts)], "BYTES")
    if len(prompts) == 1:
        tensor._raw_content = prompts[0].encode()
    else:
        tensor._raw_content = serialize_byte_tensor(np.array(prompts, dtype=np.object_)).item()
    return tensor


def _completed(client: Any, prompts: Any) -> list[Any]:
    """Return the outputs up to the one marked as last; the stream is still open then."""
    answers: queue.Queue[Any] = queue.Queue()
    outputs: list[Any] = []
    client.start_stream(lambda result, error: answers.put(error or result))
    client.async_stream_infer("completion", [prompts])
    while True:
        result = answers.get()
        if result.as_numpy("end_signal") is not None:
            break
        if result.as_numpy("token_count") is not None:
            outputs.append(told(result.as_numpy("token_count")))
        elif prompts.shape() == [1]:
            outputs.append(result.as_numpy("completion").tobytes().decode())
        else:
            outputs.append(told(deserialize_bytes_tensor(result._result.raw_output_contents[0])))
    client.stop_stream()
    return outputs


def _packed(client: Any) -> Any:
    """Return one text preceded by its length, under the shape of all these bytes."""
    data = serialize_byte_tensor(np.array(_TEXT.encode(), dtype=np.object_)).item()
    tensor = library.InferInput("text", [len(data)], "BYTES")
    tensor._raw_content = data
    return told(client.infer("upper", [tensor]).as_numpy("uppercase"))


def _labels(client: Any) -> list[Any]:
    """Return texts as a NumPy array, under NumPy's name of their datatype."""
    labels = np.array(["cat", "horse"])
    tensor = library.InferInput("text", [2], labels.dtype.str)
    tensor._raw_content = labels.tobytes()
    response = client.infer("labels", [tensor]).get_response()
    datatype = response.outputs[0].datatype
    return [datatype, np.frombuffer(response.raw_output_contents[0], datatype).tolist()]


def _pipeline(client: Any) -> list[Any]:
    """Return metadata and results of a DAG pipeline, for three slices."""
    tensor = library.InferInput("IN", [3, 2], "FP32")
    tensor.set_data_from_numpy(np.arange(6, dtype=np.float32).reshape(3, 2))
    metadata = client.get_model_metadata("pipeline")
    (wanted,) = metadata.outputs
    answer = client.infer("pipeline", [tensor], outputs=[library.InferRequestedOutput("OUT")])
    return [wanted.name, list(wanted.shape), told(answer.as_numpy("OUT"))]

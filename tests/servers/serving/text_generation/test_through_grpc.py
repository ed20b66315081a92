"""A language model as tritonclient sees it, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from calculators.llm.task import TASK
from graph_runtime import REGISTRY
from servers.config import find_graph
from servers.fronts.kserve_grpc.front import start_front
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.serving.model_repository import ModelRepository
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

DEMO = ROOT / "examples" / "models" / "demo"

#: As Triton's own client of its vLLM backend does.
CLIENT = """
import json
import queue
import sys

import numpy as np
import tritonclient.grpc as triton

client = triton.InferenceServerClient(sys.argv[1])


def inputs(**values):
    made = []
    for name, (datatype, value) in values.items():
        array = np.array([value], dtype=triton.triton_to_np_dtype(datatype))
        made.append(triton.InferInput(name, [1], datatype))
        made[-1].set_data_from_numpy(array)
    return made


def asking(**more):
    sampling = json.dumps({"temperature": "0", "max_tokens": "12"}).encode()
    text = ("BYTES", b"The cat")
    return inputs(text_input=text, sampling_parameters=("BYTES", sampling), **more)


def text(result):
    array = result.as_numpy("text_output")
    return None if array is None else array[0].decode()


whole = client.infer("demo", asking(), request_id="w")
answers = queue.Queue()
client.start_stream(lambda result, error: answers.put((result, error)))
for name in ("a", "b"):
    client.async_stream_infer(
        "demo",
        asking(stream=("BOOL", True)),
        request_id=name,
        enable_empty_final_response=True,
    )
client.async_stream_infer("demo", asking(top_p=("FP32", 3.0)), request_id="c")
pieces, finals, errors = {"a": "", "b": ""}, [], []
while len(finals) < 2 or not errors:
    result, error = answers.get(timeout=float(sys.argv[2]))
    if error is not None:
        errors.append(error.message())
        continue
    response = result.get_response()
    if response.parameters["triton_final_response"].bool_param:
        finals.append(response.id)
        assert not response.outputs
    else:
        pieces[response.id] += text(result)
client.stop_stream()
said = {"whole": text(whole), "pieces": pieces, "finals": sorted(finals), "errors": errors}
print(json.dumps(said))
"""


async def _asked() -> Any:
    repository = ModelRepository([find_graph(DEMO, "demo")], REGISTRY)
    await repository.load_all()
    front = await start_front(repository, GrpcSettings())
    try:
        ((host, port),) = front.addresses
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENT, f"{host}:{port}", str(PATIENCE)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return json.loads(out)
    finally:
        await front.close()
        await repository.close()


def test_tritonclient_gets_text_whole_and_in_pieces(child_program: None) -> None:
    TASK.register(REGISTRY)
    said = asyncio.run(asyncio.wait_for(_asked(), PATIENCE))
    answer = said["pieces"]["a"]
    assert answer
    assert said["pieces"] == {"a": answer, "b": answer}
    assert said["whole"] == f"The cat{answer}"
    assert said["finals"] == ["a", "b"]
    (error,) = said["errors"]
    assert 'inputs[2] "top_p": 3.0 is above the maximum 1' in error

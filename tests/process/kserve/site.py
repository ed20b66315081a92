"""A directory with one model of each kind for KServe's clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.calculators.tensors.python.running import GENERATIVE, PLAIN
from tests.process.kserve.asked import LANGUAGE_MODEL, RESTARTED, SPARE_OF
from tests.process.server_process import DEMO
from tests.servers.serving.models.model_folders import write_versions
from tests.support.checkout import ROOT

_EXAMPLES: Final = ROOT / "examples" / "graphs"

_PASSING: Final = """\
input_stream: "OVTENSOR:in"
output_stream: "OVTENSOR:out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""

#: Handlers like those of OpenVINO Model Server's demos, which unpack texts with a client's
#: function.
_WORDS: Final = """\
from pyovms import Tensor
from tritonclient.utils import deserialize_bytes_tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        texts = deserialize_bytes_tensor(bytes(inputs[0]))
        for word in " ".join(text.decode() for text in texts).split():
            if word == "fail":
                raise ValueError("this word is not liked")
            yield [Tensor("uppercase", word.upper().encode())]
"""
_UPPER: Final = """\
import numpy as np
from pyovms import Tensor
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        texts = deserialize_bytes_tensor(bytes(inputs[0]))
        upper = np.array([text.decode().upper().encode() for text in texts], dtype=np.object_)
        packed = serialize_byte_tensor(upper).item()
        return [Tensor("uppercase", packed, shape=[len(texts)], datatype="BYTES")]
"""

#: From the quickstart and the text generation demo: texts without lengths, several outputs.
_QUICKSTART: Final = """\
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        return [Tensor("uppercase", bytes(inputs[0]).decode().upper().encode())]
"""
_COMPLETION: Final = """\
import numpy as np
from pyovms import Tensor
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        count = inputs[0].shape[0]
        data = bytes(inputs[0])
        prompts = [data] if count == 1 else deserialize_bytes_tensor(data)
        for turn in range(2):
            texts = [f"{prompt.decode()} {turn};".encode() for prompt in prompts]
            batch = np.array(texts, dtype=np.object_)
            packed = texts[0] if count == 1 else serialize_byte_tensor(batch).item()
            yield [Tensor("completion", packed)]
        yield [Tensor("token_count", np.array([2], dtype=np.int32))]
        yield [Tensor("end_signal", "".encode())]
"""
_LABELS: Final = """\
import numpy as np
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        labels = np.frombuffer(inputs[0].data, dtype=inputs[0].datatype)
        return [Tensor("uppercase", np.char.upper(labels), datatype=labels.dtype.str)]
"""

#: Reports its beginning and its end through a named pipe.
_ENDLESS_CALCULATOR: Final = '''\
import asyncio
import io

from graph_runtime import Calculator, CalculatorContext, In, Out, SideIn, calculator


@calculator("tests.Endless")
class Endless(Calculator):
    """Never answers."""

    value = In[object]()
    answer = Out[object]()
    pipe = SideIn[str]("PIPE")

    async def process(self, cc: CalculatorContext) -> None:
        pipe = await asyncio.to_thread(io.FileIO, cc.side(self.pipe), "w")
        with pipe:
            pipe.write(b"begun\\n")
            try:
                await asyncio.Event().wait()
            finally:
                pipe.write(b"ended\\n")
'''
_ENDLESS: Final = """\
input_stream: "value"
output_stream: "answer"
input_side_packet: "PIPE:pipe"
node {
  calculator: "tests.Endless"
  input_stream: "value"
  output_stream: "answer"
  input_side_packet: "PIPE:pipe"
}
"""


def make_site(folder: Path) -> Path:
    """Write the models; return the path of the config.json that lists them."""
    _write(folder / "passing", _PASSING)
    _write(folder / "words", GENERATIVE, model=_WORDS)
    _write(folder / "upper", PLAIN, model=_UPPER)
    _write(folder / "endless", _ENDLESS, endless=_ENDLESS_CALCULATOR)
    _write(
        folder / "quickstart",
        PLAIN.replace("model.py", f"{folder}/quickstart/model.py"),
        model=_QUICKSTART,
    )
    _write(folder / "completion", _completion(), model=_COMPLETION)
    _write(folder / "labels", PLAIN, model=_LABELS)
    write_versions(folder, "add", 1, 2)
    graphs: list[dict[str, Any]] = [
        {"name": "passing"},
        {"name": "words"},
        {"name": "upper"},
        {"name": "quickstart", "graph_path": str(folder / "quickstart" / "graph.pbtxt")},
        {"name": "completion"},
        {"name": "labels"},
        {"name": "endless", "python_path": "endless/endless.py"},
        _example("arithmetic", python_path="arithmetic.py"),
        _example("sensor", python_path="sensor.py"),
        _example("python_handler"),
        {"name": LANGUAGE_MODEL, "base_path": str(DEMO)},
        {"name": RESTARTED, "base_path": "upper"},
        # Each client unloads a graph of its own.
        *({"name": name, "base_path": "passing"} for name in SPARE_OF.values()),
    ]
    add = {"name": "add", "base_path": "add", "model_version_policy": {"all": {}}}
    config = folder / "config.json"
    listed = {
        "model_config_list": [{"config": add}],
        "mediapipe_config_list": graphs,
        "pipeline_config_list": [_pipeline()],
    }
    config.write_text(json.dumps(listed))
    return config


def _pipeline() -> dict[str, Any]:
    """Return a DAG pipeline that adds 1 and 2 to each slice of ``IN``."""
    nodes = [
        {
            "name": f"add {version}",
            "type": "DL model",
            "model_name": "add",
            "version": version,
            "inputs": [{"X": {"node_name": before, "data_item": item}}],
            "outputs": [{"data_item": "Y", "alias": "sum"}],
        }
        for version, before, item in ((1, "request", "IN"), (2, "add 1", "sum"))
    ]
    output = {"OUT": {"node_name": "add 2", "data_item": "sum"}}
    return {
        "name": "pipeline",
        "inputs": ["IN"],
        "demultiply_count": 0,
        "nodes": nodes,
        "outputs": [output],
    }


def _completion() -> str:
    """Return a graph with three outputs."""
    graph = GENERATIVE.replace(":text", ":pre_prompt")
    names = ("completion", "token_count", "end_signal")
    for stream in ("OVMS_PY_TENSOR", "OUTPUT"):
        one = f'output_stream: "{stream}:uppercase"'
        assert one in graph
        many = (f'output_stream: "{stream}_{name.upper()}:{name}"' for name in names)
        graph = graph.replace(one, "\n".join(many))
    return graph


def _write(folder: Path, graph: str, **modules: str) -> None:
    folder.mkdir()
    (folder / "graph.pbtxt").write_text(graph)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def _example(name: str, **config: str) -> dict[str, Any]:
    folder = _EXAMPLES / name
    paths = {key: str(folder / value) for key, value in config.items()}
    return {"name": name, "base_path": str(folder), **paths}

"""OpenVINO Model Server's own clients against graphrt: ``python -m tests.ovms_clients``.

Nightly: its files are not part of this project. ``--source``, or the variable ``OVMS_SOURCE``, is a
checkout of it; without one, git fetches the few folders that are needed into ``build/ovms``. Where
that fails, this says so and ends.

Each client runs unmodified, in a process of its own, as its README calls it: against two models of
its tests, a graph of a demo, and a stand-in for ResNet, which has the names and shapes of the real
one. The client of the chat demo has an address and a model's name in its text; a copy in a
temporary folder gets the server's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import cv2
import numpy as np
import openvino
from openvino import opset13 as op

from tests.calculators.llm.demo_model import DEMO
from tests.process.server_process import ServerProcess
from tests.servers.cli.process import environment
from tests.support.checkout import ROOT

_URL: Final = "https://github.com/openvinotoolkit/model_server"
_FETCHED: Final = ROOT / "build" / "ovms"
_SAMPLES: Final = "client/python/kserve-api/samples"
_MULTI_MODEL: Final = "demos/mediapipe/multi_model_graph"
_CHAT: Final = "demos/continuous_batching/openai_client.py"
_FOLDERS: Final = (
    _SAMPLES,
    "demos/mediapipe",
    "demos/common/python",
    "demos/common/static/images/people",
    "demos/common/stream_client",
    "demos/real_time_stream_analysis/python",
    "demos/continuous_batching",
    "src/test/dummy",
    "src/test/add_two_inputs_model",
)
#: Seconds after which a client counts as hanging.
_LONGEST: Final = 300
#: The class that the stand-in finds in every image, and its name in the clients' list.
_CLASS, _CLASS_NAME = 7, "cock"


class Client(NamedTuple):
    """A client: its program, its arguments, the text that it prints if all is well."""

    program: str
    arguments: tuple[str, ...]
    expected: str


def source(given: str | None) -> Path | None:
    """Return a checkout with the clients, fetched if necessary; None if there is none."""
    if given is not None:
        found = Path(given).resolve()
        return found if (found / _SAMPLES).is_dir() else None
    if not (_FETCHED / _SAMPLES).is_dir():
        words = ("--quiet", "--depth", "1", "--filter=blob:none", "--sparse", _URL)
        try:
            subprocess.run(["git", "clone", *words, str(_FETCHED)], check=True, timeout=600)
            sparse = ["git", "-C", str(_FETCHED), "sparse-checkout", "set", *_FOLDERS]
            subprocess.run(sparse, check=True, timeout=600)
        except (OSError, subprocess.SubprocessError):
            return None
    return _FETCHED


def resnet() -> Any:
    """Build the stand-in: images [1,3,224,224] as ``0``, 1000 scores as ``1463``."""
    images = op.parameter(openvino.PartialShape([1, 3, 224, 224]), np.float32, name="0")
    images.output(0).tensor.set_names({"0"})
    mean = op.reduce_mean(images, np.array([1, 2, 3]), False)
    best = np.zeros((1, 1000), np.float32)
    best[0, _CLASS] = 1
    scores = op.add(op.multiply(op.unsqueeze(mean, np.array(1)), np.float32(0)), op.constant(best))
    scores.output(0).tensor.set_names({"1463"})
    return openvino.Model([op.result(scores)], [images], "resnet")


def write_site(folder: Path, checkout: Path) -> Path:
    """Write the stand-in, images for the clients, and a config; return the config."""
    (folder / "resnet" / "1").mkdir(parents=True)
    openvino.save_model(resnet(), folder / "resnet" / "1" / "model.xml")
    pixels = np.random.default_rng(0).integers(0, 255, (4, 224, 224, 3))
    np.save(folder / "images.npy", pixels.astype(np.float32))
    cv2.imwrite(str(folder / "image.jpeg"), pixels[0].astype(np.uint8))
    (folder / "images.txt").write_text(f"{folder}/image.jpeg {_CLASS}\n" * 2)
    plain = {
        "resnet": folder / "resnet",
        "dummy": checkout / "src" / "test" / "dummy",
        "add": checkout / "src" / "test" / "add_two_inputs_model",
    }
    models = [{"name": name, "base_path": str(path)} for name, path in plain.items()]
    models[0]["layout"] = "NHWC:NCHW"
    graph = {"name": "dummyAdd", "base_path": str(checkout / _MULTI_MODEL / "dummyAdd")}
    config = {
        "model_config_list": [{"config": each} for each in models],
        "mediapipe_config_list": [
            {**graph, "subconfig": "none.json"},
            {"name": "chat", "base_path": str(DEMO)},
        ],
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def clients(folder: Path, rest: int, grpc: int) -> Iterator[Client]:
    """Yield the clients, for a server on these ports."""
    numpy = ("--images_numpy_path", str(folder / "images.npy"), "--transpose_input", "False")
    listed = ("--images_list", str(folder / "images.txt"))
    tensors = ("--input_name", "0", "--output_name", "1463")
    name = ("--model_name", "resnet")
    for protocol, port in (("grpc", grpc), ("http", rest)):
        at = (f"--{protocol}_port", str(port), f"--{protocol}_address", "127.0.0.1")
        yield Client(f"{protocol}_server_live.py", at, "Server Live: True")
        yield Client(f"{protocol}_server_ready.py", at, "Server Ready: True")
        yield Client(f"{protocol}_server_metadata.py", at, "name")
        yield Client(f"{protocol}_model_ready.py", (*at, *name), "Model Ready: True")
        yield Client(f"{protocol}_model_metadata.py", (*at, *name), "1463")
        binary = ((), ("--binary_data",)) if protocol == "http" else ((),)
        for more in binary:
            words = (*at, *name, *tensors, *numpy, *more)
            yield Client(f"{protocol}_infer_resnet.py", words, _CLASS_NAME)
        words = (*at, *name, *tensors, *numpy)
        yield Client(f"{protocol}_async_infer_resnet.py", words, _CLASS_NAME)
        words = (*at, *name, *tensors, *listed)
        yield Client(f"{protocol}_infer_binary_resnet.py", words, _CLASS_NAME)
    at = ("--grpc_port", str(grpc), "--grpc_address", "127.0.0.1")
    yield Client("mediapipe_multi_model_client.py", at, "3.")


def run(program: Path, arguments: tuple[str, ...], expected: str) -> str:
    """Run a client in its folder; return why it failed, or ""."""
    environ = {key: text for key, text in environment().items() if "proxy" not in key.lower()}
    try:
        done = subprocess.run(
            [sys.executable, program.name, *arguments],
            cwd=program.parent,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it has not ended after {_LONGEST} s"
    if done.returncode != 0:
        return (done.stderr or done.stdout).strip()[-500:]
    return (
        "" if expected in done.stdout else f"it does not print {expected!r}: {done.stdout[-300:]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default=os.environ.get("OVMS_SOURCE"), metavar="DIR")
    given = parser.parse_args().source
    checkout = source(given)
    if checkout is None:
        where = f"{given} is no checkout of it" if given else f"git cannot fetch {_URL}"
        print(f"skipped: OpenVINO Model Server's clients are not here: {where}", file=sys.stderr)
        return 1 if given else 0
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = write_site(folder, checkout)
        with ServerProcess(config, "--port", "auto") as server:
            grpc = int(server.wait_for_log(r"serves grpc://\S+:(\d+)")[1])
            chat = folder / "openai_client.py"
            text = (checkout / _CHAT).read_text()
            text = text.replace("http://localhost:8000", server.url)
            chat.write_text(text.replace("meta-llama/Meta-Llama-3-8B-Instruct", "chat"))
            every = [(checkout / _SAMPLES, each) for each in clients(folder, server.port, grpc)]
            every[-1] = (checkout / _MULTI_MODEL, every[-1][1])
            every.append((folder, Client(chat.name, (), "response")))
            for place, client in every:
                reason = run(place / client.program, client.arguments, client.expected)
                print("FAILED" if reason else "passed", client.program, reason, flush=True)
                failed += bool(reason)
    print(f"{len(every) - failed} of {len(every)} clients passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

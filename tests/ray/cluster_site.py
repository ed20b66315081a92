"""A directory with graphs for a cluster, and the replicas that run of them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import numpy as np

from tests.servers.cli.serving import Serving, looped
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

CHAT = "/v3/chat/completions"
#: A stream of `Probe`: an event, and the rest when the file `go` is there.
TICK = {"model": "probe", "do": "tick", "stream": True}

CALCULATORS = '''\
import asyncio
import json
import os
from pathlib import Path

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


class Probe(Calculator):
    """Does what `do` of the request says."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    again = In[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    loopback = Out[bool]("LOOPBACK")
    timestamp_offset = None
    version = ""

    async def process(self, cc: CalculatorContext) -> None:
        is_first = not cc.is_empty(self.request)
        if is_first:
            self.payload = cc.get(self.request)
            self.asked = self.payload.parsed_json
            self.sent = 0
        match self.asked["do"]:
            case "where":
                answer = {"pid": os.getpid(), "version": self.version}
                cc.emit(self.response, json.dumps(answer), at=0)
            case "wait":
                while not Path(self.asked["go"]).exists():
                    await asyncio.sleep(0.02)
                cc.emit(self.response, "{}", at=0)
            case "tick":
                await self.tick(cc, is_first)
            case "pour":
                await self.pour(cc)

    async def tick(self, cc: CalculatorContext, is_first: bool) -> None:
        """Send the process; then, when the file `go` is there, the last event."""
        if is_first:
            if self.asked.get("silent_in") != os.getpid():
                cc.emit(self.response, f"data: {os.getpid()}\\n\\n", at=0)
            cc.emit(self.loopback, True, at=0)
            return
        try:
            while not Path(self.asked["go"]).exists():
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            if "cancelled" in self.asked:
                Path(self.asked["cancelled"]).touch()
            raise
        cc.emit(self.response, "data: [DONE]\\n\\n", at=1)

    async def pour(self, cc: CalculatorContext) -> None:
        """Send events of 64 KiB while the client reads; write down how many it takes."""
        if not self.payload.client.is_writable:
            Path(self.asked["held"]).write_text(str(self.sent))
            await self.payload.client.writable()
        if self.sent == self.asked["events"]:
            cc.emit(self.response, "data: [DONE]\\n\\n", at=self.sent)
            return
        cc.emit(self.response, f"data: {'x' * 65536}\\n\\n", at=self.sent)
        cc.emit(self.loopback, True, at=self.sent)
        self.sent += 1
        await asyncio.sleep(0)


@calculator
class First(Probe):
    """The first version."""

    version = "first"


@calculator
class Second(Probe):
    """The second version."""

    version = "second"
'''

#: What a replica of these graphs reserves: many fit on a small machine.
SMALL = {"num_cpus": 0.05}


class Site:
    """A directory with graphs and a config.json."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "calcs.py").write_text(CALCULATORS)
        self._graphs: list[dict[str, Any]] = []
        self._models: list[dict[str, Any]] = []
        self._write()

    def add(self, name: str, calculator: str, **scale: Any) -> None:
        """Add a graph of one node; ``scale``: see config.json."""
        self.write_graph(name, calculator)
        self._graphs.append({"name": name, "scale": {**SMALL, **scale}})
        self._write()

    def rescale(self, name: str, **scale: Any) -> None:
        """Change the scale of a graph."""
        for each in self._graphs:
            if each["name"] == name:
                each["scale"] = {**SMALL, **scale}
        self._write()

    def add_demo(self, **scale: Any) -> None:
        """Add the example language model."""
        path = str(ROOT / "examples/models/demo")
        self._graphs.append({"name": "demo", "base_path": path, "scale": {**SMALL, **scale}})
        self._write()

    def add_text(self, name: str, text: str, **scale: Any) -> None:
        """Add a graph by its text."""
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / "graph.pbtxt").write_text(text)
        self._graphs.append({"name": name, "scale": {**SMALL, **scale}})
        self._write()

    def remove(self, name: str) -> None:
        """Take a graph out of config.json."""
        self._graphs = [each for each in self._graphs if each["name"] != name]
        self._write()

    def add_doubling(self, name: str, **scale: Any) -> None:
        """Add a plain model that doubles the matrix `x`."""
        save_doubling(self.folder / name / "1" / "model.xml")
        self._models.append({"config": {"name": name, "scale": {**SMALL, **scale}}})
        self._write()

    def write_graph(self, name: str, calculator: str) -> None:
        """Write the graph of a name; a running server loads it again."""
        (self.folder / name).mkdir(exist_ok=True)
        fresh = self.folder / name / "graph.new"
        fresh.write_text(looped(calculator))
        fresh.rename(self.folder / name / "graph.pbtxt")

    def _write(self) -> None:
        config = {"model_config_list": self._models, "mediapipe_config_list": self._graphs}
        (self.folder / "config.json").write_text(json.dumps(config))


def save_doubling(file: Path) -> None:
    """Save a model that doubles the matrix `x` as `y`."""
    from openvino import Model, opset13, save_model

    x = opset13.parameter([-1, -1], np.float32, name="x")
    y = opset13.multiply(x, opset13.constant(np.float32(2)))
    x.output(0).set_names({"x"})
    y.output(0).set_names({"y"})
    file.parent.mkdir(parents=True)
    save_model(Model([y], [x], "doubling"), file)


def grpc_address(serving: Serving) -> str:
    """Return the address of the gRPC front."""
    found = re.search(r"serves grpc://(\S+)", "".join(serving.log))
    assert found is not None
    return found[1]


def replicas_of(name: str, below: int) -> list[int]:
    """Return the processes of a graph's replicas in the cluster that process ``below`` started."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_text()
        except OSError:
            continue
        title = re.match(rf"ray::ServeReplica:graphrt-{name}-", words)
        if title is not None and below in _ancestors(int(entry.name)):
            found.append(int(entry.name))
    return sorted(found)


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        try:
            pid = int(re.findall(r"\) \S (\d+)", Path(f"/proc/{pid}/stat").read_text())[0])
        except OSError:
            return
        yield pid


def in_threads(count: int, work: Callable[[], Any]) -> list[Any]:
    """Call a function in threads of its own; the results, exceptions among them."""
    results: list[Any] = [None] * count

    def call(place: int) -> None:
        try:
            results[place] = work()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=call, args=(place,)) for place in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return results


def ask(serving: Serving, model: str, **members: Any) -> Any:
    """Ask a graph of one node; return the status and the answer."""
    with serving.request("POST", CHAT, {"model": model, "do": "where", **members}) as response:
        return response.status, json.loads(response.read())


def next_event(response: HTTPResponse) -> str:
    """Return the data of the next event of a stream; "" at its end."""
    while line := response.readline().decode():
        if line.startswith("data: "):
            return line.removeprefix("data: ").strip()
    return ""


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(is_so: Callable[[], Any]) -> Any:
    """Wait for a value that is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := is_so():
            return found
        time.sleep(0.1)
    raise AssertionError("it never came true")


def answers_kept(output: Path) -> int:
    """Return the number of answers in the state of a run of `graphrt batch`."""
    state = output.with_name(f"{output.name}.state") / "store.sqlite"
    if not state.exists():
        return 0
    with closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as store:
        try:
            return int(store.execute("select count(*) from answers").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return 0

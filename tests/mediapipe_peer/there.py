"""The MediaPipe side: run by the other environment's Python, as a script.

Reads one case per line from standard input and answers with one line each. Every case runs in a
forked child, because MediaPipe ends the process when one of its CHECKs fails.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

os.environ.setdefault("GLOG_minloglevel", "3")

SECONDS_PER_CASE = 4.0
LOWEST = -(2**63)
HIGHEST = 2**63 - 1
NAMES = {
    LOWEST: "UNSET",
    LOWEST + 1: "UNSTARTED",
    LOWEST + 2: "PRESTREAM",
    LOWEST + 3: "MIN",
    HIGHEST - 3: "MAX",
    HIGHEST - 2: "POSTSTREAM",
    HIGHEST - 1: "ONE_OVER_POSTSTREAM",
    HIGHEST: "DONE",
}


class MediaPipe:
    """The needed parts of MediaPipe's Python binding."""

    def __init__(self) -> None:
        bindings = "mediapipe.python._framework_bindings"
        self.graph = importlib.import_module(f"{bindings}.calculator_graph")
        self.packet = importlib.import_module(f"{bindings}.packet")
        self.timestamp = importlib.import_module(f"{bindings}.timestamp").Timestamp
        self.creator = importlib.import_module("mediapipe.python.packet_creator")
        self.getter = importlib.import_module("mediapipe.python.packet_getter")
        self.config = importlib.import_module("mediapipe.framework.calculator_pb2")
        importlib.import_module("mediapipe")

    def time(self, value: int | str) -> Any:
        return getattr(self.timestamp, value) if isinstance(value, str) else self.timestamp(value)

    def make(self, kind: str, value: Any) -> Any:
        create = {
            "int": self.creator.create_int,
            "uint64": self.creator.create_uint64,
            "float": self.creator.create_float,
            "bool": self.creator.create_bool,
            "string": self.creator.create_string,
            "vector<int>": self.creator.create_int_vector,
            "vector<float>": self.creator.create_float_vector,
            "vector<bool>": self.creator.create_bool_vector,
            "vector<string>": self.creator.create_string_vector,
        }[kind]
        return create(value)

    def value(self, packet: Any) -> Any:
        get = self.getter
        for reader in (
            get.get_bool,
            get.get_int,
            get.get_uint,
            get.get_float,
            get.get_str,
            get.get_bool_list,
            get.get_int_list,
            get.get_float_list,
            get.get_str_list,
        ):
            try:
                return [reader(packet)]
            except Exception:
                continue
        return ["<opaque>"]


class CaseRun:
    """A run of one case on MediaPipe."""

    def __init__(self, mediapipe: MediaPipe, case: dict[str, Any]) -> None:
        self.mediapipe = mediapipe
        self.case = case
        self.answer: dict[str, Any] = {"refused": None, "runs": []}

    def run(self) -> dict[str, Any]:
        modes = self.mediapipe.graph.GraphInputStreamAddMode
        try:
            graph = self.mediapipe.graph.CalculatorGraph(graph_config=self.case["text"])
        except (ValueError, RuntimeError) as error:
            self.answer["refused"] = str(error)
            return self.answer
        config = self.mediapipe.config.CalculatorGraphConfig.FromString(graph.binary_config)
        self.answer["nodes"] = [
            [
                node.name,
                node.calculator,
                *map(
                    list,
                    (
                        node.input_stream,
                        node.output_stream,
                        node.input_side_packet,
                        node.output_side_packet,
                    ),
                ),
            ]
            for node in config.node
        ]
        graph.graph_input_stream_add_mode = getattr(modes, self.case["add_mode"])
        observed: dict[str, list[Any]] = {}
        for name in self.case["observed"]:
            observed[name] = []

            def observe(_stream: str, packet: Any, seen: list[Any] = observed[name]) -> None:
                time = NAMES.get(packet.timestamp.value, packet.timestamp.value)
                seen.append([time, None if packet.is_empty() else self.mediapipe.value(packet)])

            try:
                graph.observe_output_stream(name, observe, self.case["observe_bounds"])
            except RuntimeError:
                observed[name].append("no such stream")
        for _ in range(self.case["reruns"] + 1):
            self.answer["runs"].append(self._one_run(graph, observed))
        return self.answer

    def _one_run(self, graph: Any, observed: dict[str, list[Any]]) -> dict[str, Any]:
        errors: list[str | None] = []
        for step in self.case["steps"]:
            try:
                self._step(graph, step)
                errors.append(None)
            except (ValueError, RuntimeError) as error:
                errors.append(str(error))
                if step[0] == "start":
                    break
        sides = {}
        for name in self.case["produced_side_packets"]:
            try:
                sides[name] = self.mediapipe.value(graph.get_output_side_packet(name))
            except (ValueError, RuntimeError):
                sides[name] = None
        seen = {name: list(entries) for name, entries in observed.items()}
        for entries in observed.values():
            entries.clear()
        return {"errors": errors, "observed": seen, "sides": sides}

    def _step(self, graph: Any, step: list[Any]) -> None:
        make, time = self.mediapipe.make, self.mediapipe.time
        name, *rest = step
        if name == "start":
            graph.start_run({key: make(*value) for key, value in self.case["side_packets"].items()})
        elif name == "add":
            stream, kind, value, at = rest
            graph.add_packet_to_input_stream(stream, make(kind, value), time(at))
        elif name == "bound":
            stream, at = rest
            graph.add_packet_to_input_stream(stream, self.mediapipe.packet.Packet().at(time(at)))
        elif name == "close":
            graph.close_input_stream(rest[0])
        elif name == "idle":
            graph.wait_until_idle()
        elif name == "close sources":
            graph.close_all_packet_sources()
        elif name == "done":
            graph.wait_until_done()
        else:
            raise KeyError(name)


def in_a_child(mediapipe: MediaPipe, case: dict[str, Any]) -> dict[str, Any]:
    """Run a case in a forked child; ``{"died": reason}`` when it does not survive."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            answer = json.dumps(CaseRun(mediapipe, case).run())
        except BaseException as error:
            answer = json.dumps({"died": repr(error)})
        data = answer.encode()
        while data:
            data = data[os.write(writing, data) :]
        os._exit(0)
    os.close(writing)
    received = b""
    ends = time.monotonic() + SECONDS_PER_CASE
    while True:
        left = ends - time.monotonic()
        if left <= 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reading)
            return {"died": "timeout"}
        if select.select([reading], [], [], left)[0]:
            data = os.read(reading, 1 << 16)
            if not data:
                break
            received += data
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    if not received:
        return {"died": f"signal {status & 127}"}
    answer_read: dict[str, Any] = json.loads(received)
    return answer_read


def main() -> None:
    mediapipe = MediaPipe()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(in_a_child(mediapipe, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

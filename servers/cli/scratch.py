"""The child process that checks or runs graphs which are not served; see `servers.page.scratch`.

``python -m servers.cli.scratch DESCRIPTOR PARENT``: it belongs to a server, not to people.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Final

import msgspec

import calculators
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from graph_runtime import REGISTRY, GraphError, Packet, Registry, Tracer, ValidatedGraph
from graph_runtime.errors import did_you_mean, reason_of
from graph_runtime.language.names import canonical_names
from servers.cli.feed import FeedError, FeedRunner, observed_streams, read_feed
from servers.cli.graph_check import GraphCheck
from servers.cli.json_value import decode_value, encode_time, encode_value
from servers.contract.finding import Finding
from servers.page.live_graph import ShownGraph, drawn
from servers.page.scratch_messages import (
    Begin,
    Check,
    CheckedDraft,
    DraftChange,
    DraftCheck,
    DraftFinding,
    DraftPlace,
    DraftResult,
    DraftRun,
    Message,
    ScratchRun,
    SentPacket,
)
from servers.serving.graph_source import answer_problems
from servers.serving.python_path import registry_with

#: The name of the text in messages. There is no such file.
_NAME: Final = "graph.pbtxt"
MOST_PACKETS: Final = 1000
#: Characters of one value, and of all together.
VALUE_CHARS: Final = 64 * 1024
ALL_CHARS: Final = 4 << 20
_TRACED_CALLS: Final = 5000
#: For the edits of one check; the others are asked for again.
EDITS_SECONDS: Final = 0.4
#: The place of a node among the sorted ones, in errors.
_NUMBER: Final = re.compile(r" with sorted index \d+")


def main() -> int:
    """Answer one message after the other until the parent is gone; return the exit code."""
    descriptor, parent = map(int, sys.argv[1:3])
    connection = ParentConnection(descriptor)
    os.environ.pop("API_KEY", None)  # no graph needs it
    try:
        die_with_parent(parent)
        # Processes that calculators start belong to this one's group, and end with it.
        os.setpgid(0, 0)
        _serve(connection)
    except ParentGone:
        pass
    return 0


def _serve(connection: ParentConnection) -> None:
    registry = Registry(REGISTRY)
    seconds = 0.0
    while True:
        for frame in connection.receive(wait=True):
            message: Message = msgspec.json.decode(frame, type=Message)
            match message:
                case Begin():
                    registry = _begin(message)
                    seconds = message.run_seconds
                    connection.send(b"{}")
                case Check(body):
                    answer = (
                        _tried(body, registry) if body.edits else check_text(body.text, registry)
                    )
                    connection.send(msgspec.json.encode(answer))
                case ScratchRun(body):
                    connection.send(msgspec.json.encode(run_text(body, registry, seconds)))


def _begin(message: Begin) -> Registry:
    # Without files: paths in options are relative to this directory.
    os.chdir(message.folder)
    calculators.register_all(REGISTRY)
    for name in message.modules:
        try:
            importlib.import_module(name)
        except Exception:  # the server has imported it, or said why not
            traceback.print_exc()
    registry = registry_with([Path(path) for path in message.paths], REGISTRY).registry
    # After the imports, which take what they take. The limits are no sandbox: calculators have the
    # rights of the server's user (decision 0060).
    _limit(message.memory, message.cpu_seconds, message.file_bytes)
    return Registry(registry)


def _limit(memory: int, cpu_seconds: int, file_bytes: int) -> None:
    """Limit what this process may take from now on; 0: no limit."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    # A draft that crashes on purpose must not fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if cpu_seconds:
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        most = round(used) + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    if memory and (size := _virtual_size()):
        resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))


def _virtual_size() -> int:
    """Return the bytes of addresses in use; 0 if the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


# Checks -------------------------------------------------------------------------------------------


def check_text(text: str, registry: Registry, path: str = _NAME) -> CheckedDraft:
    """Return the findings about a graph's text, with its description and layout if it parses.

    ``path``: of the file, which need not have this text; subgraphs beside it are found.
    """
    check = _checked(text, registry, path)
    answer = _without_layout(check)
    if check.source is None:
        return answer
    source = check.source
    problems = tuple(each.message for each in answer.findings if each.severity == "error")
    places = source.node_places() or []
    shown = ShownGraph(
        "", Path(path).name, text, source.config, places, source.registry, check.plan, problems
    )
    try:
        description, answer.layout = drawn(shown, ())
        answer.description = description.to_json()
    except GraphError:
        return answer  # the findings say why
    names = canonical_names(source.config.node)
    answer.places = {
        name: DraftPlace(line, column) for name, (line, column) in zip(names, places, strict=False)
    }
    return answer


def _tried(body: DraftCheck, registry: Registry) -> CheckedDraft:
    """Check a text, and return the first error that each edit would add to it.

    Edits for which there is no time get no answer.
    """
    until = time.monotonic() + EDITS_SECONDS
    before = _checked(body.text, registry, _NAME)
    answer = _without_layout(before)
    known = _errors(before)
    for edit in body.edits:
        after = GraphCheck(_NAME, registry, _edited(body.text, edit))
        # Some errors can be seen only in a graph without others: this edit is not their cause.
        is_whole = before.plan is None and after.plan is not None
        new = [] if is_whole else [each for each in _errors(after) if each not in known]
        answer.refusals.append(new[0] if new else "")
        if time.monotonic() > until:
            break
    return answer


def _errors(check: GraphCheck) -> list[str]:
    """Return the errors in words that do not depend on the order of the nodes."""
    errors = (each.message for each in check.findings if each.severity == "error")
    return [_NUMBER.sub("", each) for each in errors]


def _edited(text: str, edit: list[DraftChange]) -> str:
    for change in sorted(edit, key=lambda each: each.start, reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    return text


def _checked(text: str, registry: Registry, path: str) -> GraphCheck:
    check = GraphCheck(path, registry, text)
    if check.plan is not None:
        for problem in answer_problems(check.plan):
            check.add("error", problem)
    return check


def _without_layout(check: GraphCheck) -> CheckedDraft:
    in_order = sorted(
        check.placed_findings(), key=lambda each: (each.line or sys.maxsize, each.column or 0)
    )
    findings = [_finding(each) for each in in_order]
    is_valid = all(each.severity != "error" for each in findings)
    return CheckedDraft(is_valid, check.content, findings)


def _finding(finding: Finding) -> DraftFinding:
    return DraftFinding(
        finding.severity,
        finding.message,
        finding.line,
        finding.column,
        finding.end_line,
        finding.end_column,
        finding.field,
        finding.node,
        finding.hint,
    )


# Runs ---------------------------------------------------------------------------------------------


def run_text(body: DraftRun, registry: Registry, seconds: float) -> DraftResult:
    """Run a graph with these packets, ``seconds`` at most; return what came out."""
    check = _checked(body.text, registry, _NAME)
    checked = _without_layout(check)
    if check.plan is None or not checked.valid:
        return DraftResult("invalid", "the graph has errors", findings=checked.findings)
    result = DraftResult("done", findings=checked.findings)
    try:
        streams = _streams(body.observe, check.plan)
        side_packets = {name: decode_value(value) for name, value in body.side_packets.items()}
    except (ValueError, RecursionError) as error:
        result.state, result.error = "invalid", str(error)
        return result
    assert check.source is not None
    tracer = Tracer(_TRACED_CALLS)
    taken = _Taken(result)
    runner = FeedRunner(check.plan, check.source.registry, streams, taken.take, tracer=tracer)
    # From another thread: the graph runs in this one.
    was_late = threading.Event()

    def stop() -> None:
        was_late.set()
        runner.graph.cancel()

    # The graph cancels itself shortly before the process would be killed, so that the packets so
    # far are shown (decision 0060).
    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        _drive(runner, side_packets, body.packets, result)
    finally:
        timer.cancel()
    if was_late.is_set():
        result.state, result.hint = "stopped", ""
        result.error = f"the run took longer than {seconds:g} s and was stopped"
    result.trace = dict(tracer.to_json())
    return result


def _drive(
    runner: FeedRunner,
    side_packets: dict[str, Any],
    packets: list[dict[str, Any]],
    result: DraftResult,
) -> None:
    lines = (json.dumps(each).encode() for each in packets)
    try:
        runner.start(side_packets)
        for line in read_feed(lines, "packet"):
            runner.apply(line)
        runner.finish()
        result.side_packets = {name: _shown(value) for name, value in runner.output_side_packets()}
    except FeedError as error:
        result.state, result.error, result.hint = "invalid", str(error), error.hint or ""
    except GraphError as error:
        blamed = runner.blamed
        where = f"{blamed.place}: {blamed.operation}: " if blamed is not None else ""
        result.state, result.error = "failed", where + str(error)
        if "side packet" in result.error:
            result.hint = (
                "models and other resources are made for served graphs only: a graph is tried "
                "with the side packets of its form"
            )
    except Exception as error:
        result.state, result.error = "failed", reason_of(error)
    finally:
        runner.abandon()


def _streams(asked: list[str], plan: ValidatedGraph) -> list[str]:
    """Return the streams to observe (`observed_streams`)."""
    for name in asked:
        if name not in plan.producers:
            raise ValueError(
                f'the graph has no stream "{name[:100]}".{did_you_mean(name, plan.producers)}'
            )
    return observed_streams(asked, plan)


class _Taken:
    """Packets of observed streams, up to a number and a size."""

    def __init__(self, result: DraftResult) -> None:
        self._result = result
        self._room = ALL_CHARS

    def take(self, stream: str, packet: Packet) -> None:
        result = self._result
        if len(result.packets) >= MOST_PACKETS or self._room <= 0:
            result.cut += 1
            return
        value = None if packet.is_empty() else _shown(packet.value)
        self._room -= len(json.dumps(value))
        result.packets.append(SentPacket(stream, encode_time(packet.time), value))


def _shown(value: Any) -> Any:
    """Return a value for JSON; a large one by its type and size only."""
    size = getattr(value, "nbytes", None)
    if isinstance(value, bytes | bytearray | str):
        size = len(value)
    if not isinstance(size, int) or size <= VALUE_CHARS:
        shown = encode_value(value)
        size = len(json.dumps(shown))
        if size <= VALUE_CHARS:
            return shown
    kind = type(value)
    found: dict[str, Any] = {"type": f"{kind.__module__}.{kind.__qualname__}", "bytes": size}
    if hasattr(value, "shape"):
        found["shape"] = list(value.shape)
    return {**found, "repr": repr(value)[:1000]}


if __name__ == "__main__":
    sys.exit(main())

"""Runs of a graph for one request."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import InferRequest, InferResponse
from calculators.tensors.inference.place import quoted
from graph_runtime import CalculatorGraph, Code, Packet
from servers.serving.graph_inference.graph_interface import GraphInterface
from servers.serving.graph_inference.run_end import end_run
from servers.serving.graph_inference.timestamps import timestamp_in

_log: Final = logging.getLogger(__name__)


async def infer_once(
    graph: CalculatorGraph,
    interface: GraphInterface,
    request: InferRequest,
    side_packets: Mapping[str, Packet],
) -> InferResponse:
    """Run a new ``graph`` and return the answer, with one packet of each requested output.

    Each input gets one packet, at 0 or at the timestamp of the request. Cancelling this coroutine
    cancels the run.

    Raises:
        RequestError: the request does not fit; or (INTERNAL) an output has no packet, or no tensor.
        RunError: the run failed.
    """
    outputs = interface.wanted_outputs(request)
    packets = await interface.packets_of(request, is_partial=False)
    time = timestamp_in(request.parameters) or 0
    found: dict[str, list[Any]] = {}
    for output in outputs:
        values = found[output.name] = []
        graph.observe_output_stream(output.name, partial(_take, values))
    try:
        await graph.run_once_async(packets, side_packets, at=time)
    except BaseException:
        await end_run(graph)
        raise
    for name, values in found.items():
        if not values:
            raise RequestError(
                f"output {quoted(name)}: the graph gave nothing for this request: "
                f"{graph.silence(name)}",
                code=Code.INTERNAL,
            )
        if len(values) > 1:
            _log.warning(
                "the graph of model %r gave %d packets on %r for one request; the first is sent",
                request.model,
                len(values),
                name,
            )
    return interface.response(request.id, ((each, found[each.name][0]) for each in outputs), {})


def _take(values: list[Any], stream: str, packet: Packet) -> None:
    values.append(packet.payload)

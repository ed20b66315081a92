"""Options, devices and resources of nodes with a model, and `PayloadCalculator`.

`PayloadCalculator` answers HTTP requests under either pair of tags.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from calculators.kit.requests.http_payload import HttpPayload
from calculators.kit.requests.request_record import set_current_record
from graph_runtime import (
    Calculator,
    CalculatorContext,
    Code,
    GraphError,
    In,
    NodePlan,
    Out,
    ResourceError,
    SideIn,
    find_options,
    has_options,
)
from graph_runtime.options.options import OptionsType

T = TypeVar("T")


def node_resource(cc: CalculatorContext, resources: SideIn[dict[str, Any]], kind: str) -> Any:
    """Return the resource of the context's node.

    Args:
        resources: the side packet with the resources of all nodes, by node name.
        kind: the kind of node, for the error, whose text is OpenVINO Model Server's.

    Raises:
        GraphError: FAILED_PRECONDITION: there is none of this name.
    """
    name = cc.node_name
    found = cc.side(resources).get(name)
    if found is None:
        raise GraphError(
            f"Could not find initialized {kind} node named: {name}",
            code=Code.FAILED_PRECONDITION,
        )
    return found


@contextmanager
def naming_node(node: NodePlan) -> Iterator[None]:
    """Put the name of a node before the text of each `ResourceError` raised inside."""
    try:
        yield
    except ResourceError as error:
        raise ResourceError(f'node "{node.config.name}": {error}', code=error.code) from None


def find_model_options(node: NodePlan, options_type: type[T]) -> T:
    """Return the options of a node, a message of a type that has ``models_path``.

    Raises:
        ResourceError: the node has none; the text says how to write them.
    """
    if not has_options(node.config, options_type):
        name = OptionsType.of(options_type).full_name
        raise ResourceError(
            "it has no options; it needs at least node_options: { "
            f'[type.googleapis.com/{name}]: {{ models_path: "./" }} }}'
        )
    return find_options(node.config, options_type)


class PayloadCalculator(Calculator):
    """Answers each payload on the stream whose tag belongs to its own.

    OpenVINO Model Server's nodes have tags with or without ``HTTP_``; all take both here.
    """

    request = In[HttpPayload]("REQUEST_PAYLOAD", optional=True)
    http_request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD", optional=True)
    response = Out[Any]("RESPONSE_PAYLOAD", optional=True)
    http_response = Out[Any]("HTTP_RESPONSE_PAYLOAD", optional=True)

    async def process(self, cc: CalculatorContext) -> None:
        for request, response in (
            (self.request, self.response),
            (self.http_request, self.http_response),
        ):
            if not cc.is_empty(request):
                # No name for the payload here: a body may be large, and `answer` may let go of it.
                await self.answer(cc, _current(cc.take(request)), response)

    @abstractmethod
    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        """Emit the answer of ``payload`` on ``response``.

        Raises:
            RequestError: the request cannot be answered.
        """


def _current(payload: HttpPayload) -> HttpPayload:
    """Make the payload's record the task's current one.

    Child processes take turns by client, and the task may have another client's record.
    """
    set_current_record(payload.record)
    return payload

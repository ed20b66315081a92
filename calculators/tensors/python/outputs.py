"""`OutputForm`: conversion of a handler's results to packets of the node's outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.tensors.python.handler_error import HandlerError
from calculators.tensors.python.instance import Outputs
from calculators.tensors.python.pyovms import Tensor
from graph_runtime.errors import did_you_mean


class OutputForm:
    """The outputs of a node, and the forms that a handler's result may have.

    A list of `Tensor` goes to the streams that the tensors are named after; some may be left out.
    A node with an ``HTTP_RESPONSE_PAYLOAD`` output may give the answer itself instead: ``str``,
    ``bytes`` or an `HttpAnswer`, sent unchanged, or an object that becomes JSON: the body when it
    is returned, an event ``data: ...`` of the stream when it is yielded.
    """

    def __init__(self, node_name: str, streams: Sequence[str], response: str | None) -> None:
        """``streams``: names of the outputs; ``response``: the output that takes an HTTP answer."""
        self._node_name = node_name
        self._streams = tuple(streams)
        self._response = response

    def returned(self, value: object) -> Outputs:
        """Convert the return value of ``execute`` to packets.

        Raises:
            HandlerError: the value is not an output.
        """
        return self._packets(value, is_event=False)

    def yielded(self, value: object) -> Outputs:
        """Convert a value that the generator yielded to packets.

        Raises:
            HandlerError: the value is not an output.
        """
        return self._packets(value, is_event=True)

    def _packets(self, value: object, *, is_event: bool) -> Outputs:
        if isinstance(value, list | tuple) and (value or self._response is None):
            odd = next((item for item in value if not isinstance(item, Tensor)), None)
            if odd is None:
                return self._by_name(value)
            if self._response is None:
                self._refuse(
                    f"a list that holds {type(odd).__name__}; it must hold pyovms.Tensor only"
                )
        if self._response is None or value is None or isinstance(value, Tensor):
            self._refuse(f"{type(value).__name__}; a list of pyovms.Tensor is needed")
        return ((self._response, self._answer(value, is_event=is_event)),)

    def _by_name(self, tensors: Sequence[Tensor]) -> Outputs:
        found: dict[str, Tensor] = {}
        for tensor in tensors:
            if tensor.name not in self._streams:
                known = ", ".join(f'"{name}"' for name in self._streams)
                self._refuse(
                    f'a tensor named "{tensor.name}"; the outputs of the node are {known}'
                    f"{did_you_mean(tensor.name, self._streams)}"
                )
            if tensor.name in found:
                self._refuse(f'two tensors named "{tensor.name}" at once')
            found[tensor.name] = tensor
        return tuple(found.items())

    def _answer(self, value: object, *, is_event: bool) -> ResponsePacket:
        if isinstance(value, str | bytes | HttpAnswer):
            return value
        plain: object = dict(value) if isinstance(value, Mapping) else value
        try:
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            self._refuse(f"{type(value).__name__}, which cannot become JSON: {error}")
        return f"data: {text}\n\n" if is_event else text

    def _refuse(self, what: str) -> NoReturn:
        raise HandlerError(f'the handler of node "{self._node_name}" failed: it gave {what}')

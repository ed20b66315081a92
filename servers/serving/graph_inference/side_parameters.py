"""Request parameters that become input side packets of a run."""

from __future__ import annotations

from collections.abc import Mapping

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.parameter import Parameter, Parameters
from calculators.tensors.inference.place import quoted
from graph_runtime import Packet
from graph_runtime.authoring.packet_type import PacketType, value_type_name
from servers.serving.graph_inference.timestamps import TIMESTAMP
from servers.serving.side_needs import SideNeeds


class SideParameters(SideNeeds):
    """The side packets of a graph that come from the parameters of a request.

    A parameter becomes the side packet of its name, of type string, int64, bool or double; a whole
    number may become a double. Unknown parameters have no effect, as in OpenVINO Model Server,
    because clients send some of their own.
    """

    def packets_of(self, parameters: Parameters) -> Mapping[str, Packet]:
        """Return the side packets that a request gives.

        Raises:
            RequestError: a parameter is missing, has another type, or is the server's own.
        """
        packets: dict[str, Packet] = {}
        for name, value in parameters.items():
            if name in self.supplied:
                raise RequestError(
                    f"the parameter {quoted(name)} is not taken: the server supplies the side "
                    f"packet of this reserved name",
                    param=name,
                )
            if name in self.types and name != TIMESTAMP:
                packets[name] = Packet(_value(name, value, self.types[name]))
        for name in self.needed:
            if name not in packets:
                others = [quoted(each) for each in parameters if each not in self.types]
                given = f"; it does not know {', '.join(others[:4])}" if others else ""
                raise RequestError(
                    f"the parameter {quoted(name)} is missing: the graph needs it as side packet "
                    f"of the type {self.types[name].name}{given}",
                    param=name,
                )
        return packets


def _value(name: str, value: Parameter, kind: PacketType) -> Parameter:
    if kind.accepts(value):
        return value
    if type(value) is int and kind.accepts(0.0):
        return float(value)
    raise RequestError(
        f"the parameter {quoted(name)} is {value_type_name(value)}; the graph needs {kind.name}",
        param=name,
    )

"""GateCalculator: packets go through, or not."""

from __future__ import annotations

from calculators.core.headers import copy_headers
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

# GateCalculatorOptions.GateState
_UNINITIALIZED, _ALLOW, _DISALLOW = 1, 2, 3


class GateCalculator(Calculator):
    """Passes the packets of its streams while a decision allows it.

    Inputs:
        #i: any number of data streams of any type.
        ALLOW or DISALLOW (bool, optional): the decision for the same timestamp. Without one the
            gate is shut, or open with ``empty_packets_as_allow``.
    Outputs:
        #i: one per data stream.
        STATE_CHANGE (bool, optional): the new state whenever it changes. The first decision counts
            as a change only against an ``initial_gate_state``.
    Input side packets: ALLOW or DISALLOW (bool, optional), in place of the stream. A gate that is
        shut for good closes its outputs at the first call.
    Options (mediapipe.GateCalculatorOptions):
        allow: the decision when neither stream nor side packet is connected.
        empty_packets_as_allow: see above.
        initial_gate_state: GATE_UNINITIALIZED, GATE_ALLOW or GATE_DISALLOW.

    ::

        node {
          calculator: "GateCalculator"
          input_stream: "image"
          input_stream: "ALLOW:is_wanted"
          output_stream: "wanted_image"
          output_stream: "STATE_CHANGE:wanted_changed"
        }

    Source: MediaPipe ``calculators/core/gate_calculator.cc``.
    """

    options = Options("mediapipe.GateCalculatorOptions")

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        controls = [
            f"{kind} {tag}"
            for kind, ports in (("input stream", inputs), ("side packet", sides))
            for tag in ("ALLOW", "DISALLOW")
            if ports.has_tag(tag)
        ]
        contract.require(
            len(controls) <= 1,
            "at most one of ALLOW and DISALLOW can be given, as input stream or side packet; "
            f"there are: {', '.join(controls)}",
        )
        for tag in ("ALLOW", "DISALLOW"):
            if inputs.has_tag(tag):
                inputs[tag].set(bool)
            sides[tag].set(bool).optional()
        count = inputs.num_entries("")
        contract.require(
            outputs.num_entries("") == count,
            "Number of data output streams must match with data input streams: there are "
            f"{count} inputs and {outputs.num_entries('')} outputs.",
        )
        for index in range(count):
            outputs[index].set_same_as(inputs[index].set_any())
        outputs["STATE_CHANGE"].set(bool).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._count = cc.inputs.num_entries("")
        self._state = self.options.initial_gate_state
        #: The decision when no stream makes it.
        self._fixed: bool | None = None
        sides = cc.input_side_packets
        self._is_by_side_packet = sides.has_tag("ALLOW") or sides.has_tag("DISALLOW")
        if sides.has_tag("ALLOW"):
            self._fixed = sides["ALLOW"].value
        elif sides.has_tag("DISALLOW"):
            self._fixed = not sides["DISALLOW"].value
        elif not cc.inputs.has_tag("ALLOW") and not cc.inputs.has_tag("DISALLOW"):
            self._fixed = self.options.allow
        copy_headers(cc)

    def process(self, cc: CalculatorContext) -> None:
        allow = self._fixed if self._fixed is not None else self._decision(cc)
        state = _ALLOW if allow else _DISALLOW
        if state != self._state:
            if self._state != _UNINITIALIZED and cc.outputs.has_tag("STATE_CHANGE"):
                cc.outputs["STATE_CHANGE"].add(allow, cc.input_timestamp)
            self._state = state
        if allow:
            for index in range(self._count):
                packet = cc.inputs[index].packet
                if not packet.is_empty():
                    cc.outputs[index].add_packet(packet)
        elif self._is_by_side_packet:
            # Nothing will ever come: let the nodes downstream close at once.
            for index in range(self._count):
                cc.outputs[index].close()

    def _decision(self, cc: CalculatorContext) -> bool:
        is_allow = cc.inputs.has_tag("ALLOW")
        control = cc.inputs["ALLOW" if is_allow else "DISALLOW"]
        if control.is_empty():
            return bool(self.options.empty_packets_as_allow)
        return bool(control.value) is is_allow

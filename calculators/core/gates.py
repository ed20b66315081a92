"""Gates and conditions: packets that pass or do not, parts of a graph that are switched off.

A condition is a stream or side packet of boolean values. `PacketPresenceCalculator` and
`NonZeroCalculator` make conditions of packets; `GateCalculator` and `BypassCalculator` obey them.
"""

from __future__ import annotations

from typing import Any

from calculators.core.headers import copy_headers
from calculators.core.side_packets import require_one_place
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    In,
    Options,
    Out,
    SideIn,
    Stop,
    Timestamp,
    parse_tag_index,
)
from graph_runtime import timestamp as ts
from protos import messages

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

    options = Options(messages.GateCalculatorOptions)

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


class BypassCalculator(Calculator):
    """Drops its inputs and sends only timestamp bounds, except on the streams that it passes.

    Made to be a ``contained_node`` of SwitchContainer, with the ports of the other nodes there.

    Inputs, outputs: any, with any tags and types.
    Input side packets: any.
    Options (mediapipe.BypassCalculatorOptions):
        pass_input_stream, pass_output_stream: "TAG" or "TAG:index" of streams to pass, in pairs.

    ::

        node {
          calculator: "BypassCalculator"
          input_stream: "IMAGE:image"
          input_stream: "FACES:faces"
          output_stream: "FACES:faces_out"
          output_stream: "GAZE:gaze"
          node_options {
            [type.googleapis.com/mediapipe.BypassCalculatorOptions] {
              pass_input_stream: "FACES"
              pass_output_stream: "FACES"
            }
          }
        }

    Source: MediaPipe ``calculators/core/bypass_calculator.cc``.
    """

    options = Options(messages.BypassCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        options = contract.options(messages.BypassCalculatorOptions)
        contract.require(
            len(options.pass_input_stream) == len(options.pass_output_stream),
            f"there are {len(options.pass_input_stream)} pass_input_stream and "
            f"{len(options.pass_output_stream)} pass_output_stream; they must be pairs",
        )
        for types in (contract.inputs, contract.outputs, contract.input_side_packets):
            for key in types:
                types[key].set_any()
        for source, target in _pairs(options):
            contract.outputs[target].set_same_as(contract.inputs[source].set_any())
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._pairs = _pairs(self.options)
        passed = {target for _, target in self._pairs}
        self._settled = [place for place in cc.outputs.places if place not in passed]

    def process(self, cc: CalculatorContext) -> None:
        for source, target in self._pairs:
            packet = cc.inputs[source].packet
            if packet.time == cc.time:
                cc.outputs[target].add_packet(packet)
        bound = Timestamp.of(ts.next_allowed_in_stream(cc.time))
        for place in self._settled:
            output = cc.outputs[place]
            output.set_next_timestamp_bound(max(output.next_timestamp_bound, bound))

    def close(self, cc: CalculatorContext) -> None:
        for output in cc.output_list:
            output.close()


def _pairs(
    options: messages.BypassCalculatorOptions,
) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """Return the (tag, index) of each input to pass, and of its output."""
    return [
        (parse_tag_index(source), parse_tag_index(target))
        for source, target in zip(
            options.pass_input_stream, options.pass_output_stream, strict=True
        )
    ]


class PacketPresenceCalculator(Calculator):
    """Reports for each timestamp whether its input has a packet.

    With GateCalculator it lets a graph act on missing packets.

    Inputs: PACKET: of any type.
    Outputs: PRESENCE (bool): true for a packet; false where the input is settled without one (once
        for a bound that passes several timestamps).
    Options: none.

    ::

        node {
          calculator: "PacketPresenceCalculator"
          input_stream: "PACKET:detections"
          output_stream: "PRESENCE:has_detections"
        }

    Source: MediaPipe ``calculators/core/packet_presence_calculator.cc``.
    """

    packet = In[Any]("PACKET")
    presence = Out[bool]("PRESENCE")

    process_timestamp_bounds = True

    def process(self, cc: CalculatorContext) -> None:
        cc.output_list[0].add(not cc.input_list[0].is_empty(), cc.input_timestamp)


class NonZeroCalculator(Calculator):
    """Reports for each number whether it is zero.

    Inputs: INPUT (int).
    Outputs, at least one:
        OUTPUT (int): 0 for 0, else 1.
        OUTPUT_BOOL (bool): false for 0, else true.
    Input side packets: INPUT (int), in place of the stream: answered once, at timestamp 0.
    Options: none.

    ::

        node {
          calculator: "NonZeroCalculator"
          input_stream: "INPUT:face_count"
          output_stream: "OUTPUT_BOOL:has_faces"
        }

    Source: MediaPipe ``calculators/core/non_zero_calculator.cc``.
    """

    input = In[int]("INPUT", optional=True)
    input_side = SideIn[int]("INPUT", optional=True)
    output = Out[int]("OUTPUT", optional=True)
    output_bool = Out[bool]("OUTPUT_BOOL", optional=True)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        require_one_place(contract, "INPUT")
        contract.require(
            len(contract.outputs) > 0,
            "At least one output stream is expected: OUTPUT or OUTPUT_BOOL.",
        )

    def process(self, cc: CalculatorContext) -> None:
        is_stream = cc.is_connected(self.input)
        number = cc.get(self.input, None) if is_stream else cc.side(self.input_side)
        if number is not None:
            cc.emit(self.output, int(number != 0))
            cc.emit(self.output_bool, number != 0)
        if not is_stream:
            raise Stop

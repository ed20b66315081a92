"""PreviousLoopbackCalculator: the previous result beside the current input."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from graph_runtime import Calculator, CalculatorContext, In, Out, Packet, Timestamp
from graph_runtime import timestamp as ts


class _Main(NamedTuple):
    """A MAIN packet or bound, and the timestamp of the LOOP packet that belongs to it."""

    time: int
    loop_time: int


class PreviousLoopbackCalculator(Calculator):
    """Gives each MAIN packet the LOOP packet of the MAIN packet before it.

    For the first MAIN packet, for one whose predecessor gave no LOOP packet, and for MAIN bounds,
    PREV_LOOP only gets a bound, so no node downstream waits.

    Inputs:
        MAIN: of any type.
        LOOP: of any type; a back edge from what the graph makes of MAIN, at the same timestamps.
    Outputs: PREV_LOOP: LOOP packets at the timestamps of the MAIN packets that followed.
    Options: none.

    ::

        node {
          calculator: "PreviousLoopbackCalculator"
          input_stream: "MAIN:image"
          input_stream: "LOOP:track"
          input_stream_info { tag_index: "LOOP" back_edge: true }
          output_stream: "PREV_LOOP:previous_track"
        }

    Source: MediaPipe ``calculators/core/previous_loopback_calculator.cc``.
    """

    main = In[Any]("MAIN")
    loop = In[Any]("LOOP")
    previous = Out[Any]("PREV_LOOP", same_as=loop)

    timestamp_offset = None
    process_timestamp_bounds = True
    input_stream_handler = "ImmediateInputStreamHandler"
    settles_outputs = True

    def open(self, cc: CalculatorContext) -> None:
        self._mains: deque[_Main] = deque()
        self._loops: deque[Packet] = deque()
        self._last_main = ts.UNSTARTED
        self._last_main_packet = ts.UNSTARTED
        # Below UNSTARTED, so that the settled time before the first LOOP packet counts too.
        self._last_loop = ts.UNSET
        header = cc.inputs["LOOP"].header
        if not header.is_empty():
            cc.outputs["PREV_LOOP"].set_header(header)

    def process(self, cc: CalculatorContext) -> None:
        main = cc.inputs["MAIN"].packet
        if main.time > self._last_main:
            loop_time = ts.UNSET
            if not main.is_empty():
                loop_time = self._last_main_packet
                self._last_main_packet = main.time
            self._mains.append(_Main(main.time, loop_time))
            self._last_main = main.time
        loop = cc.inputs["LOOP"].packet
        if loop.time > self._last_loop:
            self._loops.append(loop)
            self._last_loop = loop.time
        self._match(cc)

    def _match(self, cc: CalculatorContext) -> None:
        """Settle MAIN timestamps as far as LOOP is known."""
        output = cc.outputs["PREV_LOOP"]
        while self._mains and self._loops:
            main, loop = self._mains[0], self._loops[0]
            if main.loop_time > loop.time:
                self._loops.popleft()
                continue
            self._mains.popleft()
            if main.loop_time == loop.time:
                self._loops.popleft()
            if main.loop_time < loop.time or loop.is_empty():
                output.set_next_timestamp_bound(_after(main.time))
            elif not output.is_closed:
                output.add_packet(loop.at(Timestamp.of(main.time)))
            if main.time == ts.MAX:
                # MAIN cannot go on: end the cycle, which would keep itself alive.
                output.close()


def _after(time: int) -> Timestamp:
    if ts.is_range_value(time):
        return Timestamp.of(ts.clamp(time + 1))
    return Timestamp.of(ts.next_allowed_in_stream(time))

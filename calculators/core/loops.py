"""Loops: the items of a list as packets of a part of the graph, and the results as a list again.

A BeginLoop calculator gives each item of a list a timestamp of its own, which no other packet of
the graph has, and says on ``BATCH_END`` at which of them the list ends. The nodes between the two
ends know nothing of lists. An EndLoop calculator collects their results until ``BATCH_END`` brings
the timestamp of the list, and sends one list there. The item loops do so for several streams at
once. `PreviousLoopbackCalculator` loops over time: it brings what a node made of the previous
packet beside the current one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from calculators.core.vectors import VectorCalculator, variants
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Out,
    Packet,
    Timestamp,
)
from graph_runtime import timestamp as ts


class BeginLoopCalculator(VectorCalculator):
    """Sends the elements of each list one by one, for an EndLoop calculator to collect again.

    Inside the loop time is the loop's own: 0, 1, 2 ..., one tick per element. A timestamp without
    a list, or with an empty one, takes one tick too, in which no element comes.

    Inputs:
        ITERABLE: list of the variant's element type.
        CLONE:i (optional): of any type; repeated at each element of the same timestamp.
        TICK (optional): of any type; wakes the node up. Timestamp bounds do that by themselves.
    Outputs:
        ITEM: the elements, at loop time.
        CLONE:i: one per CLONE input.
        BATCH_END (Timestamp): at the last element's tick, the timestamp of the list.
    Options: none.

    Variants check the element type: BeginLoopIntCalculator, BeginLoopFloatCalculator,
    BeginLoopStringCalculator and so on. BeginLoopCalculator takes lists of anything.

    ::

        node {
          calculator: "BeginLoopStringCalculator"
          input_stream: "ITERABLE:words"
          input_stream: "CLONE:language"
          output_stream: "ITEM:word"
          output_stream: "CLONE:language_of_word"
          output_stream: "BATCH_END:words_end"
        }

    Source: MediaPipe ``calculators/core/begin_loop_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        inputs["TICK"].set_any().optional()
        inputs["ITERABLE"].set(cls.list_type())
        outputs["ITEM"].set(cls.element_type)
        outputs["BATCH_END"].set(Timestamp)
        count = inputs.num_entries("CLONE")
        contract.require(
            outputs.num_entries("CLONE") == count,
            f"there are {count} CLONE inputs and {outputs.num_entries('CLONE')} CLONE outputs; "
            "their numbers must match",
        )
        for index in range(count):
            outputs["CLONE", index].set_same_as(inputs["CLONE", index].set_any())
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        self._clock = 0

    def process(self, cc: CalculatorContext) -> None:
        iterable = cc.inputs["ITERABLE"]
        items: list[Any] = [] if iterable.is_empty() else iterable.value
        clones = [
            (shard.packet, cc.outputs["CLONE", index])
            for index, shard in enumerate(cc.inputs.all_of("CLONE"))
            if not shard.is_empty()
        ]
        for item in items:
            cc.outputs["ITEM"].add(item, self._clock)
            for packet, output in clones:
                output.add_packet(packet.at(self._clock))
            self._clock += 1
        if not items:
            self._clock += 1
            for output in cc.output_list:
                output.set_next_timestamp_bound(self._clock)
        cc.outputs["BATCH_END"].add(cc.input_timestamp, self._clock - 1)


BEGIN_LOOPS = variants(
    BeginLoopCalculator,
    {
        "BeginLoopIntCalculator": int,
        "BeginLoopUint64tCalculator": int,
        "BeginLoopFloatCalculator": float,
        "BeginLoopStringCalculator": str,
        "BeginLoopDetectionCalculator": Any,
        "BeginLoopImageCalculator": Any,
        "BeginLoopImageFrameCalculator": Any,
        "BeginLoopMatrixCalculator": Any,
        "BeginLoopMatrixVectorCalculator": list[Any],
        "BeginLoopNormalizedLandmarkListVectorCalculator": Any,
        "BeginLoopNormalizedRectCalculator": Any,
        "BeginLoopTensorCalculator": Any,
    },
)


class EndLoopCalculator(VectorCalculator):
    """Collects the packets of a loop into a list, for the timestamp the loop was begun at.

    A loop without packets sends only a timestamp bound, not even an empty list.

    Inputs:
        ITEM: of the variant's element type, at the loop's time.
        BATCH_END (Timestamp): from BeginLoop; ends the list.
    Outputs: ITERABLE: list of the element type, at the timestamp that BATCH_END carries.
    Options: none.

    Variants check the element type: EndLoopFloatCalculator, EndLoopBooleanCalculator and so on.
    EndLoopCalculator collects anything.

    ::

        node {
          calculator: "EndLoopFloatCalculator"
          input_stream: "ITEM:score"
          input_stream: "BATCH_END:words_end"
          output_stream: "ITERABLE:scores"
        }

    Source: MediaPipe ``calculators/core/end_loop_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["BATCH_END"].set(Timestamp)
        contract.inputs["ITEM"].set(cls.element_type)
        contract.outputs["ITERABLE"].set(cls.list_type())

    def open(self, cc: CalculatorContext) -> None:
        self._items: list[Any] = []

    def process(self, cc: CalculatorContext) -> None:
        item = cc.inputs["ITEM"]
        if not item.is_empty():
            self._items.append(item.value)
        end = cc.inputs["BATCH_END"]
        if end.is_empty():
            return
        time: Timestamp = end.value
        if self._items:
            # Not an empty list: as in MediaPipe, a loop over nothing sends a bound.
            cc.outputs["ITERABLE"].add(self._items, time)
            self._items = []
        else:
            cc.outputs["ITERABLE"].set_next_timestamp_bound(time.next_allowed_in_stream())


END_LOOPS = variants(
    EndLoopCalculator,
    {
        "EndLoopBooleanCalculator": bool,
        "EndLoopFloatCalculator": float,
        "EndLoopAffineMatrixCalculator": Any,
        "EndLoopClassificationListCalculator": Any,
        "EndLoopDetectionCalculator": Any,
        "EndLoopImageCalculator": Any,
        "EndLoopImageFrameCalculator": Any,
        "EndLoopImageSizeCalculator": tuple,
        "EndLoopLandmarkListVectorCalculator": Any,
        "EndLoopMatrixCalculator": Any,
        "EndLoopNormalizedLandmarkListVectorCalculator": Any,
        "EndLoopNormalizedRectCalculator": Any,
        "EndLoopRenderDataCalculator": Any,
        "EndLoopTensorCalculator": Any,
        "EndLoopTfLiteTensorCalculator": Any,
    },
)


class BeginItemLoopCalculator(Calculator):
    """Sends the packets of several streams one after the other, for EndItemLoopCalculator.

    Like BeginLoop for a list, with the elements as loose streams: the nodes in between exist once.
    Inside the loop time is the loop's own: 0, 1, 2 ..., one tick per item. A timestamp at which no
    item comes takes one tick.

    Inputs:
        ITEM:i: at least one, of any type. At each timestamp all of them have a packet, or none.
        CLONE:i (optional): of any type; repeated at each item of the same timestamp.
    Outputs:
        ITEM: the items, at loop time.
        CLONE:i: one per CLONE input.
        BATCH_END (Timestamp): at the last item's tick, the timestamp of the items.
    Options: none.

    ::

        node {
          calculator: "BeginItemLoopCalculator"
          input_stream: "ITEM:0:left"
          input_stream: "ITEM:1:right"
          output_stream: "ITEM:eye"
          output_stream: "BATCH_END:eyes_end"
        }

    Source: MediaPipe ``calculators/core/begin_item_loop_calculator.cc``.
    """

    items = In[Any]("ITEM", multiple=True, optional=True)
    clones = In[Any]("CLONE", multiple=True, optional=True)
    item = Out[Any]("ITEM", same_as=items)
    batch_end = Out[Timestamp]("BATCH_END")

    timestamp_offset = None
    process_timestamp_bounds = True

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(inputs.num_entries("ITEM") > 0, "Must have at least one ITEM input")
        count = inputs.num_entries("CLONE")
        contract.require(
            outputs.num_entries("CLONE") == count,
            "Number of CLONE inputs and outputs must match: there are "
            f"{count} inputs and {outputs.num_entries('CLONE')} outputs",
        )
        for index in range(count):
            outputs["CLONE", index].set_same_as(inputs["CLONE", index])

    def open(self, cc: CalculatorContext) -> None:
        self._clock = 0

    def process(self, cc: CalculatorContext) -> None:
        items = [shard.packet for shard in cc.inputs.all_of("ITEM") if not shard.is_empty()]
        if items and len(items) != cc.inputs.num_entries("ITEM"):
            raise GraphError(
                "Cannot mix non-empty input ITEMs with empty input ITEMs: "
                f"{len(items)} of {cc.inputs.num_entries('ITEM')} have a packet",
                code=Code.INTERNAL,
            )
        clones = [shard.packet for shard in cc.inputs.all_of("CLONE")]
        for item in items:
            cc.outputs["ITEM"].add_packet(item.at(self._clock))
            for index, clone in enumerate(clones):
                # An empty one becomes a bound.
                cc.outputs["CLONE", index].add_packet(clone.at(self._clock))
            self._clock += 1
        if not items:
            self._clock += 1
            for output in cc.output_list:
                output.set_next_timestamp_bound(self._clock)
        cc.outputs["BATCH_END"].add(cc.input_timestamp, self._clock - 1)


class EndItemLoopCalculator(Calculator):
    """Deals the packets of a loop out to its outputs, at the timestamp the loop was begun at.

    Inputs:
        ITEM: of any type, at the loop's time.
        BATCH_END (Timestamp): from BeginItemLoopCalculator.
    Outputs: ITEM:i: one per packet of the loop. A loop without packets sends bounds; any other
        number of packets is an error.
    Options: none.

    ::

        node {
          calculator: "EndItemLoopCalculator"
          input_stream: "ITEM:pupil"
          input_stream: "BATCH_END:eyes_end"
          output_stream: "ITEM:0:left_pupil"
          output_stream: "ITEM:1:right_pupil"
        }

    Source: MediaPipe ``calculators/core/end_item_loop_calculator.cc``.
    """

    item = In[Any]("ITEM")
    batch_end = In[Timestamp]("BATCH_END")
    items = Out[Any]("ITEM", multiple=True, optional=True, same_as=item)

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._items: list[Packet] = []

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["ITEM"].is_empty():
            self._items.append(cc.inputs["ITEM"].packet)
        if cc.inputs["BATCH_END"].is_empty():
            return
        time: Timestamp = cc.inputs["BATCH_END"].value
        items, self._items = self._items, []
        outputs = cc.outputs.all_of("ITEM")
        if not items:
            for output in outputs:
                output.set_next_timestamp_bound(time.next_allowed_in_stream())
            return
        if len(items) != len(outputs):
            raise GraphError(
                "Number of input items must match number of outputs: the loop brought "
                f"{len(items)}, the node has {len(outputs)} outputs",
                code=Code.INTERNAL,
            )
        for item, output in zip(items, outputs, strict=True):
            output.add_packet(item.at(time))


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

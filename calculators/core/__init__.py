"""Calculators that every graph can use: passing on, gating, joining, looping, switching, sampling.

Names and behaviour follow MediaPipe's ``calculators/core``.
"""

from __future__ import annotations

from calculators.core.callback_calculator import CALLBACKS
from calculators.core.flow_limiters import FlowLimiterCalculator, RealTimeFlowLimiterCalculator
from calculators.core.gates import (
    BypassCalculator,
    GateCalculator,
    NonZeroCalculator,
    PacketPresenceCalculator,
)
from calculators.core.headers import AddHeaderCalculator
from calculators.core.loops import (
    BEGIN_LOOPS,
    END_LOOPS,
    BeginItemLoopCalculator,
    EndItemLoopCalculator,
    PreviousLoopbackCalculator,
)
from calculators.core.matrices import (
    DequantizeByteArrayCalculator,
    MatrixMultiplyCalculator,
    MatrixSubtractCalculator,
    MatrixToVectorCalculator,
    QuantizeFloatVectorCalculator,
)
from calculators.core.muxes import (
    ImmediateMuxCalculator,
    MakePairCalculator,
    MergeCalculator,
    MuxCalculator,
    PacketInnerJoinCalculator,
    RoundRobinDemuxCalculator,
)
from calculators.core.packet_resampler_calculator import PacketResamplerCalculator
from calculators.core.packet_times import (
    CountingSourceCalculator,
    PacketClonerCalculator,
    PacketSequencerCalculator,
    PacketThinnerCalculator,
    SequenceShiftCalculator,
    ValueOrDefaultCalculator,
)
from calculators.core.pass_through_calculator import PassThroughCalculator
from calculators.core.proto_lists import CONCATENATE_PROTO_LISTS, SPLIT_PROTO_LISTS
from calculators.core.side_packets import (
    STRING_TO_INT,
    ConstantSidePacketCalculator,
    DefaultSidePacketCalculator,
    MediaPipeInternalSidePacketToPacketStreamCalculator,
    SidePacketsToStreamsCalculator,
    SidePacketToStreamCalculator,
    StreamToSidePacketCalculator,
)
from calculators.core.switches import SwitchDemuxCalculator, SwitchMuxCalculator, switch_container
from calculators.core.vectors import (
    CLIP_VECTOR_SIZE,
    CONCATENATE_VECTORS,
    GET_VECTOR_ITEM,
    MERGE_TO_VECTOR,
    SPLIT_VECTORS,
    VECTOR_INDICES,
    VECTOR_SIZES,
)
from graph_runtime import Calculator, Registry

CALCULATORS: tuple[type[Calculator], ...] = (
    AddHeaderCalculator,
    BeginItemLoopCalculator,
    *BEGIN_LOOPS,
    BypassCalculator,
    *CALLBACKS,
    *CLIP_VECTOR_SIZE,
    *CONCATENATE_PROTO_LISTS,
    *CONCATENATE_VECTORS,
    ConstantSidePacketCalculator,
    CountingSourceCalculator,
    DefaultSidePacketCalculator,
    DequantizeByteArrayCalculator,
    EndItemLoopCalculator,
    *END_LOOPS,
    FlowLimiterCalculator,
    GateCalculator,
    *GET_VECTOR_ITEM,
    ImmediateMuxCalculator,
    MakePairCalculator,
    MatrixMultiplyCalculator,
    MatrixSubtractCalculator,
    MatrixToVectorCalculator,
    MediaPipeInternalSidePacketToPacketStreamCalculator,
    MergeCalculator,
    *MERGE_TO_VECTOR,
    MuxCalculator,
    NonZeroCalculator,
    PacketClonerCalculator,
    PacketInnerJoinCalculator,
    PacketPresenceCalculator,
    PacketResamplerCalculator,
    PacketSequencerCalculator,
    PacketThinnerCalculator,
    PassThroughCalculator,
    PreviousLoopbackCalculator,
    QuantizeFloatVectorCalculator,
    RealTimeFlowLimiterCalculator,
    RoundRobinDemuxCalculator,
    SequenceShiftCalculator,
    SidePacketToStreamCalculator,
    SidePacketsToStreamsCalculator,
    *SPLIT_PROTO_LISTS,
    *SPLIT_VECTORS,
    StreamToSidePacketCalculator,
    *STRING_TO_INT,
    SwitchDemuxCalculator,
    SwitchMuxCalculator,
    ValueOrDefaultCalculator,
    *VECTOR_INDICES,
    *VECTOR_SIZES,
)


def register(registry: Registry) -> None:
    """Add the core calculators, and SwitchContainer, to a registry."""
    for calculator in CALCULATORS:
        registry.register_calculator(calculator)
    registry.register_subgraph(switch_container, "SwitchContainer")

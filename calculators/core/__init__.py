"""Calculators that every graph can use: passing on, gating, joining, looping, switching, sampling.

The names and behaviour are those of MediaPipe's ``calculators/core``.
"""

from __future__ import annotations

from calculators.core import (
    begin_loop_calculator,
    callback_calculator,
    clip_vector_size_calculator,
    concatenate_proto_list_calculator,
    concatenate_vector_calculator,
    end_loop_calculator,
    get_vector_item_calculator,
    merge_to_vector_calculator,
    split_proto_list_calculator,
    split_vector_calculator,
    string_to_int_calculator,
    vector_indices_calculator,
    vector_size_calculator,
)
from calculators.core.add_header_calculator import AddHeaderCalculator
from calculators.core.begin_item_loop_calculator import BeginItemLoopCalculator
from calculators.core.bypass_calculator import BypassCalculator
from calculators.core.constant_side_packet_calculator import ConstantSidePacketCalculator
from calculators.core.counting_source_calculator import CountingSourceCalculator
from calculators.core.default_side_packet_calculator import DefaultSidePacketCalculator
from calculators.core.dequantize_byte_array_calculator import DequantizeByteArrayCalculator
from calculators.core.end_item_loop_calculator import EndItemLoopCalculator
from calculators.core.flow_limiter_calculator import FlowLimiterCalculator
from calculators.core.gate_calculator import GateCalculator
from calculators.core.immediate_mux_calculator import ImmediateMuxCalculator
from calculators.core.internal_side_packet_to_packet_stream_calculator import (
    MediaPipeInternalSidePacketToPacketStreamCalculator,
)
from calculators.core.make_pair_calculator import MakePairCalculator
from calculators.core.matrix_multiply_calculator import MatrixMultiplyCalculator
from calculators.core.matrix_subtract_calculator import MatrixSubtractCalculator
from calculators.core.matrix_to_vector_calculator import MatrixToVectorCalculator
from calculators.core.merge_calculator import MergeCalculator
from calculators.core.mux_calculator import MuxCalculator
from calculators.core.non_zero_calculator import NonZeroCalculator
from calculators.core.packet_cloner_calculator import PacketClonerCalculator
from calculators.core.packet_inner_join_calculator import PacketInnerJoinCalculator
from calculators.core.packet_presence_calculator import PacketPresenceCalculator
from calculators.core.packet_resampler_calculator import PacketResamplerCalculator
from calculators.core.packet_sequencer_calculator import PacketSequencerCalculator
from calculators.core.packet_thinner_calculator import PacketThinnerCalculator
from calculators.core.pass_through_calculator import PassThroughCalculator
from calculators.core.previous_loopback_calculator import PreviousLoopbackCalculator
from calculators.core.quantize_float_vector_calculator import QuantizeFloatVectorCalculator
from calculators.core.real_time_flow_limiter_calculator import RealTimeFlowLimiterCalculator
from calculators.core.round_robin_demux_calculator import RoundRobinDemuxCalculator
from calculators.core.sequence_shift_calculator import SequenceShiftCalculator
from calculators.core.side_packet_to_stream_calculator import SidePacketToStreamCalculator
from calculators.core.side_packets_to_streams_calculator import SidePacketsToStreamsCalculator
from calculators.core.stream_to_side_packet_calculator import StreamToSidePacketCalculator
from calculators.core.switch_container import switch_container
from calculators.core.switch_demux_calculator import SwitchDemuxCalculator
from calculators.core.switch_mux_calculator import SwitchMuxCalculator
from calculators.core.value_or_default_calculator import ValueOrDefaultCalculator
from graph_runtime import Calculator, Registry

CALCULATORS: tuple[type[Calculator], ...] = (
    AddHeaderCalculator,
    BeginItemLoopCalculator,
    *begin_loop_calculator.CALCULATORS,
    BypassCalculator,
    *callback_calculator.CALCULATORS,
    *clip_vector_size_calculator.CALCULATORS,
    *concatenate_proto_list_calculator.CALCULATORS,
    *concatenate_vector_calculator.CALCULATORS,
    ConstantSidePacketCalculator,
    CountingSourceCalculator,
    DefaultSidePacketCalculator,
    DequantizeByteArrayCalculator,
    EndItemLoopCalculator,
    *end_loop_calculator.CALCULATORS,
    FlowLimiterCalculator,
    GateCalculator,
    *get_vector_item_calculator.CALCULATORS,
    ImmediateMuxCalculator,
    MakePairCalculator,
    MatrixMultiplyCalculator,
    MatrixSubtractCalculator,
    MatrixToVectorCalculator,
    MediaPipeInternalSidePacketToPacketStreamCalculator,
    MergeCalculator,
    *merge_to_vector_calculator.CALCULATORS,
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
    *split_proto_list_calculator.CALCULATORS,
    *split_vector_calculator.CALCULATORS,
    StreamToSidePacketCalculator,
    *string_to_int_calculator.CALCULATORS,
    SwitchDemuxCalculator,
    SwitchMuxCalculator,
    ValueOrDefaultCalculator,
    *vector_indices_calculator.CALCULATORS,
    *vector_size_calculator.CALCULATORS,
)


def register(registry: Registry) -> None:
    """Add the core calculators, and SwitchContainer, to a registry."""
    for calculator in CALCULATORS:
        registry.register_calculator(calculator)
    registry.register_subgraph(switch_container, "SwitchContainer")

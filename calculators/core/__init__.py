"""Calculators that every graph can use: passing on, gating, joining, looping, switching, sampling.

The names and behaviour are those of MediaPipe's ``calculators/core``.
"""

from __future__ import annotations

from calculators.core.add_header_calculator import AddHeaderCalculator
from calculators.core.begin_item_loop_calculator import BeginItemLoopCalculator
from calculators.core.begin_loop_calculator import BEGIN_LOOPS
from calculators.core.bypass_calculator import BypassCalculator
from calculators.core.callback_calculator import CALLBACKS
from calculators.core.clip_vector_size_calculator import CLIP_VECTOR_SIZE
from calculators.core.concatenate_proto_list_calculator import CONCATENATE_PROTO_LISTS
from calculators.core.concatenate_vector_calculator import CONCATENATE_VECTORS
from calculators.core.constant_side_packet_calculator import ConstantSidePacketCalculator
from calculators.core.counting_source_calculator import CountingSourceCalculator
from calculators.core.default_side_packet_calculator import DefaultSidePacketCalculator
from calculators.core.dequantize_byte_array_calculator import DequantizeByteArrayCalculator
from calculators.core.end_item_loop_calculator import EndItemLoopCalculator
from calculators.core.end_loop_calculator import END_LOOPS
from calculators.core.flow_limiter_calculator import FlowLimiterCalculator
from calculators.core.gate_calculator import GateCalculator
from calculators.core.get_vector_item_calculator import GET_VECTOR_ITEM
from calculators.core.immediate_mux_calculator import ImmediateMuxCalculator
from calculators.core.internal_side_packet_to_packet_stream_calculator import (
    MediaPipeInternalSidePacketToPacketStreamCalculator,
)
from calculators.core.make_pair_calculator import MakePairCalculator
from calculators.core.matrix_multiply_calculator import MatrixMultiplyCalculator
from calculators.core.matrix_subtract_calculator import MatrixSubtractCalculator
from calculators.core.matrix_to_vector_calculator import MatrixToVectorCalculator
from calculators.core.merge_calculator import MergeCalculator
from calculators.core.merge_to_vector_calculator import MERGE_TO_VECTOR
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
from calculators.core.split_proto_list_calculator import SPLIT_PROTO_LISTS
from calculators.core.split_vector_calculator import SPLIT_VECTORS
from calculators.core.stream_to_side_packet_calculator import StreamToSidePacketCalculator
from calculators.core.string_to_int_calculator import STRING_TO_INT
from calculators.core.switch_container import switch_container
from calculators.core.switch_demux_calculator import SwitchDemuxCalculator
from calculators.core.switch_mux_calculator import SwitchMuxCalculator
from calculators.core.value_or_default_calculator import ValueOrDefaultCalculator
from calculators.core.vector_indices_calculator import VECTOR_INDICES
from calculators.core.vector_size_calculator import VECTOR_SIZES
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

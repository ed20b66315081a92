"""The checked-in descriptor set agrees with the ``.proto`` files."""

from __future__ import annotations

import pytest

from protos import generate
from protos.documentation import comments_of
from protos.pool import descriptor_set, find_extension, find_message, message_class


def test_the_descriptor_set_is_current() -> None:
    assert generate.compiled() == descriptor_set(), "run: python -m protos.generate"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("mediapipe.ThreadPoolExecutorOptions", 157116819),
        ("mediapipe.DefaultInputStreamHandlerOptions", 164312821),
        ("mediapipe.FixedSizeInputStreamHandlerOptions", 125744319),
        ("mediapipe.SyncSetInputStreamHandlerOptions", 155816273),
        ("mediapipe.TimestampAlignInputStreamHandlerOptions", 190104979),
        ("mediapipe.GateCalculatorOptions", 261754847),
        ("mediapipe.FlowLimiterCalculatorOptions", 326963320),
        ("mediapipe.PacketClonerCalculatorOptions", 258872085),
        ("mediapipe.ConstantSidePacketCalculatorOptions", 291214597),
        ("mediapipe.ConcatenateVectorCalculatorOptions", 259397839),
        ("mediapipe.SplitVectorCalculatorOptions", 259438222),
        ("mediapipe.PacketResamplerCalculatorOptions", 95743844),
        ("mediapipe.PacketThinnerCalculatorOptions", 288533508),
        ("mediapipe.SequenceShiftCalculatorOptions", 107633927),
        ("mediapipe.BypassCalculatorOptions", 481259677),
        ("mediapipe.GetVectorItemCalculatorOptions", 463538543),
        ("mediapipe.ClipVectorSizeCalculatorOptions", 274674998),
        ("mediapipe.QuantizeFloatVectorCalculatorOptions", 259848061),
        ("mediapipe.DequantizeByteArrayCalculatorOptions", 272316343),
        ("mediapipe.GraphProfileCalculatorOptions", 367481815),
        ("mediapipe.SwitchContainerOptions", 345967970),
        ("mediapipe.TemplateSubgraphOptions", 172998261),
        ("mediapipe.PacketGeneratorWrapperCalculatorOptions", 381945445),
        ("mediapipe.LLMCalculatorOptions", 113473750),
    ],
)
def test_extensions_have_mediapipes_numbers(name: str, number: int) -> None:
    extension = find_extension(f"{name}.ext")

    assert extension is not None
    assert extension.number == number
    assert extension.message_type.full_name == name


def test_binary_graphs_have_mediapipes_bytes() -> None:
    # Written out by hand from the field numbers of MediaPipe's calculator.proto.
    config = message_class("mediapipe.CalculatorGraphConfig")(
        num_threads=2,
        type="T",
        node=[{"calculator": "C", "input_stream_info": [{"tag_index": "A", "back_edge": True}]}],
    )

    assert config.SerializeToString(deterministic=True) == (
        b"\x0a\x0a\x12\x01C\x6a\x05\x0a\x01A\x10\x01\x40\x02\xa2\x01\x01T"
    )


def test_the_pool_holds_any_and_the_wrappers() -> None:
    assert find_message("google.protobuf.Any") is not None
    assert find_message("google.protobuf.StringValue") is not None


def test_comments_describe_fields() -> None:
    assert comments_of("mediapipe.InputStreamInfo")["back_edge"] == "this input closes a cycle"
    assert comments_of("acme.Unknown") == {}

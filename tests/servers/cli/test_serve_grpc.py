"""`graphrt serve` with gRPC: from the flags to an answer, and to the end."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from protos.pool import message_class
from tests.servers.cli.serving import Serving, make_site
from tests.support.patience import PATIENCE

PASSING = """\
input_stream: "OVTENSOR:in"
output_stream: "OVTENSOR:out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""
NO_HTTP = ("--rest_port", "0")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Graphs of HTTP, and one that passes a tensor on."""
    path = make_site(tmp_path)
    (tmp_path / "passing").mkdir()
    (tmp_path / "passing" / "graph.pbtxt").write_text(PASSING)
    path.write_text(path.read_text().replace('[{"name"', '[{"name": "passing"}, {"name"', 1))
    return path


@contextmanager
def serving(config: Path, *words: str, port: str = "auto") -> Iterator[tuple[Serving, str]]:
    """A server that has loaded everything, and its gRPC address."""
    with Serving(config.parent, config, "--port", port, *words) as server:
        line = server.wait_for("graphrt serves grpc://")
        server.wait_for("try:")
        server.wait_for("  ")
        found = re.search(r"grpc://(\S+)", line)
        assert found is not None
        yield server, found[1]


def call(channel: grpc.Channel, method: str, **fields: Any) -> Any:
    request = message_class(f"inference.{method}Request")(**fields)
    function = channel.unary_unary(
        f"/inference.GRPCInferenceService/{method}",
        response_deserializer=message_class(f"inference.{method}Response").FromString,
    )
    return function(request.SerializeToString(), wait_for_ready=True, timeout=PATIENCE)


def test_a_tensor_passes_a_graph(config: Path) -> None:
    sent = np.arange(12, dtype="<f4").reshape(3, 4)
    with serving(config) as (server, address), grpc.insecure_channel(address) as channel:
        assert "  passing  ready\n" in "".join(server.log)
        assert "  curl http://127.0.0.1:" in server.log[-1]
        assert call(channel, "ServerReady").ready
        answer = call(
            channel,
            "ModelInfer",
            model_name="passing",
            id="seven",
            inputs=[{"name": "in", "datatype": "FP32", "shape": [3, 4]}],
            raw_input_contents=[sent.tobytes()],
        )
        assert (answer.model_name, answer.id) == ("passing", "seven")
        (output,) = answer.outputs
        assert (output.name, output.datatype, list(output.shape)) == ("out", "FP32", [3, 4])
        assert answer.raw_output_contents[0] == sent.tobytes()
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, "ModelInfer", model_name="no")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_stream_passes_a_graph_and_the_server_ends_it_when_it_stops(config: Path) -> None:
    request = message_class("inference.ModelInferRequest")(
        model_name="passing",
        inputs=[{"name": "in", "datatype": "UINT8", "shape": [2]}],
        raw_input_contents=[b"\x01\x02"],
    ).SerializeToString()
    answer_type = message_class("inference.ModelStreamInferResponse")
    with (
        serving(config, "--drain_seconds", "0") as (server, address),
        grpc.insecure_channel(address) as channel,
    ):

        def requests() -> Iterator[bytes]:
            yield request
            yield request

        stream = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            response_deserializer=answer_type.FromString,
        )
        answers = list(stream(requests(), timeout=PATIENCE))
        assert [each.infer_response.raw_output_contents[0] for each in answers] == [b"\x01\x02"] * 2
        reader, writer = os.pipe()

        def open_ended() -> Iterator[bytes]:
            yield request
            os.read(reader, 1)

        left_open = stream(open_ended(), timeout=PATIENCE)
        first: Any = next(left_open)
        assert not first.error_message
        server.send_signal()
        with pytest.raises(grpc.RpcError) as caught:
            next(left_open)
        os.write(writer, b"x")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == "the server is shutting down"
        code, _, log = server.end()
        assert code == 0
        assert "1 requests were cut off" in log
        os.close(reader)
        os.close(writer)


def test_http_can_be_switched_off(config: Path) -> None:
    with serving(config, *NO_HTTP) as (server, address):
        shown = "".join(server.log)
        assert "http://" not in shown
        assert f"  grpcurl -plaintext {address} list\n" in server.log[-1]
        with grpc.insecure_channel(address) as channel:
            assert call(channel, "ServerLive").live
        server.send_signal()
        assert server.end()[0] == 0


def test_channel_arguments_and_the_limit_of_messages_reach_grpc(config: Path) -> None:
    arguments = "grpc.max_metadata_size=2000,grpc.absolute_max_metadata_size=3000"
    flags = ["--max_body_size", "2K", "--grpc_channel_arguments", arguments]
    with (
        serving(config, *NO_HTTP, *flags) as (_, address),
        grpc.insecure_channel(address) as channel,
    ):
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        assert live(b"", timeout=PATIENCE, wait_for_ready=True)
        for content, metadata in ((bytes(3000), ()), (b"", (("key", "x" * 4000),))):
            with pytest.raises(grpc.RpcError) as caught:
                live(content, timeout=PATIENCE, metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("words", [(), NO_HTTP])
def test_a_port_that_is_taken_is_one_clear_line(config: Path, words: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Serving(config.parent, config, "--port", str(port), *words) as server:
            code, out, log = server.end()
    assert (code, out) == (1, "")
    assert log.splitlines() == [
        f"error: cannot listen on 127.0.0.1:{port}: address already in use",
        "hint: choose another port with --port, or `--port auto`",
    ]

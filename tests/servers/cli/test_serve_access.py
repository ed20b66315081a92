"""`graphrt serve` with keys, certificates and limits, and the clients that people have."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from protos.pool import message_class
from tests.servers.certificates import authority
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving, make_site
from tests.support.patience import PATIENCE

KEY = "sk-CANARY-5d21"
JSON = {"Content-Type": "application/json"}
BEARER = {"Authorization": f"Bearer {KEY}"}
CHAT = "/v3/chat/completions"
LOAD = "/v2/repository/models/echo/load"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return make_site(tmp_path)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys.txt"
    file.write_text(f"# whose\n{KEY}\nsecond\n")
    file.chmod(0o600)
    return file


@contextmanager
def serving(config: Path, *words: str | Path) -> Iterator[Serving]:
    """A server that has loaded everything."""
    with Serving(config.parent, config, *words) as server:
        line = server.wait_for("graphrt serves http")
        server.port = int(line.rpartition(":")[2])
        server.wait_for("  curl ")
        yield server


def ask(
    server: Serving,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> tuple[int, Any]:
    """Status and JSON; a POST if there is a body."""
    if context is None:
        made = http.client.HTTPConnection("localhost", server.port)
    else:
        made = http.client.HTTPSConnection("localhost", server.port, context=context)
    with closing(made) as connection:
        data = None if body is None else json.dumps(body)
        connection.request(
            "GET" if data is None else "POST", path, data, {**JSON, **(headers or {})}
        )
        with connection.getresponse() as response:
            text = response.read()
            return response.status, json.loads(text) if text else None


def grpc_address(server: Serving) -> str:
    (address,) = re.findall(r"serves grpcs?://(\S+)", "".join(server.log))
    return str(address)


def call(channel: grpc.Channel, method: str, *metadata: tuple[str, str]) -> str:
    """The name of the status."""
    function = channel.unary_unary(
        f"/inference.GRPCInferenceService/{method}",
        response_deserializer=message_class(f"inference.{method}Response").FromString,
    )
    try:
        function(b"", metadata=metadata, timeout=PATIENCE, wait_for_ready=True)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def test_keys_of_a_file_guard_both_fronts_and_change_without_a_restart(
    config: Path, keys: Path
) -> None:
    words = ("--api_key_file", "keys.txt", "--port", "auto", "--open_routes", "/v3/models")
    with serving(config, *words, "--log_level", "TRACE") as server:
        assert 'curl -H "Authorization: Bearer $API_KEY" http://' in server.log[-1]
        body = {"model": "echo"}
        assert ask(server, CHAT, body)[0] == 401
        assert ask(server, CHAT, body, BEARER) == (200, body)
        assert ask(server, CHAT, body, {"x-api-key": "second"}) == (200, body)
        for path in ("/v2/health/ready", "/v3/models"):
            assert ask(server, path)[0] == 200
        with grpc.insecure_channel(grpc_address(server)) as channel:
            assert call(channel, "ServerMetadata") == "UNAUTHENTICATED"
            assert call(channel, "ServerMetadata", ("authorization", f"Bearer {KEY}")) == "OK"
            assert call(channel, "ServerReady") == "OK"
            keys.write_text("third\n")
            while ask(server, CHAT, body, {"x-api-key": "third"})[0] != 200:
                server.wait_for(f"POST {CHAT}")  # the file is looked at once a second
            assert ask(server, CHAT, body, BEARER)[0] == 401
            assert call(channel, "ServerMetadata", ("x-api-key", KEY)) == "UNAUTHENTICATED"
            assert call(channel, "ServerMetadata", ("x-api-key", "third")) == "OK"
        server.send_signal()
        code, out, rest = server.end()
        assert code == 0
        assert "CANARY" not in "".join(server.log) + out + rest


def test_a_key_may_be_in_the_environment(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", KEY)
    with serving(config) as server:
        assert "$API_KEY: requests need one of its 1 API keys\n" in "".join(server.log)
        assert ask(server, "/v3/models")[0] == 401
        assert ask(server, "/v3/models", None, BEARER)[0] == 200


def test_tls_guards_both_fronts(config: Path, tmp_path: Path) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    words = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--port", "auto")
    with serving(config, *words) as server:
        log = "".join(server.log)
        assert f"graphrt serves https://127.0.0.1:{server.port}\n" in log
        assert "graphrt serves grpcs://127.0.0.1:" in log
        assert f"curl https://127.0.0.1:{server.port}/" in log
        context = ssl.create_default_context(cafile=str(signer.file))
        assert ask(server, "/v2/health/ready", context=context)[0] == 200
        credentials = grpc.ssl_channel_credentials(signer.file.read_bytes())
        with grpc.secure_channel(grpc_address(server), credentials) as channel:
            assert call(channel, "ServerReady") == "OK"
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(server, "/v2/health/ready")
        server.send_signal()
        assert server.end()[0] == 0


def test_clients_must_show_a_certificate_where_that_is_asked(config: Path, tmp_path: Path) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    words = ("--tls_certificate", certificate, "--tls_key", key, "--tls_client_ca", signer.file)
    with serving(config, *words, "--rest_bind_address", "0.0.0.0") as server:
        assert "warning: " not in "".join(server.log)  # strangers cannot use it
        context = ssl.create_default_context(cafile=str(signer.file))
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(server, "/v2/health/live", context=context)
        context.load_cert_chain(*signer.issue(tmp_path, "client"))
        assert ask(server, "/v2/health/live", context=context)[0] == 200
        assert ask(server, LOAD, {}, context=context)[0] == 200


def test_an_open_server_says_so_and_lets_nobody_change_what_is_served(config: Path) -> None:
    words = ("--rest_bind_address", "0.0.0.0", "--allowed_origins", "*")
    with serving(config, *words) as server:
        log = "".join(server.log)
        assert (
            "warning: --rest_bind_address 0.0.0.0: EVERYBODY WHO CAN REACH THIS MACHINE CAN USE "
            "THIS SERVER: it asks for no API key\nhint: --api_key_file FILE"
        ) in log
        assert "warning: --allowed_origins *: pages of any site" in log
        for path in (LOAD, "/v1/config/reload"):
            status, answer = ask(server, path, {})
            assert status == 403
            assert "the server has no API keys" in answer["error"]
        assert ask(server, CHAT, {"model": "echo"})[0] == 200


@pytest.mark.parametrize("is_allowed", [True, False])
def test_control_is_there_on_this_machine_and_where_it_is_allowed(
    config: Path, is_allowed: bool
) -> None:
    wide = ("--rest_bind_address", "0.0.0.0", "--allow_repository_control")
    with serving(config, *(wide if is_allowed else ())) as server:
        assert ask(server, LOAD, {})[0] == 200


def test_files_that_all_may_read_and_keys_in_the_clear_are_warned_of(
    config: Path, keys: Path
) -> None:
    keys.chmod(0o644)
    words = ("--api_key_file", "keys.txt", "--rest_bind_address", "0.0.0.0")
    with serving(config, *words) as server:
        log = "".join(server.log)
        assert "warning: keys.txt: every user of this machine can read the API keys\n" in log
        assert "hint: chmod 600 keys.txt\n" in log
        assert "API keys cross the network as plain text" in log
        assert ask(server, LOAD, {}, BEARER)[0] == 200


def test_an_empty_file_of_keys_starts_nothing(config: Path) -> None:
    (config.parent / "keys.txt").write_text("# none yet\n")
    done = graphrt("serve", config, "--api_key_file", "keys.txt", cwd=config.parent)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: keys.txt: there is no key in it: write one per line\n" in done.stderr


def test_time_and_connections_are_limited(config: Path) -> None:
    words = ("--request_timeout", "0.2", "--max_connections", "1")
    with (
        serving(config, *words) as server,
        server.request("POST", CHAT, {"model": "stream", "stream": True}) as response,
    ):
        assert response.readline() == b"data: first\n"
        assert ask(server, "/v3/models")[0] == 503  # there is room for one
        rest = response.read()
        assert b"the request was not answered within 0.2 s, its time-out" in rest
        assert rest.endswith(b"data: [DONE]\n\n")


def test_requests_beyond_the_queue_are_told_to_come_back(config: Path) -> None:
    words = ("--request_queue_limit", "1", "--port", "auto")
    with (
        serving(config, *words) as server,
        server.request("POST", CHAT, {"model": "stream", "stream": True}) as response,
    ):
        assert response.readline() == b"data: first\n"
        text = {"text_input": "a"}
        for path, asked in (
            (CHAT, {"model": "stream"}),
            ("/v2/models/stream/generate", text),
            ("/v2/models/stream/generate_stream", text),
        ):
            with server.request("POST", path, asked) as refused:
                assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
                assert "requests in flight, as many as it takes" in refused.read().decode()
        request = message_class("inference.ModelInferRequest")(
            model_name="stream",
            inputs=[{"name": "text_input", "datatype": "BYTES", "shape": [1]}],
            raw_input_contents=[b"\x01\x00\x00\x00a"],
        )
        with grpc.insecure_channel(grpc_address(server)) as channel:
            infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            with pytest.raises(grpc.RpcError) as caught:
                infer(request.SerializeToString(), timeout=PATIENCE, wait_for_ready=True)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert ask(server, CHAT, {"model": "echo"})[0] == 200  # each graph has its own


def test_pages_may_do_what_the_flags_say(config: Path) -> None:
    words = ("--allowed_origins", "https://page.example", "--allowed_methods", "GET")
    with (
        serving(config, *words, "--allow_credentials") as server,
        closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection,
    ):
        connection.request("OPTIONS", "/v3/models", headers={"Origin": "https://page.example"})
        with connection.getresponse() as response:
            assert response.headers["Access-Control-Allow-Origin"] == "https://page.example"
            assert response.headers["Access-Control-Allow-Methods"] == "GET"
            assert response.headers["Access-Control-Allow-Credentials"] == "true"


# Clients that people have -------------------------------------------------------------------------


@pytest.fixture
def guarded(config: Path, keys: Path) -> Iterator[Serving]:
    with serving(config, "--api_key_file", "keys.txt", "--port", "auto") as server:
        yield server


def test_clients_that_people_have_send_keys(guarded: Serving) -> None:
    url = f"http://127.0.0.1:{guarded.port}"
    _openai(f"{url}/v1")
    _anthropic(url)
    _triton_http(f"127.0.0.1:{guarded.port}")
    _triton_grpc(grpc_address(guarded))


def _openai(url: str) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        assert {model.id for model in client.models.list()} == {"echo", "stream"}
    with openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.chat.completions.create(model="echo", messages=[])
        assert caught.value.code == "invalid_api_key"


def _anthropic(url: str) -> None:
    anthropic = pytest.importorskip("anthropic")
    asked = {"model": "echo", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}
    for name in ("api_key", "auth_token"):  # one is x-api-key, the other Bearer
        with anthropic.Anthropic(base_url=url, max_retries=0, **{name: KEY}) as client:
            assert client.messages.create(**asked).model == "echo"
        with (
            anthropic.Anthropic(base_url=url, max_retries=0, **{name: "wrong"}) as client,
            pytest.raises(anthropic.AuthenticationError, match="the API key is not valid"),
        ):
            client.messages.create(**asked)


def _triton_http(address: str) -> None:
    triton = pytest.importorskip("tritonclient.http")
    with closing(triton.InferenceServerClient(address)) as client:
        assert client.is_server_ready()
        assert client.get_server_metadata(headers=BEARER)["name"] == "graphrt"
        with pytest.raises(triton.InferenceServerException, match="no API key"):
            client.get_server_metadata()


# Its protos have the names of ours: one process cannot hold both.
TRITON_GRPC: Final = """
import sys
from tritonclient.grpc import InferenceServerClient, InferenceServerException

address, key = sys.argv[1:]
with InferenceServerClient(address) as client:
    assert client.is_server_ready()
    metadata = client.get_server_metadata(headers={"authorization": f"Bearer {key}"})
    assert metadata.name == "graphrt", metadata
    try:
        client.get_server_metadata()
    except InferenceServerException as error:
        assert "no API key" in str(error), error
    else:
        raise AssertionError("answered without a key")
"""


def _triton_grpc(address: str) -> None:
    pytest.importorskip("tritonclient")
    command = [sys.executable, "-c", TRITON_GRPC, address, KEY]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stderr

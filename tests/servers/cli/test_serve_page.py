"""The page's door in a real server: by default, with keys, and for others."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from servers.cli.arguments import make_parser
from servers.cli.command_line import spread
from servers.cli.serve_options import ServeOptions, serve_options
from servers.cli.server_settings import access_of, page_settings, warn_of_access
from tests.servers.cli.serving import Serving, make_site

KEY = "sk-CANARY-5d21"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that has loaded everything; the calculators of its graphs are its own."""
    folder = tmp_path_factory.mktemp("site")
    config = make_site(folder)
    content = json.loads(config.read_text()) | {"python_path": "calcs.py"}
    config.write_text(json.dumps(content))
    with Serving(folder, config) as server:
        line = server.wait_for("graphrt serves http")
        server.port = int(line.rpartition(":")[2])
        server.wait_for("  curl ")
        yield server


def ask(
    server: Serving, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, dict[str, str]]:
    with closing(http.client.HTTPConnection("localhost", server.port)) as connection:
        data = None if body is None else json.dumps(body)
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("GET" if data is None else "POST", path, data, sent)
        with connection.getresponse() as response:
            text = response.read()
            is_json = response.headers["Content-Type"] == "application/json"
            return response.status, json.loads(text) if is_json else text, dict(response.headers)


def test_calculators_of_the_server_are_listed_and_described(server: Serving) -> None:
    status, found, _ = ask(server, "/v1/calculators")
    assert status == 200
    names = {each["name"]: each["summary"] for each in found["calculators"]}
    assert names["Echo"] == "Answers with the body."
    assert "PassThroughCalculator" in names
    status, page, _ = ask(server, "/v1/calculators/Echo")
    assert (status, page["name"]) == (200, "Echo")
    assert [port["tag"] for port in page["ports"]] == [
        "HTTP_REQUEST_PAYLOAD",
        "HTTP_RESPONSE_PAYLOAD",
    ]
    assert 'calculator: "Echo"' in page["snippet"]
    status, error, _ = ask(server, "/v1/calculators/Ecko")
    assert status == 404
    assert 'Did you mean "Echo"?' in error["error"]["message"]


def test_a_graph_that_is_not_served_is_checked_and_tried(server: Serving) -> None:
    text = (
        'input_stream: "in"\noutput_stream: "out"\n'
        'node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }\n'
    )
    status, found, _ = ask(server, "/v1/scratch/check", {"text": text})
    assert (status, found["valid"], found["content"]) == (200, True, "1 node")
    # The calculators of the configuration are known too.
    own = {"text": 'node { calculator: "Echo" input_stream: "x" }'}
    messages = [each["message"] for each in ask(server, "/v1/scratch/check", own)[1]["findings"]]
    assert not any("Unable to find" in message for message in messages)
    packets = [{"stream": "in", "ts": 0, "value": {"a": 1}}]
    status, result, _ = ask(server, "/v1/scratch/run", {"text": text, "packets": packets})
    assert (status, result["state"]) == (200, "done")
    assert result["packets"] == [{"stream": "out", "ts": 0, "value": {"a": 1}}]
    # Nothing that is served has changed.
    _, models, _ = ask(server, "/v3/models")
    assert [each["id"] for each in models["data"]] == ["echo", "stream"]


def test_a_wrong_body_is_named(server: Serving) -> None:
    status, error, _ = ask(server, "/v1/scratch/run", {"text": "", "packet": []})
    assert status == 400
    assert "packet" in error["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/calculators", "/v1/live", "/v1/graphs/echo"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
    ],
    ids=["image", "neighbour's link", "page", "neighbour's page"],
)
def test_other_pages_learn_nothing(server: Serving, path: str, headers: dict[str, str]) -> None:
    status, error, _ = ask(server, path, headers=headers)
    assert status == 403
    assert error["error"]["message"]


# When it is on -----------------------------------------------------------------------------------


def options_of(*words: str) -> ServeOptions:
    args = make_parser().parse_args(spread(["serve", "demo", *words]))
    return serve_options(args)


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = tmp_path / "keys.txt"
    file.write_text(f"{KEY}\n")
    file.chmod(0o600)
    return str(file)


OPEN = ("--rest_bind_address", "0.0.0.0")
SOME = ("--rest_bind_address", "127.0.0.1,10.0.0.5")


@pytest.mark.parametrize(
    ("words", "page", "contents", "edit"),
    [
        ((), True, False, True),
        (("--rest_bind_address", "localhost,::1"), True, False, True),
        (OPEN, False, False, False),
        (SOME, False, False, False),
        ((*OPEN, "--page=true"), True, False, False),
        ((*OPEN, "--page=auto"), False, False, False),
        ((*OPEN, "--api_key_file=KEYS"), True, False, False),
        (("--api_key_file=KEYS",), True, False, False),
        (("--api_key_file=KEYS", "--page-edit=true"), True, False, True),
        (("--page=false",), False, False, True),
        (("--page_contents",), True, True, True),
        (("--page_edit=FALSE",), True, False, False),
    ],
)
def test_the_page_is_on_where_everybody_who_reaches_it_may_see_it(
    keys: str,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    page: bool,
    contents: bool,
    edit: bool,
) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    options = options_of(*(word.replace("KEYS", keys) for word in words))
    found = page_settings(options, access_of(options))
    assert (found.page, found.contents, found.edit) == (page, contents, edit)


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        ((*OPEN, "--page=true"), "everybody who can reach this machine sees the page"),
        ((*OPEN, "--page=true", "--page_contents"), "and what is asked"),
        ((*OPEN, "--page=true", "--page_operations"), "and what the log says"),
        ((*OPEN, "--page=true", "--page_edit=true"), "can run graphs here"),
        (("--page=false", "--page_operations"), "--page_operations has no effect"),
        (("--page=false", "--page_contents"), "--page_contents has no effect"),
        (("--page=false", "--page_edit=true"), "--page_edit has no effect"),
        (("--page=true",), ""),
    ],
)
def test_wide_access_to_the_page_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    warning: str,
) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    options = options_of(*words)
    warn_of_access(options, access_of(options))
    text = capsys.readouterr().err
    assert (warning in text) if warning else "page" not in text


def test_a_value_that_is_no_choice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options_of("--page=sometimes")
    assert "true, false or auto is needed" in capsys.readouterr().err

"""Endpoints that tasks of another package declare, of a real server: forms, GET, aliases, sound."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import validate

from tests.servers.cli.serving import Serving
from tests.servers.cli.task_site import make_task_site
from tests.servers.fronts.http.form_requests import BOUNDARY, form, part


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose directory, on its path, holds an installed package."""
    folder = tmp_path_factory.mktemp("site")
    with Serving(folder, make_task_site(folder).name, calculators=()) as serving:
        yield serving.wait_until_serving()


def asked(
    server: Serving, method: str, path: str, body: Any = None
) -> tuple[int, dict[str, str], bytes]:
    with server.request(method, path, body) as response:
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read()


def sent_form(server: Serving, path: str, *parts: bytes) -> tuple[int, str, bytes]:

    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    connection.request("POST", path, form(*parts), headers)
    response = connection.getresponse()
    found = response.status, response.headers["Content-Type"], response.read()
    connection.close()
    return found


@pytest.mark.parametrize("path", ["/v3/audio/hears", "/v1/audio/hears", "/v3/v1/audio/hears"])
def test_a_form_reaches_its_graph(server: Serving, path: str) -> None:
    found = sent_form(server, path, part("file", "abc", file="a"), part("model", "hear"))
    assert found == (200, "text/plain; charset=utf-8", b"cba")


def test_a_form_needs_its_model_and_its_file(server: Serving) -> None:
    status, _, body = sent_form(server, "/v3/audio/hears", part("file", "abc", file="a"))
    assert (status, json.loads(body)["error"]["param"]) == (400, "model")
    status, _, body = sent_form(server, "/v3/audio/hears", part("model", "hear"))
    assert (status, json.loads(body)["error"]["param"]) == (400, "file")


def test_sound_is_streamed(server: Serving) -> None:
    status, headers, body = asked(
        server, "POST", "/v3/audio/says", {"model": "say", "say": "one two"}
    )
    assert (status, headers["content-type"], body) == (200, "audio/wav", b"RIFFonetwo")
    assert headers["transfer-encoding"] == "chunked"


def test_sound_that_fails_is_cut_off(server: Serving) -> None:

    with pytest.raises(http.client.IncompleteRead) as cut:
        asked(server, "POST", "/v3/audio/says", {"model": "say", "say": "one fail"})
    assert cut.value.partial in (b"RIFF", b"RIFFone")


@pytest.mark.parametrize("path", ["/v3/audio/says/voices", "/v1/audio/says/voices?model=say&x=1"])
def test_a_lookup_is_for_the_named_or_only_model(server: Serving, path: str) -> None:
    status, headers, body = asked(server, "GET", path)
    assert (status, json.loads(body)) == (200, ["say", "GET", path])
    head_status, head, nothing = asked(server, "HEAD", path)
    assert (head_status, nothing) == (200, b"")
    assert head["content-length"] == headers["content-length"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("?model=gone", 404), ("?model=say&model=say", 400), ("?model=", 400)],
)
def test_a_lookup_of_no_model_is_refused(server: Serving, query: str, status: int) -> None:
    found, _, body = asked(server, "GET", f"/v3/audio/says/voices{query}")
    assert found == status
    assert json.loads(body)["error"]["message"]


def test_other_methods_are_refused_with_the_right_ones(server: Serving) -> None:
    status, headers, _ = asked(server, "POST", "/v3/audio/says/voices", {"model": "say"})
    assert (status, headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    status, headers, _ = asked(server, "GET", "/echoes")
    assert (status, headers["allow"]) == (405, "POST, OPTIONS")
    status, headers, _ = asked(server, "OPTIONS", "/v1/audio/says/voices")
    assert (status, headers["allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("path", ["/v3/echoes", "/v1/echoes", "/v2/echoes", "/echoes"])
@pytest.mark.parametrize("model", ["say", "hear"])
def test_tasks_that_share_a_path_are_told_apart_by_the_model(
    server: Serving, path: str, model: str
) -> None:
    status, _, body = asked(server, "POST", path, {"model": model})
    assert (status, json.loads(body)) == (200, [model, "POST", path])


def test_without_a_model_several_tasks_of_a_path_are_ambiguous(server: Serving) -> None:
    status, _, body = asked(server, "POST", "/echoes", {"query": "x"})
    assert status == 400
    assert json.loads(body)["error"]["message"].startswith("2 models answer this path")


def test_an_alias_has_openais_errors(server: Serving) -> None:
    status, _, body = asked(server, "POST", "/v2/echoes", {"model": "gone"})
    assert status == 404
    assert json.loads(body)["error"]["code"] == "model_not_found"


def test_the_paths_are_named_where_nothing_is_served(server: Serving) -> None:
    status, _, body = asked(server, "GET", "/v3/nothing")
    text = json.loads(body)["error"]["message"]
    assert status == 404
    assert "/v3/audio/says/voices" in text
    aliases = text.partition("; further ")[2].split(", ")
    assert {"/echoes", "/v2/echoes"} <= set(aliases)


def test_the_document_has_the_paths_of_all_tasks(server: Serving) -> None:
    status, _, body = asked(server, "GET", "/openapi.json")
    assert status == 200
    document = json.loads(body)
    validate(document)
    paths = document["paths"]
    assert {"get"} == paths["/v1/audio/says/voices"].keys()
    assert "multipart/form-data" in paths["/v3/audio/hears"]["post"]["requestBody"]["content"]
    for path in ("/v3/echoes", "/v2/echoes", "/echoes"):
        forms = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        names = [each["$ref"].rpartition("/")[2] for each in forms["anyOf"]]
        assert sorted(names) == ["Hearing", "Saying"]
    parameters = paths["/v3/audio/says/voices"]["get"]["parameters"]
    assert {"$ref": "#/components/parameters/Model"} in parameters


def test_metrics_count_such_requests(server: Serving) -> None:
    asked(server, "GET", "/v3/audio/says/voices")
    status, _, body = asked(server, "GET", "/metrics")
    assert status == 200
    assert b'name="say"' in body

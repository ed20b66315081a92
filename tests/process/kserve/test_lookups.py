"""Descriptions of the server and its models, and loading and unloading, as clients see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.kserve.asked import LANGUAGE_MODEL, MODELS, SPARE_OF
from tests.process.kserve.conftest import Seen

TRITON = [name for name in SPARE_OF if "triton" in name]
every_client = pytest.mark.parametrize("client", SPARE_OF)
every_triton_client = pytest.mark.parametrize("client", TRITON)

UNKNOWN = 'The model "no-such-model" does not exist.'


def not_found(client: str) -> list[str]:
    return ["StatusCode.NOT_FOUND" if "grpc" in client else "404", UNKNOWN]


@every_client
def test_the_server_and_its_models_are_ready(seen: Seen, client: str) -> None:
    facts = seen(client)
    assert (facts["live"], facts["ready"]) == (True, True)
    assert facts["models_ready"] == dict.fromkeys(MODELS, True)


@every_client
def test_a_model_that_does_not_exist_is_not_ready(seen: Seen, client: str) -> None:
    # Over REST a client sees only the status, and returns False.
    expected = not_found(client) if "grpc" in client else False
    assert seen(client)["no_model_ready"] == expected


@every_triton_client
def test_the_server_describes_itself(seen: Seen, client: str) -> None:
    name, extensions = seen(client)["server"]
    assert name == "graphrt"
    assert "model_repository" in extensions


@every_triton_client
def test_metadata_list_tensors_with_their_types(seen: Seen, client: str) -> None:
    known = seen(client)["metadata"]
    assert known["add"] == {
        "versions": ["1", "2"],
        "platform": "OpenVINO",
        "tensors": [["X", "FP32", [2]], ["SUM", "FP32", [2]]],
    }
    # Typed by the ports of an author's calculators.
    assert known["arithmetic"] == {
        "versions": ["1"],
        "platform": "graphrt",
        "tensors": [
            ["left", "FP32", []],
            ["right", "FP32", []],
            ["sum", "FP32", []],
            ["largest", "FP64", [1]],
        ],
    }
    # Any tensor passes.
    assert known["passing"]["tensors"] == [["in", "INVALID", []], ["out", "INVALID", []]]
    text = known[LANGUAGE_MODEL]["tensors"]
    assert ["text_input", "BYTES", [1]] in text
    assert ["text_output", "BYTES", [-1]] in text


@every_triton_client
def test_a_model_that_does_not_exist_has_no_metadata(seen: Seen, client: str) -> None:
    assert seen(client)["no_metadata"] == not_found(client)


@every_triton_client
def test_the_index_lists_every_version(seen: Seen, client: str) -> None:
    index = seen(client)["index"]
    assert index["add"] == [["1", "READY", ""], ["2", "READY", ""]]
    assert index["passing"] == [["1", "READY", ""]]
    assert set(MODELS) < set(index)


@every_triton_client
def test_a_model_is_unloaded_and_loaded_again(seen: Seen, client: str) -> None:
    told: dict[str, Any] = seen(client)["reload"]
    assert told["unloaded_ready"] is False
    status, text = told["unloaded_infer"]
    assert status == ("StatusCode.UNAVAILABLE" if "grpc" in client else "503")
    assert SPARE_OF[client] in text
    ((version, state, reason),) = told["unloaded_index"]
    assert (version, state, bool(reason)) == ("1", "UNAVAILABLE", True)
    assert told["loaded_ready"] is True
    assert told["loaded_infer"]["model"] == SPARE_OF[client]
    assert told["unknown"] == not_found(client)


def test_a_graph_with_a_process_can_be_loaded_right_after_it_was_unloaded(seen: Seen) -> None:
    answer = seen("with_triton_grpc")["restarted"]
    assert answer["outputs"] == {"uppercase": ["BYTES", [2], ["ONE", "TWO THREE"]]}


@every_triton_client
def test_requests_for_unserved_models_get_a_clean_error(seen: Seen, client: str) -> None:
    unserved = seen(client)["unserved"]
    status, text = unserved.pop("load_config")
    assert status == ("StatusCode.UNIMPLEMENTED" if "grpc" in client else "400")
    assert '"config" is not supported' in text
    expected = ["404", "nothing is served at this path"]
    if "grpc" in client:
        expected = ["StatusCode.UNIMPLEMENTED", "Method not found!"]
    names = ["config", "statistics", "trace", "shared_memory"]
    assert unserved == dict.fromkeys(names, expected)

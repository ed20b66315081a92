"""The served graphs: loading, states, requests, draining, retiring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, NotFoundError, RunError, UnavailableError
from servers.config import GraphEntry
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from tests.servers.serving.asking import answer
from tests.servers.serving.served_graphs import (
    COUNT_GRAPH,
    TELL_GRAPH,
    Initializer,
    Wait,
    http_graph,
    make_registry,
    write_graph,
)

Scenario = Callable[[ModelRepository], Coroutine[Any, Any, None]]


def serving(
    entries: list[GraphEntry], scenario: Scenario, *resources: Initializer, **settings: Any
) -> None:
    """Run a scenario on a repository that has loaded everything, and close it."""

    async def run() -> None:
        repository = ModelRepository(entries, make_registry(*resources), GraphSettings(**settings))
        await repository.load_all()
        try:
            await scenario(repository)
        finally:
            await repository.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def status(repository: ModelRepository, name: str) -> tuple[str, str, str]:
    """Return state, error code, error message."""
    every: Any = repository.statuses()
    (version,) = every[name]["model_version_status"]
    assert version["version"] == "1"
    return version["state"], version["status"]["error_code"], version["status"]["error_message"]


async def begin_waiting(repository: ModelRepository) -> asyncio.Task[list[str | bytes]]:
    """Start a request to the graph "wait", and wait until its node works on it."""
    Wait.began, Wait.go_on = asyncio.Event(), asyncio.Event()
    Wait.closed = 0
    request = asyncio.create_task(answer(repository, "wait"))
    await Wait.began.wait()
    return request


# Answering ----------------------------------------------------------------------------------------


def test_a_request_is_answered_by_its_graph(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        assert await answer(repository, "echo", "hello") == ["hello"]
        assert await answer(repository, "count", "3") == ["0", "1", "2", "3"]
        both = asyncio.gather(answer(repository, "count", "50"), answer(repository, "echo", "x"))
        assert [len(packets) for packets in await both] == [51, 1]

    entries = [
        write_graph(tmp_path, "echo", http_graph("Echo")),
        write_graph(tmp_path, "count", COUNT_GRAPH),
    ]
    serving(entries, scenario)


@pytest.mark.parametrize(
    ("request_stream", "response_stream"),
    [
        ("HTTP_REQUEST_PAYLOAD:asked", "HTTP_RESPONSE_PAYLOAD:said"),
        ("REQUEST_PAYLOAD:asked", "RESPONSE_PAYLOAD:said"),
        ("input", "output"),
        ("OTHER:input", "OTHER:output"),
    ],
)
def test_streams_are_found_by_tag_or_else_by_name(
    tmp_path: Path, request_stream: str, response_stream: str
) -> None:
    asked = request_stream.rpartition(":")[2]
    said = response_stream.rpartition(":")[2]
    text = (
        f'input_stream: "{request_stream}" output_stream: "{response_stream}"'
        f'node {{ calculator: "Echo" input_stream: "HTTP_REQUEST_PAYLOAD:{asked}"'
        f' output_stream: "HTTP_RESPONSE_PAYLOAD:{said}" }}'
    )

    async def scenario(repository: ModelRepository) -> None:
        assert await answer(repository, "echo", "hello") == ["hello"]

    serving([write_graph(tmp_path, "echo", text)], scenario)


def test_a_graph_that_is_not_for_http_refuses_http_requests(tmp_path: Path) -> None:
    text = """input_stream: "input" output_stream: "output" node {
        calculator: "Number" input_stream: "HTTP_REQUEST_PAYLOAD:input"
        output_stream: "HTTP_RESPONSE_PAYLOAD:number" }
        node { calculator: "Double" input_stream: "number" output_stream: "output" }"""
    only_in = text.replace('output_stream: "output" node', "node", 1)
    entries = [
        write_graph(tmp_path, "out", only_in),
        write_graph(tmp_path, "in", 'output_stream: "OUT:x"' + only_in.replace("input", "x", 1)),
    ]

    def double(number: int) -> int:
        return number

    async def run() -> None:
        registry = make_registry()
        registry.register_calculator(double, "Double")
        repository = ModelRepository(entries, registry)
        await repository.load_all()
        with pytest.raises(RequestError, match="has no output stream for the answer") as caught:
            await answer(repository, "out")
        assert (caught.value.code, caught.value.param) == (Code.INVALID_ARGUMENT, "model")
        await repository.close()

    asyncio.run(run())


def test_the_error_of_a_calculator_is_the_cause(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(RunError) as caught:
            await answer(repository, "fail", "no luck")
        (error,) = caught.value.errors
        assert repr(error.__cause__) == "ValueError('no luck')"
        with pytest.raises(RunError, match="carries str, bytes or HttpAnswer, not int"):
            await answer(repository, "number")

    entries = [
        write_graph(tmp_path, "fail", http_graph("Fail")),
        write_graph(tmp_path, "number", http_graph("Number")),
    ]
    serving(entries, scenario)


def test_an_unknown_model_gets_a_suggestion(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(NotFoundError) as caught:
            await answer(repository, "ecko")
        assert str(caught.value) == 'The model "ecko" does not exist. Did you mean "echo"?'
        with pytest.raises(NotFoundError, match=r'"gpt-4" does not exist\. There is echo'):
            await answer(repository, "gpt-4")
        with pytest.raises(NotFoundError, match=r"longer than 256"):
            await answer(repository, "e" * 100_000)

    serving([write_graph(tmp_path, "echo", http_graph("Echo"))], scenario)


def test_requests_beyond_a_graphs_limit_are_refused(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        request = await begin_waiting(repository)
        with pytest.raises(RequestError, match="1 requests in flight") as caught:
            await answer(repository, "wait")
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        assert caught.value.retry_after == 1
        Wait.go_on.set()
        await request
        assert await answer(repository, "wait") == ["ended"]

    serving([write_graph(tmp_path, "wait", http_graph("Wait"))], scenario, request_limit=1)


@pytest.mark.parametrize("times", [1, 3])
def test_cancelling_the_request_ends_its_graph_first(tmp_path: Path, times: int) -> None:
    async def scenario(repository: ModelRepository) -> None:
        request = await begin_waiting(repository)
        for _ in range(times):
            request.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await request
        assert Wait.closed == 1
        Wait.go_on.set()
        assert await answer(repository, "wait") == ["ended"]

    serving([write_graph(tmp_path, "wait", http_graph("Wait"))], scenario)


# Loading ------------------------------------------------------------------------------------------


def test_a_graph_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    entries = [
        write_graph(tmp_path, "bad", http_graph("Ecko")),
        write_graph(tmp_path, "worse", "node {"),
        write_graph(tmp_path, "echo", http_graph("Echo")),
        GraphEntry("gone", tmp_path / "gone", tmp_path / "gone" / "graph.pbtxt", tmp_path),
    ]

    async def scenario(repository: ModelRepository) -> None:
        assert status(repository, "echo") == ("AVAILABLE", "OK", "OK")
        assert [model.name for model in repository.models()] == ["echo"]
        assert repository.is_ready
        assert await answer(repository, "echo", "hello") == ["hello"]
        for name, reason in [
            ("bad", 'Did you mean "Echo"?'),
            ("worse", "graph.pbtxt:1:"),
            ("gone", "graph.pbtxt: no such file"),
        ]:
            state, code, message = status(repository, name)
            assert (state, code) == ("LOADING", "FAILED_PRECONDITION")
            assert reason in message
            assert str(tmp_path) not in message
            with pytest.raises(UnavailableError, match="could not be loaded") as caught:
                await answer(repository, name)
            assert message in str(caught.value)

    serving(entries, scenario)


def test_a_server_is_not_ready_if_every_graph_failed(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        assert not repository.is_ready

    serving([write_graph(tmp_path, "bad", "node {")], scenario)


def test_a_server_without_graphs_is_ready() -> None:
    async def scenario(repository: ModelRepository) -> None:
        assert repository.is_ready
        assert repository.statuses() == {}

    serving([], scenario)


def test_an_invalid_size_of_the_graph_queue_is_an_error(tmp_path: Path) -> None:
    entries = [
        write_graph(tmp_path, f"queue{n}", f"# OVMS_GRAPH_QUEUE_MAX_SIZE: {value}\n" + graph)
        for n, (value, graph) in enumerate(
            [("AUTO", http_graph("Echo")), ("16", http_graph("Echo")), ("-1", http_graph("Echo"))]
        )
    ]

    async def scenario(repository: ModelRepository) -> None:
        assert status(repository, "queue0")[0] == "AVAILABLE"
        assert status(repository, "queue1")[0] == "AVAILABLE"
        assert "OVMS_GRAPH_QUEUE_MAX_SIZE is -1; a whole number" in status(repository, "queue2")[2]

    serving(entries, scenario)


def test_a_side_packet_that_nothing_provides_is_an_error_of_the_graph(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        assert 'needs the input side packet "told"' in status(repository, "tell")[2]

    serving([write_graph(tmp_path, "tell", TELL_GRAPH)], scenario)


def test_other_graphs_answer_while_one_loads(tmp_path: Path) -> None:
    entries = [
        write_graph(tmp_path, "echo", http_graph("Echo")),
        write_graph(tmp_path, "tell", TELL_GRAPH),
    ]
    initializer = Initializer()

    async def run() -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        repository = ModelRepository(entries, make_registry(initializer))
        assert status(repository, "tell") == ("START", "OK", "not loaded yet")
        with pytest.raises(UnavailableError, match="still loading"):
            await answer(repository, "echo")
        loading = asyncio.create_task(repository.load_all())
        await initializer.began.wait()
        await repository.load("echo")
        assert await answer(repository, "echo", "hello") == ["hello"]
        assert status(repository, "tell") == ("LOADING", "OK", "loading")
        assert not repository.is_ready
        with pytest.raises(UnavailableError, match='"tell" is still loading'):
            await answer(repository, "tell")
        initializer.gate.set()
        await loading
        assert await answer(repository, "tell") == ["tell"]
        assert [model.name for model in repository.models()] == ["echo", "tell"]
        assert repository.is_ready
        await repository.close()

    asyncio.run(run())


def test_closing_interrupts_loads(tmp_path: Path) -> None:
    initializer = Initializer()

    async def run() -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        entry = write_graph(tmp_path, "tell", TELL_GRAPH)
        repository = ModelRepository([entry], make_registry(initializer))
        loading = asyncio.create_task(repository.load_all())
        await initializer.began.wait()
        await repository.close()
        await loading
        assert status(repository, "tell")[0] == "END"

    asyncio.run(run())


# Resources ----------------------------------------------------------------------------------------


def test_the_reason_why_a_resource_cannot_be_made_is_reported(tmp_path: Path) -> None:
    initializer = Initializer()
    initializer.failure = f"no model in {tmp_path}/tell/models/llm: see https://a.b/c/d"

    async def scenario(repository: ModelRepository) -> None:
        assert status(repository, "tell") == (
            "LOADING",
            "FAILED_PRECONDITION",
            "no model in models/llm: see https://a.b/c/d",
        )

    serving([write_graph(tmp_path, "tell", TELL_GRAPH)], scenario, initializer)


def test_a_server_whose_resource_is_down_is_not_ready_until_it_is_up_again(tmp_path: Path) -> None:
    initializer = Initializer()

    async def scenario(repository: ModelRepository) -> None:
        (resource,) = initializer.made
        resource.unavailable_reason = "the engine is starting again"
        assert not repository.is_ready
        assert status(repository, "tell") == ("LOADING", "UNKNOWN", "the engine is starting again")
        resource.unavailable_reason = ""
        assert repository.is_ready

    serving([write_graph(tmp_path, "tell", TELL_GRAPH)], scenario, initializer)


def test_resources_are_closed_once_at_the_end(tmp_path: Path) -> None:
    initializer = Initializer()

    async def scenario(repository: ModelRepository) -> None:
        assert [resource.closed for resource in initializer.made] == [0]

    serving([write_graph(tmp_path, "tell", TELL_GRAPH)], scenario, initializer)
    assert [resource.closed for resource in initializer.made] == [1]


# The end ------------------------------------------------------------------------------------------


def test_draining_refuses_new_requests_and_lets_running_ones_finish(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        request = await begin_waiting(repository)
        repository.begin_draining()
        assert not repository.is_ready
        with pytest.raises(UnavailableError, match="shutting down"):
            await answer(repository, "wait")
        Wait.go_on.set()
        await request

    serving([write_graph(tmp_path, "wait", http_graph("Wait"))], scenario)


def test_retiring_waits_for_requests_in_flight(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        request = await begin_waiting(repository)
        (definition,) = repository.servables()
        retiring = asyncio.create_task(definition.retire())
        await asyncio.sleep(0)  # its first step
        assert status(repository, "wait") == (
            "UNLOADING",
            "OK",
            "unloading: no new requests; those in flight go on to their end",
        )
        with pytest.raises(UnavailableError, match="not served any more"):
            await answer(repository, "wait")
        assert not retiring.done()
        Wait.go_on.set()
        await retiring
        assert request.done()
        assert status(repository, "wait") == ("END", "OK", "unloaded")

    serving([write_graph(tmp_path, "wait", http_graph("Wait"))], scenario)


def test_a_retired_graph_can_be_loaded_again(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        (definition,) = repository.servables()
        await definition.retire()
        await definition.load()
        assert await answer(repository, "echo", "again") == ["again"]

    serving([write_graph(tmp_path, "echo", http_graph("Echo"))], scenario)

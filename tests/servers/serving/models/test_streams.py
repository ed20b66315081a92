"""Streams of requests to a plain model."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import InferRequest, InferResponse, Tensor
from graph_runtime import Code, NotFoundError, UnavailableError
from servers.contract.data_plane import InferAnswer, InferFailure
from servers.serving.model_repository import ModelRepository
from tests.calculators.tensors.openvino.tiny_models import add_model, calling_model, compiled, save
from tests.servers.serving.asking import opened
from tests.servers.serving.models.model_folders import (
    entry,
    numbers,
    request,
    serving,
    write_versions,
)
from tests.support.patience import PATIENCE


def numbered(asked: InferRequest, number: int) -> InferRequest:
    return InferRequest(asked.model, asked.version, str(number), {}, asked.inputs)


def shown(answer: InferAnswer) -> Any:
    """Return id and numbers, or id and code."""
    if isinstance(answer, InferFailure):
        assert isinstance(answer.error, RequestError | UnavailableError)
        return answer.id, answer.error.code
    (output,) = answer.outputs
    assert isinstance(output, Tensor)
    return answer.id, output.data.tolist()


def test_answers_are_in_order_with_the_ids_of_their_requests(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        answers: list[InferAnswer] = []
        first = request("m", X=[0, 0])
        async with opened(repository, first, answers.append) as stream:
            for number in range(20):
                await stream.send(numbered(request("m", X=[number, 0]), number))
            stream.close_inputs()
            await stream.wait()
        assert [shown(each) for each in answers] == [(str(n), [n + 1, 1]) for n in range(20)]
        assert all(isinstance(each, InferResponse) and each.version == "1" for each in answers)

    serving([entry(tmp_path, "m", nireq=2)], scenario)


def test_a_request_that_fails_is_answered_in_its_place(tmp_path: Path) -> None:
    save(add_model(), tmp_path / "m" / "1" / "m.xml")
    sums = [
        request("m", A=[1], B=[2]),
        request("m", A=[1]),
        request("m", A=[1, 2], B=[1, 2, 3]),
        request("m", A=[3], B=[4]),
    ]

    async def scenario(repository: ModelRepository) -> None:
        answers: list[InferAnswer] = []
        async with opened(repository, sums[0], answers.append) as stream:
            for number, asked in enumerate(sums):
                await stream.send(numbered(asked, number))
            stream.close_inputs()
            await stream.wait()
        assert [shown(each) for each in answers] == [
            ("0", [3]),
            ("1", Code.INVALID_ARGUMENT),
            ("2", Code.INTERNAL),
            ("3", [7]),
        ]

    serving([entry(tmp_path, "m")], scenario)


def test_a_stream_belongs_to_one_version_of_one_model(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1, 2)
    policy: dict[str, object] = {"all": {}}

    async def scenario(repository: ModelRepository) -> None:
        answers: list[InferAnswer] = []
        first = request("m", version="1", X=[0, 0])
        async with opened(repository, first, answers.append) as stream:
            for bad, message in [
                (request("n", X=[0, 0]), 'one to the model "m", not to "n"'),
                (request("m", version="2", X=[0, 0]), 'one to version 1 of the model, not to "2"'),
            ]:
                with pytest.raises(RequestError, match=message):
                    await stream.send(bad)
            for version in ("", "0", "1"):
                await stream.send(request("m", version=version, X=[0, 0]))
            stream.close_inputs()
            await stream.wait()
        assert [shown(each) for each in answers] == [("7", [1, 1])] * 3

    serving([entry(tmp_path, "m", model_version_policy=policy)], scenario)


def test_a_stream_to_an_unknown_model_is_not_opened(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        for model, kind in [("none", NotFoundError), ("m", UnavailableError)]:
            with pytest.raises(kind):
                async with opened(repository, request(model), print):
                    pass

    serving([entry(tmp_path, "m")], scenario)


def test_a_stream_continues_with_a_model_that_is_unloaded(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        answers: list[InferAnswer] = []
        first = request("m", X=[0, 0])
        async with opened(repository, first, answers.append) as stream:
            await stream.send(first)
            await repository.unload("m")
            await stream.send(first)
            stream.close_inputs()
            await stream.wait()
        assert shown(answers[-1]) == ("7", [1, 1])
        with pytest.raises(UnavailableError, match="not served any more"):
            await numbers(repository, first)

    serving([entry(tmp_path, "m")], scenario)


def test_inferences_of_a_stream_overlap_and_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_versions(tmp_path, "m", 1)
    both = threading.Barrier(2)

    class Core:
        def read_model(self, file: Path) -> Any:
            return calling_model(lambda: both.wait(PATIENCE))

        def compile_model(self, network: Any, *arguments: Any) -> Any:
            return compiled(network, NUM_STREAMS="2", INFERENCE_NUM_THREADS=2)

    monkeypatch.setattr("calculators.tensors.openvino.model_loading._core", lambda _: Core())

    async def scenario(repository: ModelRepository) -> None:
        answers: list[InferAnswer] = []
        asked = request("m", X=[1, 2])
        async with opened(repository, asked, answers.append) as stream:
            # Each waits in OpenVINO for another one.
            await asyncio.gather(*(stream.send(asked) for _ in range(6)))
            stream.close_inputs()
            await stream.wait()
        assert len(answers) == 6

    serving([entry(tmp_path, "m", nireq=2)], scenario)


def test_a_client_that_leaves_a_stream_leaves_nothing_behind(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        answers: list[InferAnswer] = []
        asked = request("m", X=[1, 2])
        async with opened(repository, asked, answers.append) as stream:
            await stream.send(asked)
            await stream.send(asked)
        assert await numbers(repository, asked) == [2, 3]

    # `serving` checks that no task is left.
    serving([entry(tmp_path, "m")], scenario)

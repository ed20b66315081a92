"""Failures of handlers, and how they are reported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.instance import HandlerError
from graph_runtime import Code, GraphError
from tests.calculators.tensors.python.running import loaded

HANDLER = """
from calculators.kit.requests.http_payload import RequestError
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        text = bytes(inputs[0]).decode()
        if text == "well":
            return [Tensor("uppercase", b"WELL")]
        {}

    def finalize(self):
        raise RuntimeError("cannot let go")
"""


def failure_of(folder: Path, isolation: str, statement: str) -> GraphError:
    """Return the error of a run whose handler does this; check that a following run succeeds."""

    async def scenario() -> GraphError:
        async with loaded(folder, HANDLER.format(statement), isolation=isolation) as graph:
            error = await (await graph.run("badly")).failure()
            assert await (await graph.run("well")).texts() == [(0, "WELL")]
            return error

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ('raise ValueError("no such colour\\nTraceback: secret")', "ValueError: no such colour"),
        ("raise KeyError", "KeyError"),
        ("raise StopIteration(3)", "StopIteration: 3"),
        ("raise SystemExit(1)", "SystemExit: 1"),
        ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_h"),
    ],
)
def test_an_exception_is_reported_by_its_first_line_and_logged_in_full(
    tmp_path: Path, isolation: str, caplog: pytest.LogCaptureFixture, statement: str, told: str
) -> None:
    error = failure_of(tmp_path, isolation, statement)
    assert isinstance(error, HandlerError)
    assert error.code is Code.INTERNAL
    assert str(error).startswith(f'the handler of node "node" failed: {told}')
    assert "secret" not in str(error)
    assert str(tmp_path) not in str(error)
    assert 'node "node": the handler failed' in caplog.text
    assert f'File "{tmp_path}/model.py", line 10' in caplog.text


def test_a_request_error_is_passed_on(
    tmp_path: Path, isolation: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = failure_of(tmp_path, isolation, 'raise RequestError("too long", param="text")')
    assert type(error) is RequestError
    assert (str(error), error.param, error.code) == ("too long", "text", Code.INVALID_ARGUMENT)
    assert (error.retry_after, error.reason) == (None, None)
    assert "too long" not in caplog.text


def test_a_request_error_keeps_all_its_attributes(tmp_path: Path, isolation: str) -> None:
    statement = (
        'raise RequestError("busy", code=Code.RESOURCE_EXHAUSTED, retry_after=2.5, reason="full")'
    )
    error = failure_of(tmp_path, isolation, "from graph_runtime import Code; " + statement)
    assert isinstance(error, RequestError)
    assert error.code is Code.RESOURCE_EXHAUSTED
    assert (error.retry_after, error.reason) == (2.5, "full")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("return None", "it gave NoneType; a list of pyovms.Tensor is needed"),
        ('return "text"', "it gave str; a list of pyovms.Tensor is needed"),
        ('return Tensor("uppercase", b"")', "it gave Tensor; a list of pyovms.Tensor is needed"),
        ("return [3]", "it gave a list that holds int; it must hold pyovms.Tensor only"),
        (
            'return [Tensor("upercase", b"")]',
            'it gave a tensor named "upercase"; the outputs of the node are "uppercase" '
            'Did you mean "uppercase"?',
        ),
        (
            'return [Tensor("uppercase", b""), Tensor("uppercase", b"")]',
            'it gave two tensors named "uppercase" at once',
        ),
    ],
)
def test_invalid_results_are_refused(
    tmp_path: Path, isolation: str, statement: str, told: str
) -> None:
    error = failure_of(tmp_path, isolation, statement)
    assert str(error) == f'the handler of node "node" failed: {told}'
    assert error.code is Code.INTERNAL


def test_an_error_of_finalize_is_logged(
    tmp_path: Path, isolation: str, caplog: pytest.LogCaptureFixture
) -> None:
    failure_of(tmp_path, isolation, "raise ValueError")
    assert "RuntimeError: cannot let go" in caplog.text


def test_an_array_without_a_buffer_is_refused_by_its_stream(tmp_path: Path) -> None:
    import numpy as np

    async def scenario() -> GraphError:
        async with loaded(tmp_path, HANDLER.format("pass")) as graph:
            return await (await graph.run(np.array([3], object))).failure()

    error = asyncio.run(scenario())
    assert isinstance(error, RequestError)
    assert str(error) == 'the stream "text": an element of BYTES is bytes or str, not int'

"""Random streams of requests: each continues, and answers exactly the accepted requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import RequestError
from tests.example_counts import examples
from tests.servers.serving.graph_inference.graphs import (
    loaded,
    passing,
    session,
    tensor,
    times,
    values,
)

TIMES = st.none() | st.integers(-3, 6) | st.sampled_from([2**63, "1", True])
INPUTS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any")


@settings(max_examples=examples(60))
@given(requests=st.lists(st.tuples(INPUTS, TIMES, st.booleans()), max_size=12))
def test_any_stream_answers_exactly_its_accepted_requests(
    folder: Path, requests: list[tuple[list[str], Any, bool]]
) -> None:
    async def scenario() -> None:
        text = passing("a", "a_out") + passing("b", "b_out")
        async with loaded(folder, text) as graph, session(graph) as stream:
            expected = []
            last: dict[str, int] = {}
            following = 0
            for number, (inputs, asked, yields) in enumerate(requests):
                time = following if asked is None else asked
                is_good = (
                    type(time) is int
                    and time < 2**63
                    and "c" not in inputs
                    and all(time > last.get(name, -100) for name in inputs)
                )
                tensors = [tensor(name, [number]) for name in inputs]
                parameters = {} if asked is None else {"OVMS_MP_TIMESTAMP": asked}
                try:
                    await stream.send(*tensors, **parameters)
                except RequestError:
                    assert not is_good
                else:
                    assert is_good
                    last.update(dict.fromkeys(inputs, time))
                    following = max(following, time + 1)
                    expected += [(time, (f"{name}_out", [number])) for name in inputs]
                if yields:
                    await asyncio.sleep(0)
            answers = await stream.finish()
            assert sorted(zip(times(answers), values(answers), strict=True)) == sorted(expected)

    asyncio.run(scenario())

"""Whose image is drawn next: a turn is an image, and large images have a process of their own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calculators.images.image_generation import servable
from calculators.images.image_generation.image_settings import ImageSettings
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from graph_runtime import FamilySettings
from servers.serving.loaded_graph import GraphSettings
from tests.calculators.images.image_generation.drawn import (
    Drawn,
    edit_payload,
    pictures,
    same,
    served,
)
from tests.calculators.images.image_generation.image_models import graph, make_model
from tests.calculators.images.image_generation.test_drawing import LONG, LeavingClient
from tests.calculators.images.media.pictures import picture


async def asked(drawn: Drawn, client: str, **body: Any) -> dict[str, Any]:
    """Generate as a client of that name."""
    set_current_record(RequestRecord(client, client=ClientIdentity(client)))
    return await drawn.generate(**body)


def test_another_clients_image_comes_before_the_second_one_of_a_request(tmp_path: Path) -> None:
    make_model(tmp_path, text=graph(LONG))
    order: list[str] = []

    async def scenario(drawn: Drawn) -> None:
        async def ask(client: str, **body: Any) -> dict[str, Any]:
            answer = await asked(drawn, client, **body)
            order.append(client)
            return answer

        many = [
            asyncio.create_task(ask("a", prompt="a", n=3, steps=20, size="96x96")) for _ in range(2)
        ]
        await drawn.until_a_step()
        one = await ask("b", prompt="b", size="64x64", steps=2)
        assert len(pictures(one)) == 1
        assert order == ["b"]
        for each in await asyncio.gather(*many):
            assert len(pictures(each)) == 3
        assert len(drawn.servable.pids) == 1

    served(tmp_path, scenario)


def test_requests_that_have_begun_do_not_count_as_waiting(tmp_path: Path) -> None:
    make_model(tmp_path, text=graph("default_num_inference_steps: 20"))

    async def scenario(drawn: Drawn) -> None:
        asks = [asked(drawn, name, prompt="a", n=3) for name in ("a", "b", "c")]
        tasks = [asyncio.create_task(ask) for ask in asks]
        for task in tasks:
            assert len(pictures(await task)) == 3

    served(
        tmp_path,
        scenario,
        GraphSettings(families=FamilySettings(ImageSettings(image_queue_limit=2))),
    )


def test_a_large_image_is_drawn_beside_others(tmp_path: Path) -> None:
    make_model(tmp_path, text=graph("default_num_inference_steps: 2 max_num_inference_steps: 900"))

    async def scenario(drawn: Drawn) -> None:
        large = asyncio.create_task(asked(drawn, "a", prompt="a", steps=900, size="256x256"))
        await drawn.until_a_step()
        first = await asked(drawn, "b", prompt="b", seed=1)
        assert not large.done()
        ordinary, own = drawn.servable.pids
        large.cancel()
        with pytest.raises(asyncio.CancelledError):
            await large
        again = await asked(drawn, "a", prompt="b", seed=1, steps=2, n=2, size="256x256")
        assert [each.shape for each in pictures(again)] == [(256, 256, 3)] * 2
        assert drawn.servable.pids == [ordinary, own]
        alone = await asked(drawn, "c", prompt="b", seed=1)
        assert same(*(pictures(each)[0] for each in (first, alone)))

    served(tmp_path, scenario)


def test_the_process_of_large_images_ends_when_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servable, "IDLE_SECONDS", 0.0)
    make_model(tmp_path, text=graph())

    async def scenario(drawn: Drawn) -> None:
        assert len(pictures(await drawn.generate(prompt="a", size="128x128", n=2))) == 2
        while len(drawn.servable.pids) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert len(pictures(await drawn.generate(prompt="a", size="128x128"))) == 1

    served(tmp_path, scenario)


def test_a_step_that_takes_long_ends_with_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servable, "CANCEL_SECONDS", 0.0)
    make_model(tmp_path, text=graph())

    async def scenario(drawn: Drawn) -> None:
        client = LeavingClient()
        # Its steps take minutes: they are of 4096 x 4096 pixels, as the given picture.
        payload = replace(edit_payload(picture(4096, 4096), prompt="a"), client=client)
        left = asyncio.create_task(drawn.packets(payload))
        while len(drawn.servable.pids) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert len(pictures(await drawn.generate(prompt="a"))) == 1
        client.leave()
        with pytest.raises(BaseException):  # noqa: B017
            await left
        while len(drawn.servable.pids) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    served(tmp_path, scenario)


def test_without_memory_for_another_process_all_is_drawn_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servable, "available_memory", lambda: 1)
    make_model(tmp_path, text=graph())

    async def scenario(drawn: Drawn) -> None:
        assert len(pictures(await drawn.generate(prompt="a", size="128x128", n=2))) == 2
        assert len(drawn.servable.pids) == 1

    served(tmp_path, scenario)

"""Usual clients: aiohttp's and the standard library's."""

from __future__ import annotations

import asyncio
import http.client
import json

import aiohttp
import pytest

from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, FakeDataPlane, hang_after_one
from tests.servers.fronts.http.http_client import serving
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.both_loops


def test_aiohttps_client_is_answered(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang_after_one)
        async with serving(plane) as front, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{front.addresses[0][1]}/v1/chat/completions"
            async with session.post(url, json={"model": "echo"}) as response:
                assert (await response.json())["echo"] == {"model": "echo"}
            async with session.post(url, json={"model": "echo", "stream": True}) as response:
                assert (await response.text()).endswith(END)
            async with session.post(url, json={"model": "hang", "stream": True}) as response:
                assert await response.content.readline() == b"data: first\n"
                plane.ended.clear()
            await plane.ended.wait()  # leaving the block closes the connection
            async with session.post(url, data={"model": "echo"}) as response:
                assert response.status == 415

    run(scenario())


def test_the_standard_librarys_client_is_answered(run: Run) -> None:
    def talk(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            for stream in (False, True, False):
                body = json.dumps({"model": "echo", "stream": stream})
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/v3/chat/completions", body, headers)
                response = connection.getresponse()
                assert response.status == 200
                assert response.read().decode().endswith(END) is stream
        finally:
            connection.close()

    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            await asyncio.to_thread(talk, front.addresses[0][1])

    run(scenario())

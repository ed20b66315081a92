"""The corpus of hostile requests, as far as the front alone decides.

Cases that need a calculator (sampling, messages, tools, ...) are run on servers that have it.
"""

from __future__ import annotations

import asyncio
import sys

from tests.corpora import corpora
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane, echo
from tests.servers.fronts.http.fake_models import pass_through
from tests.servers.fronts.http.http_client import serving

CASES = corpora()
GROUPS = "json,http,wire,model_name,browser,kserve,logs"


def test_the_front_refuses_what_it_must(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(tiny=echo)
        plane.inferences["tiny"] = pass_through
        async with serving(plane) as front:
            runner = await asyncio.create_subprocess_exec(
                sys.executable,
                str(CASES / "run_bad_inputs.py"),
                *("--url", f"http://127.0.0.1:{front.addresses[0][1]}"),
                *("--model", "tiny", "--group", GROUPS, "--have", "host_and_origin_check"),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await runner.communicate()
        assert runner.returncode == 0, output.decode()

    run(scenario())

"""The process of a model over texts gives back the memory that a long text took."""

from __future__ import annotations

from pathlib import Path

from tests.process.server_process import ServerProcess
from tests.reliability.site import make_site
from tests.support.conditions import wait_until
from tests.support.memory import resident_bytes

MIB = 1 << 20


def test_a_long_text_leaves_no_memory_in_its_process(tmp_path: Path) -> None:
    with ServerProcess(make_site(tmp_path, "docs_ranker")) as server:
        server.client.post("/v3/tokenize", model="docs_ranker", text="ab " * 1000)
        (process,) = server.children()
        before = resident_bytes(process)
        # It takes 120 MiB meanwhile.
        reply = server.client.post("/v3/tokenize", model="docs_ranker", text="ab " * 349_000)
        assert reply.status == 200
        assert server.children().keys() == {process}
        wait_until(lambda: resident_bytes(process) < before + 48 * MIB, "the memory is given back")

"""The server of the tests: a start at which nothing is served is an error, not a wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.cli.serving import Serving, make_site


def test_a_start_at_which_nothing_is_served_fails_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.servers.cli.serving._REST_OF_REPORT", 0.5)
    config = make_site(tmp_path)
    for name in ("echo", "stream"):
        (tmp_path / name / "graph.pbtxt").write_text('node { calculator: "Ecko" }')
    with Serving(tmp_path, config) as server, pytest.raises(AssertionError, match="Ecko"):
        server.wait_until_serving()

"""A change is tested by the tests of its rooms and by those that import what it changes."""

from __future__ import annotations

import pytest

from tests.support.checkout import ROOT
from tests.tiers import imported_by
from tests.touched import Change


@pytest.mark.parametrize(
    ("path", "file", "is_concerned"),
    [
        ("calculators/speech/audio/tempo.py", "calculators/speech/audio/test_tempo.py", True),
        ("calculators/speech/audio/tempo.py", "calculators/tensors/python/test_tensors.py", False),
        # It imports a module of that room, which is not the one that changed.
        ("servers/config/entries.py", "servers/cli/test_serve.py", False),
        ("servers/access.py", "servers/access/test_api_keys.py", True),
        ("graph_runtime/timestamp.py", "graph_runtime/test_packet.py", True),
        ("calculators/images/media/download.py", "architecture/test_documents.py", True),
        # Through tests/servers/cli/serving.py.
        ("tests/servers/cli/process.py", "servers/cli/test_serve.py", True),
        ("tests/process/conftest.py", "process/test_streams.py", True),
        ("tests/process/test_streams.py", "process/test_streams.py", True),
        ("tests/process/test_streams.py", "process/test_batches.py", False),
        ("docs/map.md", "documents/test_readme.py", True),
        ("README.md", "documents/test_readme.py", True),
        ("examples/graphs/agent/graph.pbtxt", "examples/test_agent.py", True),
        ("pyproject.toml", "examples/test_agent.py", False),
    ],
)
def test_a_change_concerns_a_file(path: str, file: str, is_concerned: bool) -> None:
    test_file = ROOT / "tests" / file
    change = Change(frozenset({path}))
    assert change.concerns(test_file, imported_by(test_file)) is is_concerned

"""docs/kept_responses.md: its client, as it is written."""

from __future__ import annotations

from pathlib import Path

from tests.documents.snippets import ADDRESS, run_python, served
from tests.support.checkout import ROOT
from tests.support.markdown import block

PAGE = "docs/kept_responses.md"


def test_a_client_goes_on_from_what_is_kept(tmp_path: Path) -> None:
    client = block(PAGE, "python", "client.responses.create")
    assert ADDRESS in client
    with served(f"graphrt serve {ROOT / 'examples' / 'models' / 'demo'}", tmp_path) as running:
        written = client.replace(ADDRESS, f"http://127.0.0.1:{running.port}")
        (tmp_path / "client.py").write_text(written)
        items, last, text = run_python("client.py", tmp_path).splitlines()[:3]
    assert items == "[('message', 'user'), ('message', 'assistant')]"
    assert last == "response.completed"
    assert text

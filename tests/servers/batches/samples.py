"""Files and batches for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from servers.batches.objects import Batch, StoredFile, new_id
from servers.batches.store import BatchStore

CHAT = "/v1/chat/completions"
NOW = 1_800_000_000


def line(number: int, **members: Any) -> dict[str, Any]:
    """Return a request, with other members than usual."""
    body = {"model": "demo", "number": number}
    usual = {"custom_id": f"request-{number}", "method": "POST", "url": CHAT, "body": body}
    return {**usual, **members}


def lines_of(requests: Iterable[Any]) -> bytes:
    """Return a file: objects as JSON, texts as they are."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in requests)
    return "".join(f"{text}\n" for text in texts).encode()


def add_file(store: BatchStore, content: bytes, *, owner: str = "", **members: Any) -> StoredFile:
    usual = {"filename": "in.jsonl", "purpose": "batch", "created_at": NOW}
    file = StoredFile(id=new_id("file-"), owner=owner, size=len(content), **{**usual, **members})
    store.path_of(file.id).write_bytes(content)
    store.add_file(file)
    return file


def add_batch(store: BatchStore, content: bytes, *, owner: str = "", **members: Any) -> Batch:
    file = add_file(store, content, owner=owner)
    usual = {"endpoint": CHAT, "created_at": NOW, "id": new_id("batch_")}
    return store.add_batch(Batch(owner=owner, input_file_id=file.id, **{**usual, **members}))


def results_of(store: BatchStore, batch: Batch) -> tuple[list[Any], list[Any]]:
    """Return the lines of the output file and of the error file."""
    batch = store.batch(batch.id, batch.owner)
    return _read(store, batch.output_file_id), _read(store, batch.error_file_id)


def _read(store: BatchStore, file_id: str | None) -> list[Any]:
    if file_id is None:
        return []
    path: Path = store.path_of(file_id)
    return [json.loads(text) for text in path.read_text().splitlines()]

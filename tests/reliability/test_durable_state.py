"""Everything that is kept on a disk, broken in every way: nothing waits, and the error names it.

A row of the table in docs/reliability.md is an entry of `THINGS`. Batches whose input or record is
broken are in tests/servers/batch_work/test_broken_batches.py, models in
tests/process/test_broken_files.py, configurations in tests/servers/cli/test_serve_odd_files.py.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from calculators.kit.model_cache import BeingMade, ModelCache
from calculators.kit.model_initializer import check_model_files
from calculators.language.retrieval.index_file import IndexFile, IndexFileError
from graph_runtime import GraphError
from servers.access import ApiKeys, KeyFileError, TlsError, TlsFiles
from servers.batches.contents import open_content
from servers.batches.desk import BatchDesk, Upload
from servers.batches.objects import BatchAnswer, BatchSettings, StorageFullError, StoreError
from servers.batches.store import BatchStore
from servers.config.edit import replace_file
from servers.model_store.directory import ORIGIN_FILE, read_origin
from tests.calculators.language.retrieval.test_index_file import made
from tests.servers.batches.samples import NOW, add_batch, add_file
from tests.servers.certificates import authority
from tests.support.broken_files import EVERY, INSTEAD, remove
from tests.support.patience import PATIENCE
from tests.support.powers import without_powers
from tests.support.small_disk import SmallDisk, small_disk

#: The outcome of using what is broken: "" if it served as before, or was made again.
FINE: Final = ""


@dataclass(frozen=True)
class Thing:
    """Something that is kept.

    Attributes:
        make: writes it into a folder, and returns the path that is broken.
        use: uses it, and returns `FINE` or the text of the error that people read.
        is_made_again: damage costs time only, whatever it is.
        kinds: ways to break it.
    """

    make: Callable[[Path], Path]
    use: Callable[[Path], str]
    is_made_again: bool = False
    kinds: tuple[str, ...] = tuple(EVERY)


def make_keys(folder: Path) -> Path:
    path = folder / "keys"
    path.write_text("sk-some-key-0123456789\n")
    path.chmod(0o600)
    return path


def use_keys(folder: Path) -> str:
    try:
        return FINE if ApiKeys.of_file(folder / "keys").accepts("sk-some-key-0123456789") else "no"
    except KeyFileError as error:
        return str(error)


def make_tls(number: int) -> Callable[[Path], Path]:
    """``number``: 0 of the certificate, 1 of its key."""

    def make(folder: Path) -> Path:
        return authority(folder).issue(folder, "server")[number]

    return make


def use_tls(folder: Path) -> str:
    try:
        TlsFiles(folder / "server.crt", folder / "server.key")
    except TlsError as error:
        return str(error)
    return FINE


def make_origin(folder: Path) -> Path:
    path = folder / ORIGIN_FILE
    path.write_text("{}")
    return path


def use_origin(folder: Path) -> str:
    read_origin(folder)  # without it the model counts as one that people made
    return FINE


def fill_cache(folder: Path) -> str:
    """Take an entry, and fill it if it is not complete; return what is wrong with it then."""
    for _ in range(2):  # a moment later all is clear
        try:
            entry = ModelCache(folder).hold("kind", "key")
        except BeingMade:
            continue
        if entry is None:
            return "no entry"
        if not entry.is_complete:
            (entry.path / "model.bin").write_bytes(b"weights" * 1000)
            entry.complete()
        found = (entry.path / "model.bin").read_bytes()
        entry.close()
        return FINE if found == b"weights" * 1000 else "other weights"
    return "never clear"


def make_cache(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        assert fill_cache(folder) == FINE
        return folder / "graphrt" / "kind-key" / name

    return make


def make_model(folder: Path) -> Path:
    path = folder / "openvino_detokenizer.bin"
    path.write_bytes(b"weights")
    return path


def use_model(folder: Path) -> str:
    try:
        check_model_files([folder])
    except GraphError as error:
        return error.message
    return FINE


def make_store(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        store = BatchStore(folder)
        add_file(store, b"{}", owner="someone")
        store.close()
        path = folder / name
        if not path.exists():
            path.write_bytes(b"")
        return path

    return make


def use_store(folder: Path) -> str:
    """Begin to serve files and batches, as a server does at its start."""

    async def run() -> str:
        desk = BatchDesk(BatchSettings(folder))
        try:
            await desk.open()
        except StoreError as error:
            return f"the server does not start: {error} ({error.__cause__})"
        try:
            upload = Upload(desk.store)
            upload.write(b"{}")
            upload.finish(owner="me", filename="f", purpose="batch", now=NOW, expires_at=None)
            desk.store.files("me", NOW, purpose=None, after="", limit=9, ascending=True)
        except StoreError as error:
            return f"{error} ({error.__cause__})"
        finally:
            await desk.close()
        return FINE

    return asyncio.run(run())


def make_content(folder: Path) -> Path:
    store = BatchStore(folder)
    file = add_file(store, b'{"a": 1}\n' * 10)
    store.close()
    return store.path_of(file.id)


def use_content(folder: Path) -> str:
    store = BatchStore(folder)
    try:
        ((file,), _) = store.files("", NOW, purpose=None, after="", limit=1, ascending=True)
        with open_content(store.path_of(file.id), file.size) as opened:
            opened.read()
    except StoreError as error:
        return str(error)
    finally:
        store.close()
    return FINE


def make_index(folder: Path) -> Path:
    return made(folder / "index", a=["one", "two"])


def use_index(folder: Path) -> str:
    try:
        index = IndexFile(folder / "index", "index")
        index.vectors()
        index.close()
    except IndexFileError as error:
        return str(error)
    return FINE


THINGS: Final = {
    # A key that is cut is another key.
    "API keys": Thing(make_keys, use_keys, kinds=(*INSTEAD, "empty", "flipped")),
    "a certificate": Thing(make_tls(0), use_tls),
    "the key of a certificate": Thing(make_tls(1), use_tls),
    "a file for batches": Thing(
        make_content,
        use_content,
        kinds=(*INSTEAD, "cut", "empty"),  # bits are errors of lines
    ),
    "the database of batches": Thing(make_store("store.sqlite"), use_store),
    "the folder of files": Thing(make_store("files"), use_store, kinds=tuple(INSTEAD)),
    "the folder of uploads": Thing(make_store("uploads"), use_store, kinds=tuple(INSTEAD)),
    "the lock of the server": Thing(make_store("server.lock"), use_store, kinds=tuple(INSTEAD)),
    "the lock of the worker": Thing(make_store("worker.lock"), use_store, kinds=tuple(INSTEAD)),
    "the origin of a pulled model": Thing(make_origin, use_origin, is_made_again=True),
    "the manifest of a cache entry": Thing(make_cache("entry.json"), fill_cache, True),
    "a file of a cache entry": Thing(make_cache("model.bin"), fill_cache, True),
    "the folder of a cache entry": Thing(
        make_cache(""), fill_cache, True, tuple(kind for kind in INSTEAD if kind != "forbidden")
    ),
    "a file of a model": Thing(make_model, use_model, kinds=("a pipe", "a socket")),
    "an index": Thing(make_index, use_index),
}
CASES: Final = [(name, kind) for name, thing in THINGS.items() for kind in thing.kinds]
#: Words of the errors, of which one must be in each: what is broken, or how.
NAMES: Final = {
    "API keys": ["keys"],
    "a file for batches": ["file-"],
    "the database of batches": ["store"],
    "a file of a model": ["openvino_detokenizer.bin"],
    "an index": ["index"],
}


def outcome_of(use: Callable[[Path], str], folder: Path) -> str:
    """Return the outcome of a use that must not wait for anything."""
    found: list[Any] = []

    def run() -> None:
        try:
            with without_powers():
                found.append(use(folder))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert found, "it waits"
    if isinstance(found[0], BaseException):
        raise found[0]
    return str(found[0])


@pytest.mark.parametrize(("name", "kind"), CASES, ids=lambda word: word.replace(" ", "_"))
def test_what_is_broken_is_named_or_made_again(
    name: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    thing = THINGS[name]
    folder = tmp_path / "it"
    folder.mkdir()
    path = thing.make(folder)
    assert outcome_of(thing.use, folder) == FINE
    before = tmp_path / "before"
    shutil.copytree(folder, before, symlinks=True)
    EVERY[kind](path)
    outcome = outcome_of(thing.use, folder)
    assert outcome == FINE or not thing.is_made_again
    if outcome != FINE:
        assert any(word in outcome for word in NAMES.get(name, [path.name])), outcome
    # Mended, it serves as before.
    path.chmod(0o700) if path.exists() else None
    remove(folder)
    shutil.copytree(before, folder, symlinks=True)
    assert outcome_of(thing.use, folder) == FINE


# A full disk --------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    yield from small_disk(tmp_path / "disk", 4 << 20)


def write_index(folder: Path) -> str:
    try:
        made(folder / "index", **{f"f{each}": ["text " * 1000] * 50 for each in range(4)})
    except IndexFileError as error:
        return str(error)
    return use_index(folder)


def edit_config(folder: Path) -> str:
    path = folder / "config.json"
    before = path.read_text() if path.exists() else None
    try:
        replace_file(path, '{"model_config_list": []}' + " " * 100_000)
    except OSError as error:
        assert (path.read_text() if path.exists() else None) == before
        assert [each.name for each in folder.iterdir() if each.name.startswith(".")] == []
        return str(error)
    return FINE


def add_answers(folder: Path) -> str:
    try:
        with closing(BatchStore(folder / "store")) as store:
            batches = store.unfinished()
            batch = batches[0] if batches else add_batch(store, b"{}")
            text = b"x" * 100_000
            answer = BatchAnswer(batch=batch.number, line=1, is_error=False, text=text)
            store.add_answers([answer], [])
            assert store.answered_lines(batch.number, 0) == {1}
    except StorageFullError as error:
        return str(error)
    return FINE


FULL: Final[dict[str, Callable[[Path], str]]] = {
    "an index": write_index,
    "a config": edit_config,
    "answers of a batch": add_answers,
}


@pytest.mark.parametrize("use", FULL.values(), ids=FULL)
def test_a_full_disk_is_named_and_leaves_what_was_there(
    use: Callable[[Path], str], disk: SmallDisk
) -> None:
    if use is add_answers:
        BatchStore(disk.path / "store").close()
    disk.fill()
    assert "full" in use(disk.path) or "No space left" in use(disk.path)
    disk.empty()
    assert use(disk.path) == FINE


def test_a_cache_on_a_full_disk_is_left_alone(disk: SmallDisk) -> None:
    assert fill_cache(disk.path) == "no entry"  # it leaves 64 MiB to others
    assert list(disk.path.iterdir()) == []

"""`build_index`: from files to an index, as ``graphrt index`` does it.

`IndexWriter`: makes an index beside its final place, and puts it there when it is whole.

An index that grows is the file ``NAME.part``. An interrupted run leaves it there, and the
next one goes on with it; a new run over a complete index begins with a copy of it. Either way files
that have not changed keep their passages.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from calculators.kit.model_initializer import ModelHost
from calculators.language.retrieval.index_file import (
    COMPLETE,
    MOST_EXACT,
    PASSAGE,
    SCHEMA,
    IndexFile,
    IndexFileError,
    IndexMeta,
    Vectors,
    digest_of,
    has_library,
    identify,
    make_search,
    search_file,
)
from calculators.language.retrieval.passages import (
    Document,
    Outline,
    Passage,
    PassageSize,
    read_document,
)
from calculators.text.embeddings.servable import EmbeddingsOptions, EmbeddingsServable
from calculators.text.text_models.encoder_task import MAX_ALL_CHARACTERS, MAX_CHARACTERS
from calculators.text.text_models.text_model import Outputs
from calculators.text.text_models.text_tokenizer import Tokenize, Tokenized
from graph_runtime import LoadProgress

#: The row of `meta` that changes with the vectors, and not with the model.
_SEARCH_DIGEST = "search_digest"


class IndexWriter:
    """An index that is being made. Use it as a context manager: leaving it closes the file.

    It may be used in any thread, in one at a time.

    Attributes:
        kept: the digests of the files whose passages are there already, by path.
    """

    def __init__(self, out: Path, meta: IndexMeta) -> None:
        """Open ``NAME.part``, with what can be kept of it or of the index itself.

        Args:
            out: the index that is to be.
            meta: its model and the size of its passages.

        Raises:
            IndexFileError: the file cannot be written, or another run writes it.
        """
        self._out = out
        self._part = out.with_name(f"{out.name}.part")
        self._meta = meta
        with self._naming_errors():
            self._connection = self._opened()
        self.kept: dict[str, str] = dict(self._rows("SELECT path, digest FROM files"))

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def put(
        self,
        files: Sequence[tuple[str, str]],
        passages: Sequence[Sequence[Passage]],
        vectors: Vectors,
    ) -> None:
        """Write files with their passages, in place of what was known of them. All or none.

        Args:
            files: path and digest of each.
            passages: of each file.
            vectors: a row for each passage of all files.
        """
        rows = iter(vectors.astype("<f4", copy=False))
        with self._naming_errors(), self._connection as connection:
            for (path, digest), found in zip(files, passages, strict=True):
                connection.execute("DELETE FROM files WHERE path = ?", (path,))
                number = connection.execute(
                    "INSERT INTO files (path, digest) VALUES (?, ?)", (path, digest)
                ).lastrowid
                connection.executemany(
                    "INSERT INTO passages (file, line, title, text, vector) VALUES (?, ?, ?, ?, ?)",
                    [
                        (number, each.line, each.title, each.text, next(rows).tobytes())
                        for each in found
                    ],
                )
            self.kept.update(files)

    def keep_only(self, paths: Collection[str]) -> int:
        """Remove files that are not among these; returns their number."""
        gone = [path for path in self.kept if path not in paths]
        with self._naming_errors(), self._connection as connection:
            connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in gone])
        for path in gone:
            del self.kept[path]
        return len(gone)

    def is_large(self) -> bool:
        """Return whether `finish` will make a search file, which takes a while."""
        [(count,)] = self._rows("SELECT count(*) FROM passages")
        return count > MOST_EXACT and has_library()

    def finish(self) -> int:
        """Make the search file if the index is large, and put the index into its place.

        Returns:
            The number of passages.

        Raises:
            IndexFileError: there are no passages; a file cannot be written.
        """
        with self._naming_errors():
            [(count,)] = self._rows("SELECT count(*) FROM passages")
            if not count:
                raise IndexFileError("there is no text in these files, so there is no index")
            self._connection.commit()
            made = self._make_search(count) if self.is_large() else None
            digest = "" if made is None else digest_of(made)
            with self._connection as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                    [(_SEARCH_DIGEST, digest), (COMPLETE, "1")],
                )
            self._connection.close()
            if made is not None:
                # First: an index beside another search file makes its own in memory, by the digest.
                os.replace(made, search_file(self._out))
            os.replace(self._part, self._out)
            if made is None:
                search_file(self._out).unlink(missing_ok=True)
        return int(count)

    def _make_search(self, count: int) -> Path:
        """Write the search file beside its place."""
        ids = np.empty(count, np.int64)
        vectors = np.empty((count, self._meta.dimension), np.float32)
        rows = self._rows("SELECT id, vector FROM passages ORDER BY id")
        for place, (number, vector) in enumerate(rows):
            ids[place] = number
            vectors[place] = np.frombuffer(vector, "<f4")
        made = search_file(self._part)
        make_search(ids, vectors).save(made)
        return made

    def _opened(self) -> sqlite3.Connection:
        """Return the connection to ``NAME.part``, locked, with tables and `meta`."""
        connection = self._continued()
        if connection is not None:
            return connection
        for file in (self._part, self._part.with_name(f"{self._part.name}-journal")):
            file.unlink(missing_ok=True)
        has_tables = self._fits(self._out)
        if has_tables:
            shutil.copyfile(self._out, self._part)
        connection = self._connected()
        try:
            with connection:
                if not has_tables:
                    connection.executescript(SCHEMA)
                rows = {**self._meta.rows(), COMPLETE: "0"}
                connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows.items())
        except BaseException:
            connection.close()
            raise
        return connection

    def _continued(self) -> sqlite3.Connection | None:
        """Return the connection to the ``NAME.part`` of an earlier run; None if it is of no use."""
        if not self._part.exists():
            return None
        try:
            connection = self._connected()
            try:
                if _has_passages_of(connection, self._meta):
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()
        except sqlite3.OperationalError as error:
            # A run that ended before it had made its tables.
            if "no such table" not in str(error):
                raise
        except sqlite3.DatabaseError:
            pass
        return None

    def _fits(self, index: Path) -> bool:
        """Return whether an index is whole, and has passages of this model and size."""
        try:
            with closing(IndexFile(index, index.name)) as opened:
                return replace(opened.meta, search_digest="") == self._meta
        except IndexFileError:
            return False

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._part, timeout=0, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            # The lock is held until the connection is closed, so two runs cannot mix.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        return self._connection.execute(statement)

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        name = self._part.name
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise IndexFileError(f'another run of graphrt index writes "{name}"') from None
            raise IndexFileError(f'"{name}" cannot be written: {error}') from None
        except OSError as error:
            raise IndexFileError(f'"{name}" cannot be written: {error.strerror}') from None


def _has_passages_of(connection: sqlite3.Connection, meta: IndexMeta) -> bool:
    """Return whether an index in the making has passages of a model and a size.

    Raises:
        sqlite3.DatabaseError: it is not an index, or damaged.
    """
    found = dict(connection.execute("SELECT name, value FROM meta"))
    connection.execute("SELECT 1 FROM passages JOIN files").fetchone()
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        return False
    wanted = meta.rows()
    return all(found.get(name) == wanted[name] for name in wanted if name != _SEARCH_DIGEST)


#: Passages that are embedded and written at a time: enough for all streams of the model, and little
#: to do again after an interruption.
_AT_A_TIME: Final = 256
#: Texts whose tokens are counted at a time.
_COUNTED: Final = 2048


class IndexingProgress(NamedTuple):
    """The progress of making an index.

    Attributes:
        files: files that are done, of `all_files`.
        passages: passages that were embedded by this run.
        makes_search: all are embedded, and the search file is being made.
    """

    files: int
    all_files: int
    passages: int
    makes_search: bool = False


@dataclass(frozen=True, slots=True)
class Indexed:
    """A finished index.

    Attributes:
        passages: in the index.
        files: files whose passages were made by this run.
        unchanged: files whose passages were there already.
        removed: files that were in the index and are no longer wanted.
    """

    passages: int
    files: int
    unchanged: int
    removed: int


async def build_index(
    documents: Sequence[Document],
    out: Path,
    options: EmbeddingsOptions,
    *,
    size: PassageSize | None = None,
    loads: LoadProgress | None = None,
    reports: Callable[[IndexingProgress], None] = lambda _: None,
) -> Indexed:
    """Make the index of documents, or bring one up to date.

    Args:
        out: the index; it is replaced when the new one is whole.
        options: the embedding model.
        size: of the passages; less where the model reads less.
        loads: gets the phases of the model's loading.
        reports: called after each group of files, and once before the first.

    Raises:
        DocumentError: a file cannot be indexed.
        IndexFileError: the index cannot be written, or would be empty.
        ResourceError: the model cannot be loaded.
    """
    model = await asyncio.to_thread(identify, options)
    servable = EmbeddingsServable(options, ModelHost(model.name))
    await servable.start(loads)
    try:
        embedder = _Embedder(servable)
        sized = (size or PassageSize()).within(await embedder.room())
        meta = IndexMeta(model, await embedder.dimension(), sized)
        with await asyncio.to_thread(IndexWriter, out, meta) as writer:
            return await _fill(writer, documents, embedder, sized, reports)
    finally:
        await servable.close()


async def _fill(
    writer: IndexWriter,
    documents: Sequence[Document],
    embedder: _Embedder,
    size: PassageSize,
    reports: Callable[[IndexingProgress], None],
) -> Indexed:
    removed = await asyncio.to_thread(writer.keep_only, {each.path for each in documents})
    group = _FileGroup()
    changed = embedded = 0
    reports(IndexingProgress(0, len(documents), 0))
    for done, document in enumerate(documents, 1):
        text, digest = await asyncio.to_thread(read_document, document)
        if writer.kept.get(document.path) != digest:
            outline = Outline(text, is_markdown=document.is_markdown)
            tokens = await embedder.count(outline.texts)
            group.add(document.path, digest, list(outline.passages(tokens, size)))
            changed += 1
        if group.files and (len(group.texts) >= _AT_A_TIME or done == len(documents)):
            vectors = await embedder.embed(group.texts)
            await asyncio.to_thread(writer.put, group.files, group.passages, vectors)
            embedded += len(vectors)
            group = _FileGroup()
        if not group.files:
            reports(IndexingProgress(done, len(documents), embedded))
    if await asyncio.to_thread(writer.is_large):
        reports(IndexingProgress(len(documents), len(documents), embedded, True))
    passages = await asyncio.to_thread(writer.finish)
    return Indexed(passages, changed, len(documents) - changed, removed)


class _FileGroup:
    """Files whose passages are embedded and written together."""

    def __init__(self) -> None:
        self.files: list[tuple[str, str]] = []
        self.passages: list[list[Passage]] = []
        self.texts: list[str] = []

    def add(self, path: str, digest: str, passages: list[Passage]) -> None:
        self.files.append((path, digest))
        self.passages.append(passages)
        self.texts += [each.embedded for each in passages]


class _Embedder:
    """The embedding model, for texts of any number."""

    def __init__(self, servable: EmbeddingsServable) -> None:
        self._servable = servable

    async def room(self) -> int:
        """Return the number of tokens that a passage may have."""
        prompt = self._servable.prompt(PASSAGE)
        outputs = await self._servable.model.ask(Tokenize([prompt]), characters=len(prompt))
        return self._servable.max_tokens - len(_tokens(outputs)[0])

    async def dimension(self) -> int:
        """Return the number of numbers of a vector."""
        (vector,) = await self.embed(["dimension"])
        return len(vector)

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special ones."""
        counts: list[int] = []
        for start in range(0, len(texts), _COUNTED):
            some = list(texts[start : start + _COUNTED])
            question = Tokenize(some, adds_special=False)
            outputs = await self._servable.model.ask(question, characters=sum(map(len, some)))
            counts += [len(ids) for ids in _tokens(outputs)]
        return counts

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        found: list[Vectors] = []
        some: list[str] = []
        characters = 0
        for text in [each[:MAX_CHARACTERS] for each in texts]:
            if len(some) == _AT_A_TIME or characters + len(text) > MAX_ALL_CHARACTERS:
                found.append((await self._servable.embed(some, use=PASSAGE)).vectors)
                some, characters = [], 0
            some.append(text)
            characters += len(text)
        if some or not found:
            found.append((await self._servable.embed(some, use=PASSAGE)).vectors)
        return np.concatenate(found)


def _tokens(outputs: Outputs) -> list[list[int]]:
    return msgspec.convert(outputs.note, Tokenized).tokens

"""`build_index`: from files to an index, as ``graphrt index`` does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from calculators.kit.model_initializer import ModelHost
from calculators.language.retrieval.documents import Document, read_document
from calculators.language.retrieval.embedder import PASSAGE, identify
from calculators.language.retrieval.index_file import IndexMeta, Vectors
from calculators.language.retrieval.index_writer import IndexWriter
from calculators.language.retrieval.passages import Outline, Passage, PassageSize
from calculators.text.embeddings.node_options import EmbeddingsOptions
from calculators.text.embeddings.servable import EmbeddingsServable
from calculators.text.embeddings.texts import MAX_ALL_CHARACTERS, MAX_CHARACTERS
from calculators.text.text_models.questions import Tokenize, Tokenized
from calculators.text.text_models.text_model import Outputs
from graph_runtime import LoadProgress

#: Passages that are embedded and written at a time: enough for all streams of the model, and little
#: to do again after an interruption.
_AT_A_TIME: Final = 256
#: Texts whose tokens are counted at a time.
_COUNTED: Final = 2048


class Progress(NamedTuple):
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
    reports: Callable[[Progress], None] = lambda _: None,
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
    reports: Callable[[Progress], None],
) -> Indexed:
    removed = await asyncio.to_thread(writer.keep_only, {each.path for each in documents})
    group = _Group()
    changed = embedded = 0
    reports(Progress(0, len(documents), 0))
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
            group = _Group()
        if not group.files:
            reports(Progress(done, len(documents), embedded))
    if await asyncio.to_thread(writer.is_large):
        reports(Progress(len(documents), len(documents), embedded, True))
    passages = await asyncio.to_thread(writer.finish)
    return Indexed(passages, changed, len(documents) - changed, removed)


class _Group:
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

"""Retrieval: what embeddings find, and how fast an index finds it.

    python -m bench.retrieval docs [--write FILE]
    python -m bench.retrieval minilm [--sentence_transformers PYTHON] [--write FILE]
    python -m bench.retrieval index [--vectors N ...] [--write FILE]

``docs``: the models of examples/graphs/rag: do titles of sections find their sections? The titles
are those of sections that the embedder was not trained on. Their sections are searched for among
the held-out ones, and among all sections of the project's Markdown. Embeddings and ranks come from
a server, over HTTP.

``minilm``: all-MiniLM-L6-v2 (`bench.downloads`): graphrt's embeddings beside those of
sentence-transformers, with the same weights. Two kinds of questions are asked about the sections of
the project's Markdown: their titles, and one sentence of each without some of its words, which the
section then lacks. The texts are embedded over HTTP, with weights of 32 and of 8 bits, and by
sentence-transformers in the given Python. All see texts that are shorter than what
sentence-transformers cuts off.

``index``: search among the passages of an index: NumPy, which compares all, beside usearch (the
extra ``retrieval``). The vectors have 384 numbers and are clustered, as those of texts are: without
clusters a search is harder than any that texts need. Both are searched as `RetrievalCalculator`
does, in one thread.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from bench.downloads import get_checkpoint, get_minilm
from bench.machine import (
    ROOT,
    JsonClient,
    ServerProcess,
    add_write,
    describe_machine,
    head,
    publish,
    row,
    run_command,
)
from calculators.language.retrieval.index_file import (
    ExactSearch,
    Search,
    Vectors,
    has_library,
    make_search,
    open_search,
)
from examples.models.retrieval_training.documents import Section, read_sections

#: Texts of one request.
_BATCH: Final = 64
#: Characters of a section that are embedded, as in training: some 130 tokens, of the 256 that
#: all-MiniLM-L6-v2 reads.
_CHARACTERS: Final = 500

Embeds = Callable[[list[str]], Vectors]


def over_http(server: ServerProcess) -> Embeds:
    """Return a function that embeds by requests to a server, as vectors of length 1."""
    client = JsonClient(server.address)

    def embed(texts: list[str]) -> Vectors:
        found: list[Vectors] = []
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            body: dict[str, object] = {"model": server.model, "input": some}
            # Tables have more tokens than prose of as many characters.
            body |= {"encoding_format": "base64", "truncate": True}
            data = client.post("/v3/embeddings", body)["data"]
            found += [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in data]
        return np.stack(found)

    return embed


# The examples' models -----------------------------------------------------------------------------

_MODELS: Final = ROOT / "examples" / "models"
#: Sections that are ranked again.
_RANKED: Final = 12


def places(
    embed: Embeds,
    rank: Callable[[str, list[str]], list[int]] | None,
    asked: list[Section],
    sections: list[Section],
) -> list[int]:
    """Return the place of each section in the order of what its title finds, from 0 on."""
    questions = embed([each.title for each in asked])
    texts = [each.text[:_CHARACTERS] for each in sections]
    orders = np.argsort(-questions @ embed(texts).T, axis=1, kind="stable").tolist()
    found = []
    for section, order in zip(asked, orders, strict=True):
        if rank is not None:
            first = order[:_RANKED]
            best = rank(section.title, [texts[place] for place in first])
            order = [*(first[place] for place in best), *order[_RANKED:]]
        found.append(order.index(sections.index(section)))
    return found


def docs_report() -> Iterator[str]:
    """Measure, and yield the table."""
    sections = read_sections()
    held_out = [section for section in sections if section.is_held_out]
    yield describe_machine()
    yield ""
    yield from head("searched among", "order", "hit@1", "hit@5")
    with (
        ServerProcess(_MODELS / "docs_embedder") as embedder,
        ServerProcess(_MODELS / "docs_ranker") as ranker,
        JsonClient(ranker.address) as client,
    ):

        def rank(query: str, documents: list[str]) -> list[int]:
            body = {"model": ranker.model, "query": query, "documents": documents}
            return [each["index"] for each in client.post("/v3/rerank", body)["results"]]

        embed = over_http(embedder)
        for among, candidates in (("held-out", held_out), ("all", sections)):
            for order, ranks in (("embedder", None), ("embedder, then ranker", rank)):
                found = np.array(places(embed, ranks, held_out, candidates))
                shares = (f"{(found < most).mean():.2f}" for most in (1, 5))
                yield row(f"{among} {len(candidates)} sections", order, *shares)


def docs(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Retrieval by the models of examples/graphs/rag: do titles find their sections?"""
    add_write(parser)
    publish(docs_report(), parser.parse_args(words).write)


# all-MiniLM-L6-v2 ---------------------------------------------------------------------------------

_SENTENCE: Final = re.compile(r"(?<=[.:;])\s+")
#: The share of a sentence's words that a question lacks.
_MISSING: Final = 0.15
_PEER: Final = """
import json, sys
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(sys.argv[1], device="cpu")
texts = json.load(sys.stdin)
vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
sys.stdout.buffer.write(vectors.astype("<f4").tobytes())
"""


class Task(NamedTuple):
    """Questions, each about the section of the same number.

    Attributes:
        texts: the sections that are searched.
    """

    name: str
    questions: list[str]
    texts: list[str]


def make_tasks(sections: Sequence[Section]) -> list[Task]:
    """Return the tasks; they are the same on every machine."""
    texts = [section.text[:_CHARACTERS] for section in sections]
    source = random.Random(0)
    asked = [_asked(text, source) for text in texts]
    return [
        Task("titles", [section.title for section in sections], texts),
        Task("sentences", [each for each, _ in asked], [rest for _, rest in asked]),
    ]


def _asked(text: str, source: random.Random) -> tuple[str, str]:
    """Return one of a text's sentences without some words, and the text without the sentence."""
    sentences = _SENTENCE.split(text)
    place = source.randrange(len(sentences))
    words = [word for word in sentences[place].split() if source.random() > _MISSING]
    rest = " ".join(sentences[:place] + sentences[place + 1 :])
    return " ".join(words) or sentences[place], rest or text


def hits(questions: Vectors, texts: Vectors, among: int) -> float:
    """Return the share of questions whose text is among the first so many that they find."""
    scores = questions @ texts.T
    own = np.diagonal(scores)[:, np.newaxis]
    return float(((scores > own).sum(axis=1) < among).mean())


def by_peer(python: str, checkpoint: Path) -> Embeds:
    """Return a function that embeds with sentence-transformers."""

    def embed(texts: list[str]) -> Vectors:
        done = subprocess.run(
            [python, "-c", _PEER, str(checkpoint)],
            input=json.dumps(texts).encode(),
            capture_output=True,
            check=True,
        )
        return np.frombuffer(done.stdout, "<f4").reshape(len(texts), -1)

    return embed


def minilm_report(python: str | None) -> Iterator[str]:
    """Measure, and yield the table. ``python`` has sentence-transformers."""
    tasks = make_tasks(read_sections())
    everything = [text for task in tasks for text in (*task.questions, *task.texts)]
    made: dict[str, Vectors] = {}
    if python:
        made["sentence-transformers"] = by_peer(python, get_checkpoint())(everything)
    for name, path in zip(("graphrt, f32", "graphrt, int8"), get_minilm(), strict=True):
        with ServerProcess(path) as server:
            made[name] = over_http(server)(everything)
    yield from (describe_machine(), "", f"{len(tasks[0].texts)} sections.", "")
    columns = [f"{task.name}, hit@{among}" for task in tasks for among in (1, 5)]
    yield from head("embedded by", *columns, "least cosine to the first row")
    first = next(iter(made.values()))
    for name, vectors in made.items():
        cells = []
        place = 0
        for task in tasks:
            count = len(task.texts)
            questions, texts = np.split(vectors[place : place + 2 * count], 2)
            place += 2 * count
            cells += [f"{hits(questions, texts, among):.3f}" for among in (1, 5)]
        cosine = np.einsum("ij,ij->i", first, vectors).min()
        yield row(name, *cells, f"{cosine:.4f}")


def minilm(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Retrieval by all-MiniLM-L6-v2: graphrt's embeddings beside sentence-transformers'."""
    parser.add_argument("--sentence_transformers", metavar="PYTHON")
    add_write(parser)
    given = parser.parse_args(words)
    publish(minilm_report(given.sentence_transformers), given.write)


# The index ----------------------------------------------------------------------------------------

_NUMBERS: Final = 384
_CLUSTERS: Final = 1000
#: The share of a vector that its cluster does not decide.
_SPREAD: Final = 0.6
_QUESTIONS: Final = 200
_NEAREST: Final = 10


def clustered(count: int, source: np.random.Generator) -> Vectors:
    """Return vectors of length 1."""
    centres = source.standard_normal((_CLUSTERS, _NUMBERS), np.float32)
    made = centres[source.integers(_CLUSTERS, size=count)]
    return unit(made + _SPREAD * source.standard_normal((count, _NUMBERS), np.float32))


def unit(vectors: Vectors) -> Vectors:
    """Return vectors, each divided by its length."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def milliseconds(search: Search, questions: Vectors) -> float:
    """Return the median time of a search."""
    times = []
    for question in questions:
        begun = time.perf_counter()
        search.nearest(question, _NEAREST)
        times.append(time.perf_counter() - begun)
    return float(np.median(times)) * 1000


def found(search: Search, questions: Vectors) -> list[set[int]]:
    """Return the ids of the nearest vectors of each question."""
    return [{number for number, _ in search.nearest(each, _NEAREST)} for each in questions]


def rows(count: int) -> Sequence[str]:
    """Return the rows of the table for so many vectors."""
    source = np.random.default_rng(0)
    vectors = clustered(count, source)
    ids = np.arange(count)
    near = vectors[source.integers(count, size=_QUESTIONS)]
    questions = unit(near + 0.03 * source.standard_normal(near.shape, np.float32))
    exact = ExactSearch(ids, vectors)
    wanted = found(exact, questions)
    made = [row(f"{count:,}", "NumPy", "-", f"{milliseconds(exact, questions):.2f} ms", 1, "-")]
    if has_library():
        begun = time.perf_counter()
        search = make_search(ids, vectors)
        seconds = time.perf_counter() - begun
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "search.usearch")
            search.save(file)
            opened = open_search(file, _NUMBERS, count)
            assert opened is not None
            size = file.stat().st_size / 1e6
            pairs = zip(found(opened, questions), wanted, strict=True)
            recall = np.mean([len(got & right) / _NEAREST for got, right in pairs])
            took = milliseconds(opened, questions)
        made.append(
            row(
                f"{count:,}",
                "usearch",
                f"{seconds:.0f} s",
                f"{took:.2f} ms",
                f"{recall:.3f}",
                f"{size:.0f} MB",
            )
        )
    return made


def index_report(counts: Sequence[int]) -> Iterator[str]:
    """Measure, and yield the table for these numbers of vectors."""
    yield from (describe_machine(), "")
    columns = ("passages", "search", "made in", "a question")
    yield from head(*columns, "found of the nearest ten", "file")
    for count in counts:
        yield from rows(count)


def index(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Search among the passages of an index: NumPy, which compares all, beside usearch."""
    parser.add_argument("--vectors", type=int, nargs="+", default=[1_000, 20_000, 100_000])
    add_write(parser)
    given = parser.parse_args(words)
    publish(index_report(given.vectors), given.write)


if __name__ == "__main__":
    run_command("bench.retrieval", __doc__, {"docs": docs, "minilm": minilm, "index": index})

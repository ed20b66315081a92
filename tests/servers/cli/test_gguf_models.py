"""`graphrt describe` and `graphrt pull --to` of GGUF files."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from bench.gguf_file import Value, write_gguf
from bench.random_model import TINY, make_model, metadata, weights
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.weights import WeightScratch
from tests.calculators.kit.checkpoints.expected_logits import ids_for, run_model
from tests.calculators.kit.checkpoints.test_encoders import EXPECTED
from tests.calculators.kit.checkpoints.tiny_encoders import write_encoder
from tests.calculators.kit.checkpoints.tiny_models import VOCABULARY, blocks, write_tiny
from tests.process.http_client import COMPLETIONS, HttpClient
from tests.process.server_process import ServerProcess
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model", TINY)


def test_what_a_file_holds_is_shown(file: Path) -> None:
    lines = graphrt("describe", str(file)).stdout.splitlines()

    rows = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines[1:]}
    assert lines[0] == "model.gguf"
    assert rows["architecture"].startswith("qwen3 (Qwen 3")
    assert rows["types"].startswith("F")
    assert rows["shape"] == "2 layers of 64, 2 heads, 1 of keys and values"
    assert rows["context"] == f"{TINY.context:,} tokens"
    assert rows["tokenizer"].endswith("1,024 tokens")
    assert "<|im_end|>" in rows["ends"]
    assert rows["template"].startswith("of the file; tool parser ")
    assert "of weights, and a cache of 1 GB" in rows["memory"]


def test_a_directory_with_one_file_is_described_as_json(file: Path) -> None:
    (file.parent / "graph.pbtxt").unlink()

    facts = json.loads(graphrt("describe", str(file.parent), "--format", "json").stdout)

    assert facts["file"] == "model.gguf"
    assert facts["layers"] == 2
    assert facts["weights"]["bytes"].keys() == {"scaled", "split", "exact"}
    assert facts["chat_template"]["tool_parser"]


def test_a_base_model_says_that_it_has_no_template(file: Path) -> None:
    facts = {key: value for key, value in metadata(TINY).items() if "template" not in key}
    write_gguf(file, facts, dict(weights(TINY)))

    assert "template      none: completions only" in graphrt("describe", str(file)).stdout


def test_the_prompt_of_a_file_is_shown(file: Path) -> None:
    chat = json.dumps({"messages": [{"role": "user", "content": "Hi there"}]})

    of_file = graphrt("render-prompt", str(file), feed=chat)
    of_graph = graphrt("render-prompt", str(file.parent), feed=chat)

    assert "Hi there" in of_file.stdout
    assert of_graph.stdout == of_file.stdout


def test_a_base_model_has_no_prompt_of_a_chat(file: Path) -> None:
    facts = {key: value for key, value in metadata(TINY).items() if "template" not in key}
    write_gguf(file, facts, dict(weights(TINY)))

    done = graphrt(
        "render-prompt", str(file), feed='{"messages": [{"role": "user", "content": "Hi"}]}'
    )

    assert done.returncode == 1
    assert "has no chat template, as base models have none" in done.stderr


def test_a_template_that_does_not_compile_is_named(file: Path, tmp_path: Path) -> None:
    facts = {**metadata(TINY), "tokenizer.chat_template": "{% if x %}\n{% for %}"}
    write_gguf(file, facts, dict(weights(TINY)))
    reason = "tokenizer.chat_template:2: "

    assert f"template      cannot be used: {reason}" in graphrt("describe", str(file)).stdout
    done = graphrt("pull", str(file), "--to", str(tmp_path / "converted"))
    assert done.returncode == 1
    assert f'"model.gguf": its chat template does not compile: {reason}' in done.stderr
    assert not (tmp_path / "converted").exists()


def test_a_cut_file_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:2000])

    done = graphrt("describe", str(file))

    assert done.returncode == 1
    assert '"model.gguf" is only a part of a GGUF file' in done.stderr


def test_a_file_becomes_a_directory_that_is_served(file: Path, tmp_path: Path) -> None:
    to = tmp_path / "converted"

    done = graphrt("pull", str(file), "--to", str(to), "--tool_parser", "hermes3")

    assert f"Model: model.gguf converted to: {to}" in done.stdout
    names = {each.name for each in to.iterdir()}
    assert {"openvino_model.xml", "openvino_tokenizer.xml", "config.json", "graph.pbtxt"} <= names
    assert 'tool_parser: "hermes3"' in (to / "graph.pbtxt").read_text()
    assert not list(tmp_path.glob(".*"))
    with Serving(tmp_path, to, calculators=()) as serving:
        serving.wait_for("  converted  ready")

    again = graphrt("pull", str(file), "--to", str(to))
    assert again.returncode == 1
    assert "there is something already" in again.stderr


#: Runs a directory by openvino-genai alone, once with states and once in continuous batching.
PLAIN = """
import json, sys
import openvino_genai as genai
directory, prompt = sys.argv[1:]
config = genai.GenerationConfig()
config.max_new_tokens, config.ignore_eos = 8, True
scheduler = genai.SchedulerConfig()
scheduler.cache_size = 1
exact = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0, "KV_CACHE_PRECISION": "f32"}
exact["INFERENCE_PRECISION_HINT"] = "f32"
batched = genai.ContinuousBatchingPipeline(directory, scheduler, "CPU", exact)
tokenizer = batched.get_tokenizer()
chat = [{"role": "user", "content": prompt}]
prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True)
config.apply_chat_template = False
ours = [name for name in sys.modules if name.split(".")[0] in ("calculators", "servers")]
print(json.dumps({
    "prompt": prompt,
    "batched": batched.generate([prompt], [config])[0].m_generation_ids[0],
    "stateful": genai.LLMPipeline(directory, "CPU", **exact).generate(prompt, config),
    "ends": sorted(batched.get_config().stop_token_ids),
    "ours": ours,
}))
"""


def _quantize(file: Path) -> None:
    """Write the model anew, with weights of several types."""
    random = np.random.default_rng(1)
    kinds = itertools.cycle(("Q4_0", "Q4_1", "Q5_0", "Q8_0"))
    arrays = {
        name: blocks(random, next(kinds), array.shape) if name.startswith("blk.") else array
        for name, array in weights(TINY)
        if "norm" not in name
    }
    norms = {name: array for name, array in weights(TINY) if "norm" in name}
    write_gguf(file, metadata(TINY), {**arrays, **norms})


def test_what_follows_a_text_does_not_change_its_exact_scores(file: Path) -> None:
    _quantize(file)
    begin, end = list(range(300, 340)), list(range(400, 420))
    with ServerProcess(file, "--exact", "true") as server:
        short, long = (_scores(server.client, ids) for ids in (begin, begin + end))
    assert long[: len(begin)] == pytest.approx(short, abs=1e-4)


def _scores(client: HttpClient, ids: list[int]) -> list[float]:
    body = {"model": "model", "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 1}
    reply = client.post(COMPLETIONS, **body)
    first, *found = reply.json["choices"][0]["logprobs"]["token_logprobs"]
    assert first is None
    return [0.0, *found]


def test_an_exact_directory_keeps_its_numbers(file: Path, tmp_path: Path) -> None:
    to = tmp_path / "converted"
    graphrt("pull", str(file), "--to", str(to), "--exact", "true")
    graph = (to / "graph.pbtxt").read_text()
    assert "DYNAMIC_QUANTIZATION_GROUP_SIZE" in graph
    assert "KV_CACHE_PRECISION" in graph


#: As many tokens as the tiny models have rows: three special ones, the space, and letters.
LETTERS: Final = ["▁", *map(chr, range(33, 33 + VOCABULARY - 4))]
VALUES: Final[dict[str, Value]] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *LETTERS],
    "tokenizer.ggml.token_type": [2, 3, 3, *[1] * len(LETTERS)],
    "tokenizer.ggml.scores": [0.0] * VOCABULARY,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


def test_scores_of_attention_are_capped_where_one_request_runs_at_a_time(tmp_path: Path) -> None:
    file = write_tiny(tmp_path / "gemma.gguf", "gemma2-capped", 2, more=VALUES)
    warning = "its attention scores are not capped"
    assert warning in graphrt("describe", str(file)).stdout
    prompt = ids_for(2)[:40]
    capped, batched = (_best(file, prompt, batches=batches) for batches in (False, True))
    assert capped != batched

    with ServerProcess(file, "--pipeline_type", "LM") as server:
        assert _next_token(server.client, prompt) == LETTERS[capped - 3]
        assert not any(warning in line for line in server.log)
    with ServerProcess(file) as server:
        assert _next_token(server.client, prompt) == LETTERS[batched - 3]
        assert any(warning in line for line in server.log)


def _best(file: Path, ids: list[int], *, batches: bool) -> int:
    scratch = WeightScratch()
    model = run_model(file, OffsetForm.EXACT, scratch, batches=batches)
    return int(model.run(ids)[-1].argmax())


def _next_token(client: HttpClient, ids: list[int]) -> str:
    body = {"model": "gemma", "prompt": ids, "max_tokens": 1, "temperature": 0}
    text: str = client.post(COMPLETIONS, **body).json["choices"][0]["text"]
    return text


def test_openvino_genai_alone_runs_a_quantized_files_directory(file: Path, tmp_path: Path) -> None:
    to = tmp_path / "converted"
    _quantize(file)
    graphrt("pull", str(file), "--to", str(to))

    command = [sys.executable, "-c", PLAIN, str(to), "Hi there"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    assert found["prompt"].endswith("<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n")
    assert found["stateful"] == found["batched"]
    assert len(found["batched"].strip()) > 2
    assert found["ends"] == [0, 2]
    assert found["ours"] == []


def test_a_file_that_cannot_be_converted_leaves_nothing(file: Path, tmp_path: Path) -> None:
    arrays = dict(weights(TINY))
    del arrays["blk.1.attn_q.weight"]
    write_gguf(file, metadata(TINY), arrays)

    done = graphrt("pull", str(file), "--to", str(tmp_path / "converted"))

    assert done.returncode == 1
    assert 'lacks the tensor "blk.1.attn_q.weight"' in done.stderr
    assert not (tmp_path / "converted").exists()
    assert not list(tmp_path.glob(".*"))


def test_an_embedding_model_is_served_for_embeddings(tmp_path: Path) -> None:
    file = write_encoder(tmp_path / "tiny.gguf", "bert", 1)

    with Serving(tmp_path, file, calculators=()) as serving:
        serving.wait_until_serving()
        text = "The quick brown fox jumps over the lazy dog, and 12 cats"
        with serving.request("POST", "/v3/embeddings", {"model": "tiny", "input": text}) as found:
            answer = json.load(found)

    vector = answer["data"][0]["embedding"]
    assert vector == pytest.approx(EXPECTED["bert 1"], abs=1e-2)
    assert "by mean pooling" in graphrt("describe", str(file)).stdout


def test_graphs_name_files_of_encoders(tmp_path: Path) -> None:
    for name, architecture, pooling in (
        ("Embeddings", "jina-bert-v2", 1),
        ("Rerank", "modern-bert", 4),
    ):
        folder = tmp_path / name.lower()
        folder.mkdir()
        write_encoder(folder / "tiny.gguf", architecture, pooling)
        (folder / "graph.pbtxt").write_text(
            f"""
            input_stream: "REQUEST_PAYLOAD:input"
            output_stream: "RESPONSE_PAYLOAD:output"
            node {{
              name: "node"
              calculator: "{name}CalculatorOV"
              input_side_packet: "{name.upper()}_NODE_RESOURCES:servable"
              input_stream: "REQUEST_PAYLOAD:input"
              output_stream: "RESPONSE_PAYLOAD:output"
              node_options: {{
                [type.googleapis.com/mediapipe.{name}CalculatorOVOptions]: {{
                  models_path: "tiny.gguf"
                }}
              }}
            }}
            """
        )
    text = "The quick brown fox jumps over the lazy dog, and 12 cats"
    ranked = {"model": "rerank", "query": "the fox", "documents": ["the dog", "the quick fox"]}

    with Serving(tmp_path, tmp_path / "embeddings", tmp_path / "rerank", calculators=()) as serving:
        serving.wait_until_serving()
        asked = {"model": "embeddings", "input": text}
        with serving.request("POST", "/v3/embeddings", asked) as found:
            vector = json.load(found)["data"][0]["embedding"]
        with serving.request("POST", "/v3/rerank", ranked) as found:
            results = json.load(found)["results"]

    assert vector == pytest.approx(EXPECTED["jina-bert-v2 1"], abs=1e-2)
    assert sorted(each["index"] for each in results) == [0, 1]


def test_a_model_that_ranks_is_served_for_rerank(tmp_path: Path) -> None:
    file = write_encoder(tmp_path / "ranks.gguf", "bert", 4)
    asked = {"model": "ranks", "query": "the fox", "documents": ["the dog", "the quick brown fox"]}

    with Serving(tmp_path, file, calculators=()) as serving:
        serving.wait_until_serving()
        with serving.request("POST", "/v3/rerank", asked) as found:
            answer = json.load(found)

    scores = [each["relevance_score"] for each in answer["results"]]
    assert len(scores) == 2
    assert 1 > scores[0] > scores[1] > 0


def test_an_embedding_model_becomes_a_directory_of_its_task(tmp_path: Path) -> None:
    file = write_encoder(tmp_path / "tiny.gguf", "bert", 1)

    done = graphrt("pull", str(file), "--to", str(tmp_path / "to"))

    assert done.returncode == 0, done.stderr
    assert "EmbeddingsCalculatorOV" in (tmp_path / "to" / "graph.pbtxt").read_text()

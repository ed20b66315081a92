"""docs/models.md: its commands as typed, on models that have the names which the page names."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.random_model import TINY, make_model
from servers.options.model_options import PARAMETERS, WEIGHT_FORMATS
from tests.calculators.llm.demo_model import DEMO
from tests.documents.snippets import ADDRESS, asked, run_shell, served
from tests.servers.cli.process import graphrt
from tests.servers.model_store.exporter_stub import ExporterStub, make_source, source_files
from tests.servers.model_store.loopback_hub import LoopbackHub
from tests.support.markdown import block, commands, text_of

PAGE = "docs/models.md"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the models of the page, and a hub that has the others."""
    place = tmp_path / "place"
    (place / "models").mkdir(parents=True)
    gguf = make_model(tmp_path / "tiny", TINY)
    gguf.rename(place / "SmolLM2-135M-Instruct.Q4_1.gguf")
    for name in ("chat", "embeddings"):
        (place / "models" / name).symlink_to(DEMO)
    demo = {path.name: path.read_bytes() for path in DEMO.iterdir() if path.is_file()}
    tiny = (place / "SmolLM2-135M-Instruct.Q4_1.gguf").read_bytes()
    repositories = {
        "OpenVINO/Qwen3-0.6B-int4-ov": demo,
        "Qwen/Qwen2.5-0.5B-Instruct-GGUF": {"qwen2.5-0.5b-instruct-q4_k_m.gguf": tiny},
        "Qwen/Qwen2.5-0.5B-Instruct": source_files("Qwen2ForCausalLM"),
    }
    make_source(place / "my-finetune")
    with LoopbackHub(repositories) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(tmp_path / "pulled"))
        yield place


def test_every_form_of_a_model_is_served(place: Path) -> None:
    names = {
        "demo": ["demo"],
        "SmolLM2-135M-Instruct.Q4_1.gguf": ["SmolLM2-135M-Instruct.Q4_1"],
        "OpenVINO/Qwen3-0.6B-int4-ov": ["OpenVINO/Qwen3-0.6B-int4-ov"],
        "Qwen/Qwen2.5-0.5B-Instruct-GGUF:qwen2.5-0.5b-instruct-q4_k_m.gguf": [
            "Qwen/Qwen2.5-0.5B-Instruct-GGUF"
        ],
        "models/chat models/embeddings": ["chat", "embeddings"],
    }
    found = commands(PAGE, "graphrt serve demo")
    assert [command.removeprefix("graphrt serve ") for command in found] == list(names)
    for command, expected in zip(found, names.values(), strict=True):
        with served(command, place) as server:
            _, models = server.get("/v1/models")
        assert [model["id"] for model in models["data"]] == expected


def test_a_model_of_a_hub_is_pulled_listed_and_removed(place: Path) -> None:
    pull, list_, remove = commands(PAGE, "graphrt pull OpenVINO")
    assert graphrt(*pull.split()[1:]).returncode == 0
    assert "OpenVINO/Qwen3-0.6B-int4-ov" in run_shell(list_, place)
    assert run_shell(remove, place).startswith("removed OpenVINO/Qwen3-0.6B-int4-ov")


def test_a_gguf_file_is_described_and_converted(place: Path) -> None:
    describe, convert = commands(PAGE, "graphrt describe SmolLM2")
    assert "architecture  qwen3" in run_shell(describe, place)
    assert "converted to:" in run_shell(convert, place)
    assert (place / "smollm2" / "graph.pbtxt").is_file()


def test_a_model_of_safetensors_is_exported_on_the_way(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = ExporterStub(tmp_path / "exporter")
    monkeypatch.setenv("PATH", stub.path)
    default, int4, fp16, again = commands(PAGE, "graphrt serve my-finetune")
    for command in (default, int4):
        with served(command, place) as server:
            _, models = server.get("/v1/models")
            assert [model["id"] for model in models["data"]] == ["my-finetune"]
    for command in (fp16, again):
        assert graphrt(*shlex.split(command)[1:]).returncode == 0
    called = [call["words"][4:-1] for call in stub.calls]
    task = ["--task", "text-generation-with-past"]
    adjusted = ["--group-size-fallback", "adjust"]
    assert called == [
        ["--weight-format", "int8", *task],
        ["--weight-format", "int4", "--ratio", "1.0", "--group-size", "128", *adjusted, *task],
        ["--weight-format", "fp16", *task],
        ["--weight-format", "int4", "--sym", "--group-size", "64", *adjusted, *task],
    ]
    log = block(PAGE, "", "my-finetune: safetensors").strip()
    assert log.partition(": ")[2].partition(" of ")[0] == "safetensors"
    assert log.endswith("weights in int8 (the default: --weight_format chooses another)")


def test_every_form_and_parameter_of_weights_is_explained() -> None:
    page = text_of(PAGE)
    for name in WEIGHT_FORMATS:
        assert f"\n| `{name}` | " in page
    for name in PARAMETERS:
        assert f"`{name}" in page, name


def test_a_server_is_talked_to_and_measured(tmp_path: Path) -> None:
    own, url, bench, goodput, against = commands(PAGE, "graphrt chat demo")
    assert graphrt(*own.split()[1:], feed="Hello\n").stdout.strip()
    with served("graphrt serve demo", tmp_path) as server:
        assert asked(f"echo Hello | {url}", server, tmp_path).strip()
        short = " --requests 4 --output_tokens 5"
        assert "Successful requests:                     4" in asked(bench + short, server)
        assert "Request goodput (req/s):" in asked(goodput + short, server, tmp_path)
        itself = against.replace("http://127.0.0.1:11434", ADDRESS).replace("llama3.2", "demo")
        assert "ratio" in asked(itself + short, server, tmp_path).splitlines()[1]
    saved = json.loads((tmp_path / "run.json").read_text())
    assert saved["completed"] == 4
    assert saved["model_id"] == "demo"
    assert "<svg" in (tmp_path / "run.html").read_text()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_flags(shell: str, tmp_path: Path) -> None:
    script = run_shell(f"graphrt completion {shell}", tmp_path)
    assert "rest_port" in script
    assert "parse-output" in script

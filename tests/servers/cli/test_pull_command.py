"""`graphrt pull`, `list`, `rm` and `serve` on models of a hub on loopback."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.random_model import TINY, make_model
from tests.calculators.llm.demo_model import DEMO
from tests.servers.cli.process import COMMAND, environment, graphrt
from tests.servers.cli.serving import Serving
from tests.servers.model_store.loopback_hub import LoopbackHub
from tests.support.conditions import wait_until

NAME = "acme/demo"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    files = {
        path.relative_to(DEMO).as_posix(): path.read_bytes()
        for path in DEMO.iterdir()
        if path.is_file() and path.name != "graph.pbtxt"
    }
    with LoopbackHub({NAME: files, "acme/empty": {"notes.doc": b"-"}}) as started:
        monkeypatch.setenv("HF_ENDPOINT", started.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(tmp_path / "models"))
        yield started


def test_a_pulled_model_has_a_graph_and_is_listed_and_removed(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    done = graphrt("pull", NAME, "--tool_parser", "hermes3")
    directory = tmp_path / "models" / NAME
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"Model: {NAME} downloaded to: {directory}\n"
        f"Graph: graph.pbtxt created in: {directory / 'graph.pbtxt'}\n"
    )
    assert "100%" in done.stderr
    graph = (directory / "graph.pbtxt").read_text()
    assert 'tool_parser: "hermes3"' in graph
    assert "enable_prefix_caching: true" in graph
    assert "cache_size: 1" in graph

    again = graphrt("pull", NAME)
    assert "is here already" in again.stdout
    assert (directory / "graph.pbtxt").read_text() == graph

    assert graphrt("list", "--names").stdout == f"{NAME}\n"
    assert graphrt("--list_models").stdout == (
        f"Listing models in repository...\nModel repository path: {tmp_path / 'models'}\n{NAME}\n"
    )
    listed = graphrt("list").stdout.splitlines()
    assert listed[0].split() == ["NAME", "SIZE", "ORIGIN"]
    assert listed[1].split()[0] == NAME

    assert graphrt("validate", str(directory / "graph.pbtxt")).returncode == 0

    removed = graphrt("rm", NAME)
    assert removed.stdout.startswith(f"removed {NAME}: ")
    assert not directory.parent.exists()
    assert graphrt("rm", NAME).returncode == 1


def test_the_spelling_of_openvino_model_server_does_the_same(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    repository, config = tmp_path / "other", tmp_path / "config.json"
    done = graphrt(
        *("--pull", "--source_model", NAME, "--model_repository_path", str(repository)),
        *("--task", "text_generation", "--target_device", "CPU"),
    )
    assert done.returncode == 0, done.stderr
    added = graphrt(
        *("--add_to_config", "--config_path", str(config), "--model_name", NAME),
        *("--model_repository_path", str(repository)),
    )
    assert added.stdout == f"Config updated: {config}\n"
    (entry,) = json.loads(config.read_text())["model_config_list"]
    assert entry == {"config": {"name": NAME, "base_path": f"other/{NAME}"}}
    taken = graphrt(
        *("--add_to_config", "--config_path", str(config), "--model_name", NAME),
        *("--model_path", str(repository / NAME)),
    )
    assert taken.returncode == 1
    assert "is listed already" in taken.stderr
    graphrt("--remove_from_config", "--config_path", str(config), "--model_name", NAME)
    assert json.loads(config.read_text()) == {"model_config_list": []}


def test_a_killed_pull_leaves_no_model_and_the_next_one_goes_on(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    hub.faults.stuck_at = 3_000_000
    process = subprocess.Popen(
        [*COMMAND, "pull", NAME], env=environment(), stderr=subprocess.DEVNULL
    )
    part = tmp_path / "models"
    # Only this file gets that long: a small one may be renamed between a listing and a look at it.
    pattern = "**/openvino_model.bin.part"
    wait_until(
        lambda: (
            process.poll() is not None
            or any(file.stat().st_size >= 3_000_000 for file in part.glob(pattern))
        ),
        "the file has begun",
    )
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (part / "acme").exists()
    hub.faults.stuck_at = None
    hub.reads.clear()
    done = graphrt("pull", NAME)
    assert done.returncode == 0, done.stderr
    assert ("openvino_model.bin", "bytes=3000000-") in hub.reads


def test_a_disk_that_fills_up_is_named_and_the_next_pull_goes_on(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    limit = 2_000_000
    failed = subprocess.run(
        [*COMMAND, "pull", NAME],
        capture_output=True,
        text=True,
        env=environment(),
        # A limit of files stands in for a disk: the system refuses to write the next byte.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        check=False,
    )
    assert failed.returncode == 1
    assert "/files cannot be written: File too large" in failed.stderr
    assert "try again when there is room" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "models" / "acme").exists()
    hub.reads.clear()
    assert graphrt("pull", NAME).returncode == 0
    assert ("openvino_model.bin", f"bytes={limit}-") in hub.reads


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pull"], "which model is to be pulled?"),
        (["pull", "demo"], "demo is not a name of a hub's model"),
        (["pull", "acme/nothing"], "has no model acme/nothing"),
        (["pull", "acme/empty"], "holds no model that graphrt reads"),
        (
            ["pull", NAME, "--task", "text_generation", "--pooling", "CLS"],
            "--pooling is not an option",
        ),
        (["pull", f"{NAME}:../x.gguf"], "would leave the directory"),
        (["--remove_from_config", "--model_name", "x"], "no such file"),
    ],
)
def test_wrong_pulls_say_what_is_wrong(hub: LoopbackHub, words: list[str], message: str) -> None:
    done = graphrt(*words)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_of_a_hub_is_served_by_its_name(hub: LoopbackHub) -> None:
    body = {"model": NAME, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    with Serving(DEMO, NAME, calculators=()).wait_until_serving() as serving:
        assert f"{NAME}: OpenVINO model, served as text_generation" in "".join(serving.log)
        with serving.request("POST", "/v3/chat/completions", body) as response:
            answer = json.loads(response.read())
    assert response.status == 200
    assert answer["choices"][0]["message"]["content"]


def test_a_draft_model_is_pulled_with_the_model_and_answers_with_it(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    draft = DEMO.with_name("demo_draft")
    hub.repositories["acme/draft"] = {
        path.name: path.read_bytes() for path in draft.iterdir() if path.is_file()
    }
    done = graphrt("pull", NAME, "--draft_source_model", "acme/draft")
    assert done.returncode == 0, done.stderr
    graph = tmp_path / "models" / NAME / "graph.pbtxt"
    assert 'draft_models_path: "../draft"' in graph.read_text()
    (tmp_path / "models").rename(tmp_path / "moved")
    body = {"model": NAME, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    words = ("--source_model", NAME, "--model_repository_path", "moved")
    for more in ((), ("--draft_source_model", str(draft))):
        with (
            Serving(tmp_path, *words, *more, calculators=()).wait_until_serving() as serving,
            serving.request("POST", "/v3/chat/completions", body) as response,
        ):
            answer = json.loads(response.read())
        assert answer["choices"][0]["message"]["content"]
        (tmp_path / "moved" / NAME / "graph.pbtxt").unlink(missing_ok=True)


def test_a_draft_model_of_this_machine_may_move_with_the_models(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    shutil.copytree(DEMO.with_name("demo_draft"), tmp_path / "models" / "draft")
    done = graphrt("pull", NAME, "--draft_source_model", "models/draft", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    graph = (tmp_path / "models" / NAME / "graph.pbtxt").read_text()
    assert 'draft_models_path: "../../draft"' in graph
    assert str(tmp_path) not in graph


def test_several_models_are_served_at_once(tmp_path: Path) -> None:
    link = tmp_path / "second"
    link.symlink_to(DEMO)
    with Serving(tmp_path, "demo", "second", calculators=()).wait_until_serving() as serving:
        _, models = serving.get("/v1/models")
    names = [each["id"] for each in models["data"]]
    assert names == ["demo", "second"]


def test_a_gguf_file_is_pulled_by_its_quantization(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = make_model(tmp_path / "tiny", TINY).read_bytes()
    files = {"tiny-Q8_0.gguf": model, "tiny-Q4_K_M.gguf": model, "mmproj-tiny-F16.gguf": b"-"}
    with LoopbackHub({"acme/tiny-GGUF": files, "acme/other-GGUF": files}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(tmp_path / "models"))

        named = graphrt("pull", "hf.co/acme/tiny-GGUF:Q8_0")
        chosen = graphrt("pull", "acme/other-GGUF")
        missing = graphrt("pull", "acme/tiny-GGUF:Q2_K", "--overwrite_models", "true")

    assert named.returncode == chosen.returncode == 0
    found = {path.name for path in (tmp_path / "models" / "acme").glob("*/*.gguf")}
    assert found == {"tiny-Q8_0.gguf", "tiny-Q4_K_M.gguf"}
    assert "acme/tiny-GGUF has no GGUF file of Q2_K" in missing.stderr


SD = "acme/sd"


@pytest.fixture
def drawing(hub: LoopbackHub) -> LoopbackHub:
    """A hub with a model that draws, which no test loads, and repositories of adapters."""
    index = {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet"]}
    parts = ("text_encoder", "unet", "vae_decoder", "tokenizer")
    hub.repositories[SD] = {
        "model_index.json": json.dumps(index).encode(),
        **{f"{part}/openvino_model.xml": b"<net/>" for part in parts},
        **{f"{part}/openvino_model.bin": b"weights" for part in parts},
    }
    hub.repositories["acme/ink"] = {"ink.safetensors": b"ink" * 1000, "README.md": b"-"}
    hub.repositories["acme/styles"] = {
        "a.safetensors": b"a",
        "deep/An Art.safetensors": b"art" * 500,
    }
    return hub


def test_adapters_of_a_hub_are_downloaded_beside_the_graph(
    drawing: LoopbackHub, tmp_path: Path
) -> None:
    loras = "ink=acme/ink:0.5,art=acme/styles@deep/An%20Art.safetensors,both=@ink:0.25+@art"
    done = graphrt("pull", SD, "--source_loras", loras)
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "models" / SD
    graph = (directory / "graph.pbtxt").read_text()
    # Relative to the graph: the folder works where it is mounted.
    assert 'alias: "ink" path: "loras/acme/ink/ink.safetensors" alpha: 0.5' in graph
    assert 'alias: "art" path: "loras/acme/styles/deep/An Art.safetensors" alpha: 1' in graph
    assert 'alias: "both" components { adapter_alias: "ink" alpha: 0.25 }' in graph
    assert (directory / "loras/acme/ink/ink.safetensors").read_bytes() == b"ink" * 1000
    assert (directory / "loras/acme/styles/deep/An Art.safetensors").read_bytes() == b"art" * 500
    # What is here is not asked for again.
    drawing.faults.status = 503
    assert graphrt("pull", SD, "--source_loras", loras).returncode == 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("acme/styles", "acme/styles has 2 .safetensors files, not one adapter"),
        ("acme/styles@b.safetensors", "acme/styles has no file b.safetensors. Did you mean"),
        ("acme/none", "acme/none"),
        ("acme/none@x.safetensors", "acme/none"),
    ],
)
def test_adapters_are_checked_before_the_model_is_downloaded(
    drawing: LoopbackHub, tmp_path: Path, source: str, message: str
) -> None:
    for words in (["pull", SD], ["serve", "--source_model", SD]):
        done = graphrt(*words, "--source_loras", f"x={source}")
        assert done.returncode == 1, done.stderr
        assert message in done.stderr
    assert drawing.reads == []
    assert not (tmp_path / "models" / SD).exists()


def test_a_folder_of_the_model_repository_is_served_by_its_name(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    for name in ("mine", "other/mine"):
        folder = tmp_path / "models" / name
        folder.mkdir(parents=True)
        for path in DEMO.iterdir():
            if path.is_file():
                (folder / path.name).symlink_to(path)
        words = ("--source_model", name, "--rest_port", "auto")
        with (
            Serving(DEMO, *words, calculators=()).wait_until_serving() as serving,
            serving.request("GET", "/v3/models") as response,
        ):
            assert name in [each["id"] for each in json.loads(response.read())["data"]]
    assert hub.reads == []
    done = graphrt("serve", "--source_model", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing is not a name of a hub's model" in done.stderr

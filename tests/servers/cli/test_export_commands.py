"""Models of safetensors on the command line: exported on the way, by a stub of the exporter."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.model_store.directory import read_origin
from tests.servers.cli.process import COMMAND, environment, graphrt
from tests.servers.cli.serving import Serving
from tests.servers.model_store.exporter_stub import ExporterStub, make_source, source_files
from tests.servers.model_store.loopback_hub import LoopbackHub
from tests.support.conditions import wait_until

NAME = "acme/tiny"
BODY = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3}


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExporterStub:
    made = ExporterStub(tmp_path / "exporter")
    monkeypatch.setenv("PATH", made.path)
    monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(tmp_path / "models"))
    return made


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    repositories = {NAME: source_files(), "acme/speech": source_files("WhisperModel")}
    repositories["acme/speech"]["config.json"] = b'{"architectures": ["SpeechToSomething"]}'
    with LoopbackHub(repositories) as started:
        monkeypatch.setenv("HF_ENDPOINT", started.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(tmp_path / "models"))
        yield started


def test_a_directory_of_safetensors_is_served_and_exported_once(
    stub: ExporterStub, tmp_path: Path
) -> None:
    source = make_source(tmp_path / "mine")
    before = sorted(source.iterdir())
    for calls in (1, 1):
        with Serving(tmp_path, source, calculators=()).wait_until_serving() as serving:
            log = "".join(serving.log)
            with serving.request("POST", "/v3/chat/completions", {"model": "mine", **BODY}) as got:
                answer = json.loads(got.read())
        assert answer["usage"]["completion_tokens"] == 3
        assert "weights in int8 (the default: --weight_format chooses another)" in log
        assert "mine: OpenVINO model, exported to " in log
        assert len(stub.calls) == calls
    assert sorted(source.iterdir()) == before
    assert stub.calls[0]["words"][4:8] == [
        *("--weight-format", "int8", "--task", "text-generation-with-past")
    ]
    listed = graphrt("list").stdout
    assert "_exported/mine-int8-" in listed
    assert str(source) in listed
    (name,) = graphrt("list", "--names").stdout.split()
    assert graphrt("rm", name).returncode == 0
    assert not (tmp_path / "models" / "_exported").exists()


def test_a_model_of_safetensors_is_pulled_and_exported(
    stub: ExporterStub, hub: LoopbackHub, tmp_path: Path
) -> None:
    words = ("--pull", "--source_model", NAME, "--task", "text_generation")
    asked = ("--weight-format", "int4", "--extra_quantization_params", "--sym --group-size -1")
    done = graphrt(*words, *asked)
    assert done.returncode == 0, done.stderr
    assert "exported for text_generation with weights in int4 --sym --group-size -1" in done.stderr
    directory = tmp_path / "models" / NAME
    assert (directory / "graph.pbtxt").read_text().startswith("# Written by graphrt pull, for text")
    assert (directory / "openvino_model.xml").is_file()
    assert not (directory / "model.safetensors").exists()
    origin = read_origin(directory)
    assert origin is not None
    assert origin.weights == "int4 --sym --group-size -1"
    assert not list((tmp_path / "models" / ".downloads").glob("*/"))

    assert "is here already" in graphrt("pull", NAME).stdout
    assert "is here already" in graphrt(*words, *asked).stdout
    other = graphrt("pull", NAME, "--weight_format", "fp16")
    assert other.returncode == 1
    assert "with weights in int4 --sym --group-size -1, not fp16" in other.stderr
    assert "--overwrite_models exports it again" in other.stderr
    assert graphrt("pull", NAME, "--weight_format", "fp16", "--overwrite_models").returncode == 0
    assert len(stub.calls) == 2


def test_further_formats_are_those_of_the_exporter(
    stub: ExporterStub, hub: LoopbackHub, tmp_path: Path
) -> None:
    done = graphrt("pull", NAME, "--weight_format", "fp64")
    assert done.returncode == 1
    assert "does not write weights in fp64" in done.stderr
    assert "it writes fp32, fp16, int8, int4, mxfp4, nf4, cb4" in done.stderr
    assert hub.reads == []
    words = ("--weight_format", "nf4", "--extra_quantization_params", "--group-size 64")
    assert graphrt("pull", NAME, *words).returncode == 0
    assert stub.calls[0]["words"][4:8] == ["--weight-format", "nf4", "--group-size", "64"]


def test_a_server_starts_by_the_name_of_its_source(
    stub: ExporterStub, hub: LoopbackHub, tmp_path: Path
) -> None:
    words = ("--source_model", NAME, "--model_repository_path", "other", "--weight-format", "fp16")
    with (
        Serving(tmp_path, *words, calculators=()).wait_until_serving() as serving,
        serving.request("POST", "/v3/chat/completions", {"model": NAME, **BODY}) as got,
    ):
        answer = json.loads(got.read())
    assert answer["usage"]["completion_tokens"] == 3
    assert (tmp_path / "other" / NAME / "openvino_model.xml").is_file()
    assert stub.calls[0]["words"][4:6] == ["--weight-format", "fp16"]


def test_a_failed_export_downloads_nothing_again(
    stub: ExporterStub, hub: LoopbackHub, tmp_path: Path
) -> None:
    stub.behave("fails")
    failed = graphrt("pull", NAME)
    assert failed.returncode == 1
    assert "KeyError: no such architecture" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "secret.py" not in failed.stderr
    assert not (tmp_path / "models" / "acme").exists()
    hub.reads.clear()
    stub.behave("exports")
    assert graphrt("pull", NAME).returncode == 0
    assert hub.reads == []


def test_a_chat_shows_the_whole_error_of_its_server(stub: ExporterStub, tmp_path: Path) -> None:
    stub.behave("fails")
    done = graphrt("chat", make_source(tmp_path / "mine"))
    assert done.returncode == 1
    assert "error: optimum-cli failed while exporting" in done.stderr
    assert "\n  KeyError: no such architecture\nhint: its whole output is in " in done.stderr


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_an_interrupted_export_ends_the_exporter_and_leaves_no_model(
    stub: ExporterStub, hub: LoopbackHub, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    stub.behave("hangs")
    process = subprocess.Popen(
        [*COMMAND, "pull", NAME],
        env=environment(),
        stderr=subprocess.DEVNULL,
        # Processes in the background of a shell ignore Ctrl-C, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    wait_until(lambda: stub.pids or process.poll() is not None, "the exporter has begun")
    pids = stub.pids
    assert pids is not None
    process.send_signal(number)
    assert process.wait() == status
    if number == signal.SIGKILL:
        # Linux ends the exporter then, but not the processes that it has started.
        wait_until(lambda: not _is_running(pids[0]), "the exporter has ended")
        os.kill(pids[1], signal.SIGKILL)
    assert not any(map(_is_running, pids[:1]))
    # Its new parent has to notice.
    wait_until(lambda: not _is_running(pids[1]), "the exporter's child has ended")
    assert not (tmp_path / "models" / "acme").exists()
    stub.behave("exports")
    assert graphrt("pull", NAME).returncode == 0


def _is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended may wait for its parent."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pooling", "CLS"], "--pooling is not an option of the task text_generation"),
        (["--tool_parser", "herms"], 'Did you mean "hermes"'),
        (["--plugin_config", "[]"], "--plugin_config: must be a JSON object"),
    ],
)
def test_wrong_options_of_the_task_are_found_before_the_export(
    stub: ExporterStub, tmp_path: Path, words: list[str], message: str
) -> None:
    done = graphrt("serve", make_source(tmp_path / "mine"), *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert stub.calls == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--weight-format", "int5"], "Known here: fp32, fp16, int8, int4"),
        (["--weight-format", "int5"], "'int5' is not known. Did you mean"),
        (["--extra_quantization_params", "--model other"], "'--model' is not a parameter of quant"),
        (["--extra_quantization_params", "--ratio 2"], "--ratio needs a number from 0 to 1, not"),
        (["--extra_quantization_params", "--group-size"], "--group-size needs a number from 1"),
        (["--extra_quantization_params", "'"], "No closing quotation"),
        (
            ["--weight_format", "int8", "--extra_quantization_params", "--ratio 0.8"],
            "--ratio does not apply to weights in int8; it needs --weight_format int4",
        ),
        (["--gguf_filename", "x.gguf", "--task", "embeddings"], "has no file x.gguf"),
    ],
)
@pytest.mark.parametrize("command", ["pull", "serve"])
def test_wrong_words_about_exports_are_refused_before_anything_starts(
    stub: ExporterStub, hub: LoopbackHub, command: str, words: list[str], message: str
) -> None:
    done = graphrt(command, "--source_model", NAME, *words)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert hub.reads == []
    assert stub.calls == []


def test_a_model_that_does_not_show_its_task_is_not_exported(
    stub: ExporterStub, hub: LoopbackHub
) -> None:
    done = graphrt("pull", "acme/speech")
    assert done.returncode == 1
    assert "its config.json does not show what the model is for" in done.stderr
    assert "--task, one of text_generation, embeddings" in done.stderr
    assert stub.calls == []


def test_without_an_exporter_the_line_that_installs_it_is_printed(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("optimum-cli", path=str(Path(sys.executable).parent)):
        pytest.skip("the exporter is installed")
    places = os.environ["PATH"].split(os.pathsep)
    monkeypatch.setenv(
        "PATH", os.pathsep.join(each for each in places if not Path(each, "optimum-cli").exists())
    )
    for words in (["pull", NAME], ["serve", str(make_source(tmp_path / "mine"))]):
        done = graphrt(*words)
        assert done.returncode == 1
        assert "holds safetensors, which must be exported to OpenVINO first" in done.stderr
        assert "hint: pip install 'graphrt[export]'" in done.stderr
    assert hub.reads == []


def test_the_form_of_weights_has_no_effect_on_other_models(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    hub.repositories["acme/gguf"] = {"model.gguf": b"GGUF"}
    done = graphrt("pull", "acme/gguf", "--weight-format", "int4")
    assert done.returncode == 0, done.stderr
    assert "--weight_format has no effect: acme/gguf is a model of GGUF" in done.stderr


def test_what_another_program_has_pulled_is_served_as_it_is(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    directory = tmp_path / "models" / NAME
    directory.mkdir(parents=True)
    (directory / "graph.pbtxt").write_text("# File created with: OpenVINO Model Server\n")
    done = graphrt("pull", NAME)
    assert done.returncode == 0, done.stderr
    assert f"is here already, in: {directory}" in done.stdout
    assert hub.reads == []


def test_a_draft_model_of_configure_is_named_relative_to_the_graph(tmp_path: Path) -> None:
    for name in ("models/main", "models/draft"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "openvino_model.xml").touch()
    words = ("configure", "models/main", "--task", "text_generation")
    graph = tmp_path / "models" / "main" / "graph.pbtxt"
    for given in ("models/draft", "../draft"):
        done = graphrt(*words, "--draft_source_model", given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert 'draft_models_path: "../draft"' in graph.read_text()


def test_the_graph_of_a_directory_is_written_once(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "openvino_model.xml"):
        (model / name).touch()
    words = ("--configure", "--model_path", model, "--task", "text_generation")
    done = graphrt(*words, "--tool_parser", "hermes3")
    graph = model / "graph.pbtxt"
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Graph: graph.pbtxt created in: {graph}\n"
    assert graph.read_text().startswith("# Written by graphrt configure, for text_generation\n")
    assert 'tool_parser: "hermes3"' in graph.read_text()
    assert "is there already" in graphrt(*words).stdout
    again = graphrt("configure", model, "--cache_size", "2")
    assert "is written again" in again.stderr
    assert "cache_size: 2" in graph.read_text()
    graph.write_text("# by hand\n")
    kept = graphrt("configure", model, "--cache_size", "2")
    assert kept.returncode == 1
    assert "was not written by graphrt, and is kept" in kept.stderr
    assert graph.read_text() == "# by hand\n"

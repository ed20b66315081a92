"""Exports of directories of this machine: made once, whole or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from servers.model_store.directory import ModelStore, read_origin
from servers.model_store.export import (
    ExportRequest,
    WeightForm,
    exported,
    model_files,
    weight_form,
    weights_in,
)
from servers.model_store.model_reference import ModelError
from tests.calculators.llm.demo_model import DEMO
from tests.servers.model_store.exporter_stub import ExporterStub, make_source

INT8 = WeightForm("int8")


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExporterStub:
    made = ExporterStub(tmp_path / "exporter")
    monkeypatch.setenv("PATH", made.path)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path / "models" / "tiny")


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "repository")


def request(source: Path, form: WeightForm = INT8) -> ExportRequest:
    return ExportRequest(str(source), source, (), form)


def leftovers(store: ModelStore) -> list[str]:
    """The files in the directory of models, besides locks and logs."""
    files = (file for file in store.directory.rglob("*") if file.is_file())
    return [file.name for file in files if file.suffix not in (".lock", ".log")]


def test_an_export_is_a_whole_model_beside_others(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    before = {file.name: file.read_bytes() for file in source.iterdir()}
    place = exported(request(source), store)
    assert place.parent == store.directory / "_exported"
    assert re.fullmatch(r"tiny-int8-[0-9a-f]{8}", place.name)
    for name in ("openvino_model.bin", "openvino_tokenizer.xml"):
        assert (place / name).read_bytes() == (DEMO / name).read_bytes()
    # Small files that the exporter does not write come along, but nothing about safetensors.
    assert (place / "LICENSE").read_bytes() == b"free to use\n"
    assert not list(place.glob("*safetensors*"))
    origin = read_origin(place)
    assert origin is not None
    assert (origin.repository, origin.weights) == (str(source), "int8")
    assert {file.name: file.read_bytes() for file in source.iterdir()} == before


def test_the_exporter_is_called_with_the_model_and_the_form_alone(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    form = weight_form(None, ("--sym", "--group-size", "64"))
    exported(request(source, form), store)
    (call,) = stub.calls
    *words, _ = call["words"]
    assert words == [
        *("export", "openvino", "--model", call["source"]),
        *("--weight-format", "int4", "--sym", "--group-size", "64"),
        *("--group-size-fallback", "adjust"),
    ]
    assert call["source"] == str(source)
    assert call["offline"] == "1"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (WeightForm("fp16"), "fp16"),
        (WeightForm("int8", ("--sym",)), "int8 --sym"),
        (WeightForm("int4"), "int4 --ratio 1.0 --group-size 128 --group-size-fallback adjust"),
        (WeightForm("int4", ("--sym",)), "int4 --sym --group-size-fallback adjust"),
        (WeightForm("int4", ("--group-size", "-1")), "int4 --group-size -1"),
        (
            WeightForm("int4", ("--group-size-fallback", "error")),
            "int4 --group-size-fallback error",
        ),
    ],
)
def test_the_form_of_weights_is_spelled_out(
    stub: ExporterStub, source: Path, store: ModelStore, form: WeightForm, words: str
) -> None:
    exported(request(source, form), store)
    (call,) = stub.calls
    assert " ".join(call["words"][5:-1]) == words


def test_samples_are_downloaded_only_where_they_are_asked_for(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    exported(request(source, WeightForm("int4", ("--dataset", "wikitext2"))), store)
    assert stub.calls[0]["offline"] is None


def test_a_second_start_does_not_export_again(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    first = exported(request(source), store)
    assert exported(request(source), store) == first
    assert len(stub.calls) == 1
    other = exported(request(source, WeightForm("int4")), store)
    assert other != first
    assert len(stub.calls) == 2
    assert exported(request(source), store, overwrites=True) == first
    assert len(stub.calls) == 3


def test_changed_files_and_another_exporter_make_the_export_anew(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    stub.has_version("1.27.0")
    place = exported(request(source), store)
    origin = read_origin(place)
    assert origin is not None
    assert origin.exporter == "optimum_intel 1.27.0"
    weights = source / "model.safetensors"
    os.utime(weights, ns=(0, weights.stat().st_mtime_ns + 1))
    assert exported(request(source), store) == place
    assert len(stub.calls) == 2
    (source / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "more": 1}')
    exported(request(source), store)
    assert len(stub.calls) == 3
    stub.has_version("1.28.0")
    exported(request(source), store)
    assert len(stub.calls) == 4
    exported(request(source), store)
    assert len(stub.calls) == 4
    assert len(list(place.parent.iterdir())) == 1


def test_an_export_is_used_where_there_is_no_exporter(
    stub: ExporterStub, source: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.has_version("1.27.0")
    place = exported(request(source), store)
    monkeypatch.setattr("servers.model_store.export.find_exporter", lambda: None)
    assert exported(request(source), store) == place
    with pytest.raises(ModelError, match="holds safetensors, which must be exported") as info:
        exported(request(source, WeightForm("fp16")), store)
    assert info.value.hint == "pip install 'graphrt[export]'"


@pytest.mark.parametrize(
    ("behaviour", "message", "hint"),
    [
        ("fails", "optimum-cli failed while exporting", r"its whole output is in .*export\.log"),
        ("needs code", "trust_remote_code=True", "brings code of its own, which graphrt does not"),
        ("is killed", "was killed, as Linux does when memory runs out", "whole output"),
        ("writes nothing", "ended without an error, but has written no model", "output is in"),
    ],
)
def test_a_failing_exporter_is_quoted_and_leaves_nothing(
    stub: ExporterStub,
    source: Path,
    store: ModelStore,
    behaviour: str,
    message: str,
    hint: str,
) -> None:
    stub.behave(behaviour)
    with pytest.raises(ModelError, match=re.escape(message)) as info:
        exported(request(source), store)
    assert re.search(hint, str(info.value.hint))
    assert not (store.directory / "_exported").exists()
    if behaviour != "writes nothing":
        assert leftovers(store) == []
    stub.behave("exports")
    assert exported(request(source), store).is_dir()
    assert not list(store.directory.rglob("export.log"))


def test_an_error_has_the_last_lines_without_traceback_bars_and_colours(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    stub.behave("fails")
    with pytest.raises(ModelError) as info:
        exported(request(source), store)
    text = str(info.value)
    assert text.endswith(":\n  loading weights\n  KeyError: no such architecture")


def test_a_long_error_is_shown_with_its_beginning(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    stub.behave("explains at length")
    with pytest.raises(ModelError) as info:
        exported(request(source), store)
    lines = str(info.value).splitlines()[1:]
    assert lines == ["  ValueError: wrong size of", *(f"  layer {n}" for n in range(12, 20))]


def test_files_that_change_meanwhile_are_noticed(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    stub.behave("changes the source")
    with pytest.raises(ModelError, match="have changed while they were exported"):
        exported(request(source), store)
    assert not (store.directory / "_exported").exists()


def test_two_exports_of_one_model_do_not_meet(
    stub: ExporterStub, source: Path, store: ModelStore
) -> None:
    place = exported(request(source), store, overwrites=True)
    with (
        store.workspace(f"_exported--{place.name}", "busy"),
        pytest.raises(ModelError, match=r"another process is exporting .*tiny to int8"),
    ):
        exported(request(source), store, overwrites=True)


class _Usage:
    free = 1000


def test_a_full_disk_is_noticed_before(
    stub: ExporterStub, source: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage())
    with pytest.raises(ModelError, match=r"14\.0 kB more are needed in .*, where 1\.0 kB are free"):
        exported(request(source), store)
    assert stub.calls == []


@pytest.mark.parametrize(
    ("asked", "parameters", "device", "expected"),
    [
        (None, (), "", "int8"),
        ("fp16", (), "CPU", "fp16"),
        (None, ("--sym",), "", "int4 --sym"),
        (None, (), "NPU", "int4 --sym --ratio 1.0 --group-size -1"),
        ("int4", ("--sym",), "NPU", "int4 --sym"),
        ("int8", (), "NPU", "int8"),
    ],
)
def test_the_form_of_weights_follows_from_what_is_asked(
    asked: str | None, parameters: tuple[str, ...], device: str, expected: str
) -> None:
    form = weight_form(asked, parameters, device=device)
    assert str(form) == expected
    assert form.is_asked == (asked is not None or bool(parameters))


def test_a_pipeline_has_files_in_folders_of_its_parts(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    for name in ("model_index.json", "unet/config.json", "unet/model.safetensors"):
        (tmp_path / name).write_bytes(b"weights")
    names = [path.relative_to(tmp_path).as_posix() for path in model_files(tmp_path)]
    assert names == ["model_index.json", "unet/config.json", "unet/model.safetensors"]
    assert weights_in(tmp_path) == 7

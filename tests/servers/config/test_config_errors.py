"""Errors of a config.json: path, place, and what would be right; all of them at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servers.config import ConfigError, read_config
from servers.config.server_config import MAX_ENTRIES


def errors_of(folder: Path, content: Any) -> list[str]:
    """Return the findings of an unusable config as they are shown, without the file name."""
    path = folder / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    return [finding.to_text().removeprefix(f"{path}:") for finding in caught.value.findings]


def only_error(folder: Path, content: Any) -> str:
    (error,) = errors_of(folder, content)
    return error


def graph(**members: Any) -> dict[str, Any]:
    return {"mediapipe_config_list": [{"name": "a", **members}]}


def model(**members: Any) -> dict[str, Any]:
    return {"model_config_list": [{"config": {"name": "a", **members}}]}


def test_every_error_is_reported_with_its_line(tmp_path: Path) -> None:
    errors = errors_of(
        tmp_path,
        """{
  "mediapipe_config_lst": [],
  "mediapipe_config_list": [
    {"name": "a", "base_pth": "x"},
    {"base_path": 7},
    "c"
  ],
  "monitoring": {"metrics": {"enable": "yes"}}
}""",
    )
    assert errors == [
        "2:3: error: mediapipe_config_lst: unknown key\n"
        'hint: did you mean "mediapipe_config_list"?',
        "4:19: error: mediapipe_config_list[0].base_pth: unknown key\n"
        'hint: did you mean "base_path"?',
        "5:6: error: mediapipe_config_list[1].base_path: a string is needed, not 7",
        '5:5: error: mediapipe_config_list[1]: the key "name" is missing',
        '6:5: error: mediapipe_config_list[2]: an object is needed, not "c"',
        '8:30: error: monitoring.metrics.enable: true or false is needed, not "yes"',
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (graph(name=""), "mediapipe_config_list[0].name: a string that is not empty is needed"),
        (graph(queue=3, nam="b"), "mediapipe_config_list[0].nam: unknown key"),
        ({"mediapipe_config_list": {}}, "mediapipe_config_list: a list is needed, not {}"),
        ({"model_config_list": [{"name": "a"}]}, 'model_config_list[0]: the key "config"'),
        (model(nireq=-1), "config.nireq: a whole number from 0 to 100000 is needed, not -1"),
        (model(nireq=True), "config.nireq: a whole number from 0 to 100000 is needed, not true"),
        (model(batch_size=[1]), "config.batch_size: a number or a string is needed"),
        (model(plugin_config={"A": {}}), "config.plugin_config.A: a string, a number, true or"),
        (model(layout={"x": 1}), "config.layout.x: a string is needed, not 1"),
        (model(model_version_policy={}), "model_version_policy: exactly one key is needed"),
        (
            model(model_version_policy={"latest": {"num_versions": 0}}),
            "latest.num_versions: a whole number from 1 on is needed, not 0",
        ),
        (model(model_version_policy={"specific": {"versions": []}}), "versions: the list is empty"),
        (model(shape="1,3"), 'config.shape: "1,3" is not understood: a shape is "(1,3,224,224)"'),
        (
            model(shape={"x": "(1,b)"}),
            "config.shape.x: \"(1,b)\" is not understood: 'b' is no length",
        ),
        (model(shape="(1,-2)"), "'-2' is no length: write a number, -1 for any, or a range 2:8"),
        (model(shape="(8:2)"), "the range 8:2 must rise"),
        (model(shape="(9999999999)"), "the length 9999999999 is more than 2147483647"),
        (model(shape=7), "config.shape: a string or a list of lengths is needed, not 7"),
        (model(batch_size="many"), "config.batch_size: \"many\" is not understood: 'many' is no"),
        (model(layout="NXHW"), 'config.layout: "NXHW" is not understood: a layout is NHWC:NCHW'),
        (model(layout={"x": "NN"}), 'config.layout.x: "NN" is not understood'),
        (model(layout="N:C:H"), "is not understood: a layout is NHWC:NCHW"),
        (model(precision="fp32"), "is not understood: a precision is uint8:fp32"),
        (model(color_format="RGB:CMYK"), "is not understood: a color format is RGB:BGR"),
        (model(mean="[1,x]"), 'config.mean: "[1,x]" is not understood: a number is needed'),
        (model(scale=[True]), "config.scale: [true] is not understood: a number is needed"),
        (model(custom_loader_options={}), 'the key "loader_name" is missing'),
        ({"model_config_list": [], "monitoring": {}}, 'monitoring: the key "metrics" is missing'),
        (
            {"pipeline_config_list": [{"name": "p", "nodes": [{}], "inputs": []}]},
            'pipeline_config_list[0].nodes[0]: the key "type" is missing',
        ),
        (
            {"custom_node_library_config_list": [{"name": "n"}]},
            'custom_node_library_config_list[0]: the key "base_path" is missing',
        ),
        (
            {"custom_loader_config_list": [{"config": {"loader_name": "l"}}]},
            'custom_loader_config_list[0].config: the key "library_path" is missing',
        ),
        (
            {"model_config_list": [{"config": {"name": "m", "scale": "[1,0,1]"}}]},
            'model_config_list[0].config.scale: "[1,0,1]" is not understood: inputs are divided',
        ),
        ({"pipeline_config_list": [{}]}, 'pipeline_config_list[0]: the key "name" is missing'),
        ([], "an object is needed, not []"),
        ({}, "nothing is listed to be served"),
        ({"architectures": ["Llama"], "vocab_size": 1}, "this is a model's own config.json"),
        ('{"model_config_list": [], "model_config_list": []}', "the key stands twice"),
        ('{"model_config_list": [],}', "this is not JSON"),
        ("\x00", "this is not JSON"),
    ],
)
def test_an_error_names_the_path_and_what_would_be_right(
    tmp_path: Path, content: Any, message: str
) -> None:
    errors = errors_of(tmp_path, content)
    assert any(message in error for error in errors), errors


def test_an_unreadable_config_is_refused(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path / "none.json", "no such file"),
        (tmp_path, "this is a directory"),
        (tmp_path / "nul\0.json", "cannot be read"),
    ]:
        with pytest.raises(ConfigError, match=message):
            read_config(path)
    (tmp_path / "latin.json").write_bytes(b'{\n"a": "\xe9"}')
    with pytest.raises(
        ConfigError, match=r"latin\.json:2:1: error: this is not JSON: it is not UTF"
    ):
        read_config(tmp_path / "latin.json")


def test_a_half_written_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    whole = json.dumps(graph())
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        path.write_text(whole[: 10 * len(pauses)] if len(pauses) < 3 else whole)

    monkeypatch.setattr("servers.config.server_config.time.sleep", pause)
    path.write_text("")
    assert [entry.name for entry in read_config(path).graphs] == ["a"]
    assert len(pauses) == 3


def test_a_file_that_stays_half_written_is_refused(tmp_path: Path) -> None:
    assert "this is not JSON" in only_error(tmp_path, json.dumps(graph())[:-1])


def test_more_entries_than_a_server_can_hold_are_refused(tmp_path: Path) -> None:
    graphs = [{"name": f"g{number}"} for number in range(MAX_ENTRIES)]
    models = [{"config": {"name": "m", "base_path": "m"}}]
    error = only_error(tmp_path, {"mediapipe_config_list": graphs, "model_config_list": models})
    assert f"{MAX_ENTRIES + 1} graphs and models are listed" in error
    assert "share them between several servers" in error

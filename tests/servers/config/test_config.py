"""config.json: graphs, plain models, their files, and entries that are not served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from servers.config import MetricsConfig, ServerConfig, find_graph, read_config

#: The form of the guides for releases from 2024 to 2025.
OLD_FORM = """\
{
    "model_config_list": [],
    "mediapipe_config_list": [
        {
            "name": "meta-llama/Meta-Llama-3-8B-Instruct",
            "base_path": "Meta-Llama-3-8B-Instruct"
        }
    ]
}
"""

#: The form that the model server's own tools write now.
NEW_FORM = """\
{
  "model_config_list": [
    {"config": {"name": "demo/model", "base_path": "models/demo"}},
    {"config": {"name": "resnet", "base_path": "models/resnet", "target_device": "CPU",
                "nireq": 4, "plugin_config": {"NUM_STREAMS": 2}, "shape": {"x": "(1,2)"},
                "batch_size": "auto", "layout": "NCHW", "model_version_policy": {"all": {}}}}
  ],
  "monitoring": {"metrics": {"enable": true, "metrics_list": ["ovms_requests_success"]}}
}
"""


def read(folder: Path, content: Any) -> ServerConfig:
    (folder / "config.json").write_text(
        content if isinstance(content, str) else json.dumps(content)
    )
    return read_config(folder / "config.json")


def make_graph(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "graph.pbtxt").write_text("")
    return directory


def warnings_of(config: ServerConfig) -> list[str]:
    assert all(finding.severity == "warning" for finding in config.findings)
    return [finding.message for finding in config.findings]


def test_graphs_of_the_mediapipe_list_are_read(tmp_path: Path) -> None:
    directory = make_graph(tmp_path / "Meta-Llama-3-8B-Instruct")
    config = read(tmp_path, OLD_FORM)
    (entry,) = config.graphs
    assert entry.name == "meta-llama/Meta-Llama-3-8B-Instruct"
    assert entry.directory == directory
    assert entry.graph_path == directory / "graph.pbtxt"
    assert entry.subconfig_path == directory / "subconfig.json"
    assert (config.models, config.metrics, config.findings) == ((), None, ())


def test_graphs_of_the_model_list_are_recognised_by_their_graph_file(tmp_path: Path) -> None:
    directory = make_graph(tmp_path / "models" / "demo")
    (tmp_path / "models" / "resnet" / "1").mkdir(parents=True)
    config = read(tmp_path, NEW_FORM)
    assert [(entry.name, entry.directory) for entry in config.graphs] == [("demo/model", directory)]
    assert [(model.name, model.base_path) for model in config.models] == [
        ("resnet", tmp_path / "models" / "resnet")
    ]
    assert config.metrics == MetricsConfig(True, ("ovms_requests_success",))
    assert config.findings == ()


def test_a_model_without_a_directory_is_kept_as_a_failed_model(tmp_path: Path) -> None:
    # Its status then reports the error.
    config = read(tmp_path, {"model_config_list": [{"config": {"name": "a", "base_path": "typo"}}]})
    assert config.graphs == ()
    assert [model.base_path for model in config.models] == [tmp_path / "typo"]


def test_errors_of_a_model_entry_are_reported(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            "model_config_list": [
                {"config": {"name": "a", "base_path": "s3://b/c"}},
                {"config": {"name": "b", "custom_loader_options": {"loader_name": "l"}}},
            ]
        },
    )
    assert config.models[0].stored is not None  # nobody has asked the store yet
    assert "loaders" in config.models[1].refusal
    assert [text.partition(":")[0] for text in warnings_of(config)] == [
        "model_config_list[1].config"
    ]


def test_paths_are_relative_to_the_config_and_to_the_base_path(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            "mediapipe_config_list": [
                {"name": "default"},
                {"name": "empty", "base_path": ""},
                {"name": "relative", "base_path": "x/y", "graph_path": "g.pbtxt"},
                {"name": "absolute", "base_path": str(tmp_path / "z"), "subconfig": "s.json"},
                {"name": "own", "graph_path": str(tmp_path / "elsewhere.pbtxt")},
            ]
        },
    )
    found = {entry.name: entry for entry in config.graphs}
    assert found["default"].graph_path == tmp_path / "default" / "graph.pbtxt"
    assert found["empty"].graph_path == tmp_path / "empty" / "graph.pbtxt"
    assert found["relative"].graph_path == tmp_path / "x" / "y" / "g.pbtxt"
    assert found["relative"].directory == tmp_path / "x" / "y"
    assert found["absolute"].subconfig_path == tmp_path / "z" / "s.json"
    assert found["own"].graph_path == tmp_path / "elsewhere.pbtxt"
    assert found["own"].directory == tmp_path / "own"


def test_a_graph_in_the_directory_of_version_1_is_found(tmp_path: Path) -> None:
    directory = make_graph(tmp_path / "a" / "1")
    config = read(tmp_path, {"mediapipe_config_list": [{"name": "a"}]})
    assert config.graphs[0].graph_path == directory / "graph.pbtxt"
    assert config.graphs[0].directory == directory


def test_the_first_of_several_entries_with_one_name_is_served(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        make_graph(tmp_path / name)
    config = read(
        tmp_path,
        {
            "model_config_list": [{"config": {"name": "a", "base_path": "third"}}],
            "mediapipe_config_list": [
                {"name": "a", "base_path": "first"},
                {"name": "a", "base_path": "second"},
            ],
        },
    )
    assert [entry.directory.name for entry in config.graphs] == ["first"]
    second, third = warnings_of(config)
    assert second.startswith('mediapipe_config_list[1].name: the name "a" is taken: the first')
    assert third.startswith('model_config_list[0].config.name: the name "a" is taken')


def test_a_plain_model_comes_before_a_graph_of_its_name(tmp_path: Path) -> None:
    make_graph(tmp_path / "graph")
    config = read(
        tmp_path,
        {
            "model_config_list": [{"config": {"name": "a", "base_path": "model"}}],
            "mediapipe_config_list": [{"name": "a", "base_path": "graph"}],
        },
    )
    assert (config.graphs, [model.name for model in config.models]) == ((), ["a"])
    (warning,) = warnings_of(config)
    assert warning.startswith(
        'mediapipe_config_list[0].name: the name "a" is taken: the model of that name in '
        "model_config_list is served, not this graph"
    )


def test_unsupported_entries_are_accepted_with_a_warning(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            "model_config_list": [],
            "custom_node_library_config_list": [{"name": "n", "base_path": "n.so"}],
            "custom_loader_config_list": [{"config": {"loader_name": "l", "library_path": "l"}}],
        },
    )
    assert config.graphs == ()
    assert [text.partition(":")[0] for text in warnings_of(config)] == [
        "custom_node_library_config_list",
        "custom_loader_config_list",
    ]


def test_models_of_a_subconfig_are_served_to_all(tmp_path: Path) -> None:
    directory = make_graph(tmp_path / "a")
    subconfig = directory / "subconfig.json"
    content = {"mediapipe_config_list": [{"name": "a"}]}
    subconfig.write_text(
        '{"model_config_list": [{"config": {"name": "m", "base_path": "x"}},'
        ' {"config": {"name": "a"}}]}'
    )
    config = read(tmp_path, content)
    assert [(model.name, model.base_path) for model in config.models] == [("m", directory / "x")]
    (warning,) = config.findings
    assert (warning.file, warning.severity) == (str(subconfig), "warning")
    assert 'the name "a" is taken' in warning.message
    subconfig.write_text('{"model_config_list": []}')
    assert read(tmp_path, content).findings == ()


def test_graphs_may_share_the_models_of_a_subconfig(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_graph(tmp_path / name)
    (tmp_path / "models.json").write_text('{"model_config_list": [{"config": {"name": "m"}}]}')
    graphs = [{"name": name, "subconfig": "../models.json"} for name in ("a", "b")]
    config = read(tmp_path, {"mediapipe_config_list": graphs})
    assert [model.name for model in config.models] == ["m"]
    assert config.findings == ()


def test_an_invalid_subconfig_stops_no_graph(tmp_path: Path) -> None:
    subconfig = make_graph(tmp_path / "a") / "subconfig.json"
    subconfig.write_text('{"models": []}')
    config = read(tmp_path, {"mediapipe_config_list": [{"name": "a"}]})
    assert [entry.name for entry in config.graphs] == ["a"]
    assert {finding.severity for finding in config.findings} == {"error"}
    assert "unknown key" in config.findings[0].message


def test_a_language_model_without_a_graph_has_the_graph_of_its_task(tmp_path: Path) -> None:
    directory = tmp_path / "lm"
    directory.mkdir()
    (directory / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (directory / "openvino_model.xml").touch()
    config = read(tmp_path, {"model_config_list": [{"config": {"name": "lm"}}]})
    assert config.models == ()
    (entry,) = config.graphs
    assert entry.graph_text is not None
    assert 'calculator: "HttpLLMCalculator"' in entry.graph_text
    assert 'models_path: "./"' in entry.graph_text
    # A graph of the author's own goes before.
    (directory / "graph.pbtxt").write_text("")
    assert read(tmp_path, {"model_config_list": [{"config": {"name": "lm"}}]}).graphs[0] != entry


def test_a_key_that_a_newer_server_may_know_is_named_and_has_no_effect(tmp_path: Path) -> None:
    make_graph(tmp_path / "a")
    entries = [{"name": "a", "warmup_requests": 3}]
    config = read(tmp_path, {"mediapipe_config_list": entries, "quantum_device_list": []})
    assert [entry.name for entry in config.graphs] == ["a"]
    assert [(each.severity, each.message) for each in config.findings] == [
        ("warning", "mediapipe_config_list[0].warmup_requests: unknown key: it has no effect"),
        ("warning", "quantum_device_list: unknown key: it has no effect"),
    ]


def test_a_single_directory_is_served_under_its_name(tmp_path: Path) -> None:
    directory = make_graph(tmp_path / "demo")
    assert find_graph(directory).name == "demo"
    assert find_graph(directory, "other").graph_path == directory / "graph.pbtxt"


def test_paths_are_relative_to_a_link_and_not_to_its_target(tmp_path: Path) -> None:
    # As in a mounted ConfigMap: config.json -> ..data/config.json
    directory = make_graph(tmp_path / "demo")
    (tmp_path / "data").mkdir()
    read(tmp_path / "data", {"mediapipe_config_list": [{"name": "demo"}]})
    (tmp_path / "config.json").symlink_to(tmp_path / "data" / "config.json")
    assert read_config(tmp_path / "config.json").graphs[0].directory == directory
    (tmp_path / "link").symlink_to(directory)
    assert find_graph(tmp_path / "link").name == "link"

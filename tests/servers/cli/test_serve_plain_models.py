"""`graphrt serve` of one plain model, with what OpenVINO Model Server's flags say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calculators.tensors.openvino.tiny_models import matmul_model, save
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.servers.serving.models.model_folders import add_number_model, image_model


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of versions, and a file."""
    save(image_model(), tmp_path / "image" / "1" / "m.xml")
    save(image_model(), tmp_path / "image" / "2" / "m.xml")
    save(add_number_model(1), tmp_path / "add.xml")
    return tmp_path


def test_a_model_is_served_as_the_flags_say(site: Path) -> None:
    flags = {
        "--model_name": "pictures",
        "--model_path": "image",
        "--layout": '{"IMAGE": "NHWC:NCHW"}',
        "--batch_size": "auto",
        "--precision": "uint8:fp32",
        "--nireq": "2",
        "--model_version_policy": '{"all": {}}',
        "--plugin_config": '{"NUM_STREAMS": 1}',
        "--target_device": "CPU",
    }
    words = [word for flag in flags.items() for word in flag]
    with Serving(site, *words, calculators=()) as server:
        server.wait_until_serving()
        assert "  pictures  ready: a plain model, version 1, 2\n" in "".join(server.log)
        status, metadata = server.get("/v2/models/pictures")
        assert status == 200
        assert metadata["versions"] == ["1", "2"]
        assert metadata["inputs"] == [
            {"name": "IMAGE", "datatype": "UINT8", "shape": [-1, 4, 5, 3]}
        ]


def test_the_file_of_a_model_is_served_under_its_name(site: Path) -> None:
    with Serving(site, "add.xml", calculators=()) as server:
        server.wait_until_serving()
        assert "  curl http://127.0.0.1:" in server.log[-1]
        assert server.log[-1].endswith("/v2/models/add\n")
        tensor = {"name": "X", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        with server.request("POST", "/v2/models/add/infer", {"inputs": [tensor]}) as response:
            assert response.status == 200
            assert b"[2.0,3.0]" in response.read()


def test_a_model_that_cannot_be_loaded_is_told(site: Path) -> None:
    with Serving(site, "image", "--target_device", "XPU", calculators=()) as server:
        line = server.wait_for("  image  ")
        assert "failed: OpenVINO on XPU: " in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("image --shape 1,3", '--shape: "1,3" is not understood: a shape is "(1,3,224,224)"'),
        ('image --shape {"IMAGE":"x"}', '--shape.IMAGE: "x" is not understood'),
        ("image --shape {", "--shape is not JSON"),
        ("image --layout NXC", '--layout: "NXC" is not understood: a layout is NHWC:NCHW'),
        ("image --model_version_policy all", "--model_version_policy is not JSON"),
        ('image --model_version_policy {"any":{}}', "--model_version_policy.any: unknown key"),
        ("image --nireq 100001", "--nireq: a whole number from 0 to 100000 is needed"),
        ("image --plugin_config []", "--plugin_config: an object is needed, not []"),
        ("config.json --shape auto", "--shape is for one model, and config.json is no"),
    ],
)
def test_wrong_usage_is_exit_code_2(site: Path, words: str, message: str) -> None:
    (site / "config.json").write_text('{"model_config_list": []}')
    done = graphrt("serve", "--rest_port", "auto", *words.split(), cwd=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_graph_is_served_as_it_is(site: Path) -> None:
    save(matmul_model(), site / "graph" / "1" / "m.xml")
    (site / "graph" / "graph.pbtxt").write_text(
        'input_stream: "x" output_stream: "y"'
        'node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }'
    )
    with Serving(site, "graph", "--shape", "auto", calculators=()) as server:
        server.wait_for("--shape has no effect: graph has a graph.pbtxt")
        assert server.wait_for("  graph  ") == "  graph  ready\n"


def test_configs_are_checked_without_loading_models(site: Path) -> None:
    (site / "config.json").write_text(
        '{"model_config_list": [\n'
        '{"config": {"name": "a", "base_path": "image"}},\n'
        '{"config": {"name": "b", "base_path": "image", "shape": "(1,2:8)"}}]}'
    )
    done = graphrt("validate", "config.json", cwd=site)
    assert (done.returncode, done.stdout) == (0, "config.json: ok (0 graphs, 2 models)\n")
    text = (site / "config.json").read_text()
    (site / "config.json").write_text(
        '{"model_config_list": [{"config": {"name": "a", "base_path": "imag"}}, {"config": {'
        '"name": "b", "base_path": "image",'
        ' "model_version_policy": {"specific": {"versions": [2, 3]}}}}]}'
    )
    done = graphrt("validate", "config.json", cwd=site)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        'config.json: error: the model "a": there is no directory "imag", its base_path',
        'config.json: error: the model "b": there is no folder 3 in its base_path, which its '
        "version policy names",
    ]
    (site / "config.json").write_text(text.replace("2:8", "8:2"))
    done = graphrt("validate", "config.json", cwd=site)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        'config.json:3:48: error: model_config_list[1].config.shape: "(1,8:2)" is not understood: '
        "the range 8:2 must rise\n"
    )

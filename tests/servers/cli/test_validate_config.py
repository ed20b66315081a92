"""`graphrt validate config.json`: the config and the graphs that it names, without any model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servers.serving.graph_source import GraphSource
from tests.calculators.llm.graph_texts import loop_with
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT

VALIDATE = ["validate", "--calculators", "calcs.py"]
DEMO = ROOT / "examples" / "models" / "demo"


def test_a_good_config_is_ok(site: Path) -> None:
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert (done.returncode, done.stdout, done.stderr) == (0, "config.json: ok (2 graphs)\n", "")


def test_errors_in_the_graphs_are_errors_of_the_config(site: Path) -> None:
    (site / "echo" / "graph.pbtxt").write_text('\nnode { calculator: "Ecko" }')
    (site / "stream" / "graph.pbtxt").unlink()
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert (done.returncode, done.stdout) == (1, "")
    assert "echo/graph.pbtxt:2:20: error: " in done.stderr
    assert "stream/graph.pbtxt: error: no such file" in done.stderr


def test_findings_stand_file_by_file_and_by_line(site: Path) -> None:
    (site / "config.json").write_text(
        '{"mediapipe_config_list": [\n{"name": "echo"},\n\n{"name": "echo"},\n{"name": "stream"}]}'
    )
    for name in ("echo", "stream"):
        (site / name / "graph.pbtxt").write_text('node { calculator: "A" }\nnode {calculator: "B"}')
    done = graphrt(*VALIDATE, "--format", "json", "config.json", cwd=site)
    (result,) = json.loads(done.stdout)
    assert [(finding["file"], finding["line"]) for finding in result["findings"]] == [
        ("config.json", 4),
        ("echo/graph.pbtxt", 1),
        ("echo/graph.pbtxt", 2),
        ("stream/graph.pbtxt", 1),
        ("stream/graph.pbtxt", 2),
    ]


def test_errors_of_the_config_itself_have_their_line(site: Path) -> None:
    (site / "config.json").write_text('{\n"mediapipe_config_list": [{"nam": "echo"}]}')
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "config.json:2:28: error: mediapipe_config_list[0].nam: unknown key",
        'hint: did you mean "name"?',
        'config.json:2:27: error: mediapipe_config_list[0]: the key "name" is missing',
    ]


def test_the_comment_of_the_graph_queue_is_checked(site: Path) -> None:
    graph = site / "echo" / "graph.pbtxt"
    graph.write_text("# made by a tool\n  # OVMS_GRAPH_QUEUE_MAX_SIZE: many\n" + graph.read_text())
    done = graphrt(*VALIDATE, "config.json", "echo/graph.pbtxt", cwd=site)
    assert done.returncode == 1
    message = (
        "echo/graph.pbtxt:2:32: error: OVMS_GRAPH_QUEUE_MAX_SIZE is many; a whole number from 0 "
        "on, or AUTO, is needed"
    )
    assert done.stderr.splitlines() == [message, message]


NODES = """\
from graph_runtime import calculator

@calculator
def Own(text: str) -> str:
    return text
"""
OWN = 'input_stream: "in" node { calculator: "Own" input_stream: "in" output_stream: "out" }'


def test_calculators_of_the_python_path_are_known(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "graph.pbtxt").write_text(OWN)
    (tmp_path / "nodes.py").write_text(NODES)
    for text in (
        '{"python_path": "nodes.py", "mediapipe_config_list": [{"name": "own"}]}',
        '{"mediapipe_config_list": [{"name": "own", "python_path": ["nodes.py"]}]}',
    ):
        (tmp_path / "config.json").write_text(text)
        done = graphrt("validate", "config.json", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "config.json: ok (1 graph)\n"), done.stderr


def test_what_cannot_be_imported_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "graph.pbtxt").write_text(OWN)
    (tmp_path / "nodes.py").write_text(f"print('loading')\n1 / 0\n{NODES}")
    (tmp_path / "config.json").write_text(
        '{"python_path": ["nodes.py", "nothing"], "mediapipe_config_list": [{"name": "own"}]}'
    )
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nodes.py:2: error: ZeroDivisionError: division by zero\n" in done.stderr
    told = 'config.json:1:30: error: python_path[1]: there is no file or directory "nothing"\n'
    assert told in done.stderr
    assert 'Unable to find Calculator "Own".' in done.stderr


def test_a_python_path_is_one_path_or_several(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"python_path": 7, "mediapipe_config_list": [{"name": "own", "python_path": [""]}]}'
    )
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "python_path: a list is needed, not 7" in done.stderr
    assert "mediapipe_config_list[0].python_path[0]: a string that is not empty" in done.stderr


# What serving would stumble over, without loading anything ----------------------------------------

HANDLER = """\
input_stream: "input"
output_stream: "output"
node {
  name: "handler"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "IN:input"
  output_stream: "OUT:output"
  node_options {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { handler_path: "model.py" }
  }
}
"""
SESSION = """\
input_stream: "x"
output_stream: "y"
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options {
    [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions] { OPTIONS }
  }
}
node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:session"
  input_stream: "X:x"
  output_stream: "Y:y"
}
"""
NEEDY = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Needy"
  input_side_packet: "TOLD:told"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
POSES = """\
input_stream: "IMAGE:image"
output_stream: "DETECTIONS:detections"
node {
  calculator: "PoseDetectionCpu"
  input_stream: "IMAGE:image"
  output_stream: "DETECTIONS:detections"
}
"""
NEEDY_NODE = """\
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, In, Out, SideIn, calculator

@calculator
class Needy(Calculator):
    told = SideIn[list]("TOLD")
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
"""


@pytest.mark.parametrize(
    ("graph", "finding"),
    [
        (
            loop_with('models_path: "nowhere"'),
            'g/graph.pbtxt:4:1: error: node "LLMExecutor": models_path: "nowhere" does not exist;',
        ),
        (
            loop_with('models_path: "./"'),
            'error: node "LLMExecutor": models_path: "./" has no openvino_model.xml (the model); ',
        ),
        (HANDLER, 'g/graph.pbtxt:3:1: error: node "handler": handler_path "model.py": no such'),
        (HANDLER.replace('"model.py"', '""'), 'error: node "handler": it has no handler_path'),
        (
            SESSION.replace("OPTIONS", 'servable_name: "nn"'),
            'there is no model "nn": neither nn/1/model.xml nor nn.xml beside the graph',
        ),
        (
            SESSION.replace("OPTIONS", 'servable_name: "m" servable_version: "7"'),
            'the model "m" has no version 7; it has 1',
        ),
        (
            POSES,
            'g/graph.pbtxt:3:1: error: node "PoseDetectionCpu": in it, node '
            '"posedetectioncpu__InferenceCalculator": there is no file "mediapipe/modules/'
            'pose_detection/pose_detection.tflite"; serve that file as a model with the name '
            '"pose_detection"',
        ),
        (NEEDY, 'error: the graph needs the input side packet "told", and nothing provides it'),
    ],
)
def test_what_stops_a_graph_from_being_served_is_found(
    tmp_path: Path, graph: str, finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "graph.pbtxt").write_text(graph)
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "nodes.py").write_text(NEEDY_NODE)
    (tmp_path / "config.json").write_text(
        '{"mediapipe_config_list": [{"name": "g", "python_path": "nodes.py"}],'
        ' "model_config_list": [{"config": {"name": "m"}}]}'
    )
    monkeypatch.delenv("GRAPHRT_MEDIAPIPE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    (line, *_) = done.stderr.splitlines()
    assert line.startswith("g/graph.pbtxt:")
    assert finding in line


def test_a_graph_of_a_real_model_is_well(tmp_path: Path) -> None:
    listed = {"mediapipe_config_list": [{"name": "demo", "base_path": str(DEMO)}]}
    (tmp_path / "config.json").write_text(json.dumps(listed))
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_when_it_is_in_memory_is_checked(site: Path) -> None:
    (site / "config.json").write_text(
        '{"mediapipe_config_list": [\n'
        '{"name": "echo", "load": "on-demand"},\n'
        '{"name": "stream", "idle_unload_seconds": -1, "pinned": "yes"}]}'
    )
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'config.json:2:18: error: mediapipe_config_list[0].load: "at_start" or "on_demand" is '
        'needed, not "on-demand"',
        'hint: did you mean "on_demand"?',
        "config.json:3:20: error: mediapipe_config_list[1].idle_unload_seconds: a number from 0 to "
        "31622400 is needed, not -1",
        "config.json:3:47: error: mediapipe_config_list[1].pinned: true or false is needed, not "
        '"yes"',
    ]


def test_what_is_pinned_is_never_idle(site: Path) -> None:
    (site / "config.json").write_text(
        '{"mediapipe_config_list": [{"name": "echo", "pinned": true, "idle_unload_seconds": 60}]}'
    )
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert (done.returncode, done.stdout) == (0, "config.json: ok (1 graph)\n")
    assert "warning: mediapipe_config_list[0].idle_unload_seconds: it has no effect" in done.stderr


def test_files_that_do_not_exist_and_subconfigs_are_errors(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "graph.pbtxt").write_text('input_stream: "x" output_stream: "x"')
    (tmp_path / "g" / "subconfig.json").write_text('{"model_config_list": [{"confg": {}}]}')
    (tmp_path / "config.json").write_text(
        '{"mediapipe_config_list": [{"name": "g"}, {"name": "gone"}],'
        ' "model_config_list": [{"config": {"name": "m", "base_path": "none"}}]}'
    )
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    for text in (
        "g/subconfig.json:1:25: error: model_config_list[0].confg: unknown key",
        'hint: did you mean "config"?',
        "gone/graph.pbtxt: error: no such file",
        'config.json: error: the model "m": there is no directory "none", its base_path',
    ):
        assert text in done.stderr


# What an author meets ----------------------------------------------------------------------------


def config_with(folder: Path, graphs: dict[str, str], **keys: object) -> None:
    for name, text in graphs.items():
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(text)
    entries = [{"name": name} for name in graphs]
    (folder / "config.json").write_text(json.dumps({"mediapipe_config_list": entries, **keys}))


def findings_in(folder: Path, *arguments: str) -> list[dict[str, object]]:
    done = graphrt("validate", "--format", "json", *arguments, cwd=folder)
    assert "Traceback" not in done.stderr
    return [finding for result in json.loads(done.stdout) for finding in result["findings"]]


NO_PRODUCER = """\
input_stream: "in"
output_stream: "outt"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""


def test_an_output_that_no_node_makes_hides_nothing_else(tmp_path: Path) -> None:
    config_with(tmp_path, {"a": NO_PRODUCER, "b": "", "c": 'node { calculator: "Nowhere" }'})
    found = findings_in(tmp_path, "config.json")
    assert [(each["file"], each["severity"], each.get("line")) for each in found] == [
        ("a/graph.pbtxt", "error", 2),
        ("b/graph.pbtxt", "error", None),
        ("c/graph.pbtxt", "error", 1),
    ]
    assert 'no node makes "outt"' in str(found[0]["message"])
    assert 'Did you mean "out"?' in str(found[0]["message"])
    assert "no nodes, so there is nothing to serve" in str(found[1]["message"])


def test_what_mediapipe_runs_is_only_warned_of_in_a_graph(tmp_path: Path) -> None:
    config_with(tmp_path, {"a": NO_PRODUCER, "b": ""})
    done = graphrt("validate", "a/graph.pbtxt", "b/graph.pbtxt", cwd=tmp_path)
    assert done.returncode == 0
    assert 'a/graph.pbtxt:2:16: warning: no node makes "outt"' in done.stderr
    assert "b/graph.pbtxt: warning: the graph has no nodes" in done.stderr


def test_a_check_that_fails_hides_no_other_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graph_runtime import REGISTRY, Registry
    from servers.cli.validate import check_config

    def fail(source: GraphSource) -> None:
        if "a" in source.path.split("/"):
            raise KeyError("no such thing")
        validate(source)

    validate = GraphSource.validate
    monkeypatch.setattr(GraphSource, "validate", fail)
    monkeypatch.chdir(tmp_path)
    config_with(tmp_path, {"a": NO_PRODUCER, "c": 'node { calculator: "Nowhere" }'})
    first, second = check_config("config.json", Registry(REGISTRY))[0]
    assert (first.file, second.file) == ("a/graph.pbtxt", "c/graph.pbtxt")
    assert first.message.startswith("the check of this graph failed: KeyError: 'no such thing' (")
    assert "please report it" in (first.hint or "")
    assert 'Unable to find Calculator "Nowhere"' in second.message


def test_options_that_are_not_known_do_not_hide_the_other_errors(tmp_path: Path) -> None:
    (tmp_path / "graph.pbtxt").write_text("""\
input_stream: "in"
node { calculator: "Foo" node_options { [type.googleapis.com/acme.Foo] { a { b: "}" } } } }
node { calculator: "PassThroughCalculator" input_stream: "inn" output_stream: "out" }
node { calculator: "GateCalculator" options { [acme.Gate.ext] {} } }
""")
    found = findings_in(tmp_path, "graph.pbtxt")
    assert [(each["line"], each["column"]) for each in found] == [(2, 42), (3, 58), (4, 48)]
    assert 'Input Stream "inn"' in str(found[1]["message"])


def test_an_llm_node_without_a_sync_set_is_refused(tmp_path: Path) -> None:
    graph = loop_with('models_path: "./"')
    start = graph.index("  input_stream_handler {")
    config_with(tmp_path, {"a": graph[:start] + "}\n"})
    (found,) = findings_in(tmp_path, "a/graph.pbtxt")
    assert (found["line"], found["node"]) == (4, "LLMExecutor")
    assert "it would never run" in str(found["message"])
    assert 'sync_set { tag_index: "LOOPBACK:0" }' in str(found["hint"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('models_path: "nowhere"', 'models_path: "nowhere" does not exist'),
        ('models_path: "DEMO" plugin_config: "{x"', "plugin_config: not JSON"),
        ('models_path: "DEMO" tool_parser: "hermes4"', 'tool_parser: "hermes4" is not known'),
        ('models_path: "DEMO" device: "GPUU"', '"GPUU" is not a device of OpenVINO'),
        ('models_path: "DEMO" device: "AUTO:CPU,XPU"', '"XPU" is not a device of OpenVINO'),
    ],
)
def test_options_of_nodes_are_checked_without_a_config_too(
    tmp_path: Path, options: str, told: str
) -> None:
    text = loop_with(options.replace("DEMO", str(DEMO)))
    (tmp_path / "graph.pbtxt").write_text(text)
    (found,) = findings_in(tmp_path, "graph.pbtxt")
    assert (found["line"], found["node"]) == (4, "LLMExecutor")
    assert told in str(found["message"])


def test_a_python_path_that_is_not_there_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "nodes.py").write_text("")
    (tmp_path / "config.json").write_text(
        '{"python_path": ["nodes.py",\n"nodse.py"],\n"mediapipe_config_list": []}'
    )
    (found,) = findings_in(tmp_path, "config.json")
    assert (found["line"], found["severity"]) == (2, "error")
    assert 'python_path[1]: there is no file or directory "nodse.py"' in str(found["message"])


def test_messages_say_what_would_be_right(tmp_path: Path) -> None:
    (tmp_path / "nodes.py").write_text("""\
from graph_runtime import Calculator, calculator

@calculator
def Words(text: str) -> list[str]:
    return text.split()

@calculator
def Plus(n: int) -> int:
    return n + 1

@calculator
class Broken(Calculator):
    @classmethod
    def contract(cls, contract):
        contract.inputs[0].set(strr)
""")
    (tmp_path / "graph.pbtxt").write_text("""\
input_stream: "in"
node { calculator: "Words" input_stream: "in" output_stream: "words" }
node { calculator: "Plus" input_stream: "words" output_stream: "out" }
""")
    (tmp_path / "broken.pbtxt").write_text("""\
input_stream: "in"
node { calculator: "GateCalculator" input_stream: "in" input_stream: "allow:in" }
node { calculator: "HttpLLMCalculator" input_stream: "HTTP_REQUEST_PAYLOADS:in" }
node { calculator: "Broken" input_stream: "in" }
""")
    arguments = ["--calculators", "nodes.py"]
    (clash,) = findings_in(tmp_path, *arguments, "graph.pbtxt")
    assert 'it is made by node "Words"' in str(clash["message"])
    assert clash["hint"] == (
        'connect what carries "int", or put a node between that makes it from "vector<string>"'
    )
    tag, port, broken = findings_in(tmp_path, *arguments, "broken.pbtxt")
    assert 'write "ALLOW:in"' in str(tag["message"])
    assert "calculator:" not in str(tag["message"])
    told = str(port["message"])
    assert 'write input_side_packet: "LLM_NODE_RESOURCES:llm_node_resources"' in told
    assert 'Did you mean "HTTP_REQUEST_PAYLOAD"?' in told
    assert "NameError: name 'strr' is not defined" in str(broken["message"])
    assert str(broken["hint"]).startswith("raised at ")
    assert str(broken["hint"]).endswith("nodes.py:15, in contract")


ROUTED = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "REQUEST:request"
}
node {
  name: "router" calculator: "RouterCalculator" input_stream: "REQUEST:request"
  output_stream: "REQUEST:0:short" output_stream: "REQUEST:1:long"
  node_options { [type.googleapis.com/graphrt.RouterOptions] {
    route { name: "small" word: "hi" } route { name: "large" }
  } }
}
node {
  name: "small" calculator: "LLMCalculator" input_stream: "REQUEST:short"
  input_stream: "LOOPBACK:a_loop" output_stream: "LOOPBACK:a_loop" output_stream: "DELTAS:a"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options {
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "DEMO" }
  }
}
node {
  name: "large" calculator: "LLMCalculator" input_stream: "REQUEST:long"
  input_stream: "LOOPBACK:b_loop" output_stream: "LOOPBACK:b_loop" output_stream: "DELTAS:b"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options {
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "DEMO" }
  }
}
JOIN
node {
  name: "writer" calculator: "GenerationResponseWriterCalculator"
  WRITES output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
""".replace("DEMO", str(DEMO))
MERGE = 'node { name: "join" calculator: "MergeCalculator" input_stream: "a" input_stream: "b" '


@pytest.mark.parametrize("file", ["config.json", "a/graph.pbtxt"])
def test_branches_that_join_by_time_are_refused_if_one_of_them_is_chosen(
    tmp_path: Path, file: str
) -> None:
    text = ROUTED.replace("JOIN", MERGE + 'output_stream: "both" }')
    config_with(tmp_path, {"a": text.replace("WRITES", 'input_stream: "DELTAS:both"')})
    errors = [each for each in findings_in(tmp_path, file) if each["severity"] == "error"]
    assert [each["node"] for each in errors if "node" in each] == []
    (error,) = errors
    assert str(error["message"]).startswith("no request would be answered: ")
    assert 'node "router" sends each packet to one of these branches' in str(error["message"])
    assert "join them by a FirstAnswerCalculator" in str(error["message"])


def test_the_writer_joins_branches_by_itself_and_a_stream_that_nobody_reads_is_named(
    tmp_path: Path,
) -> None:
    both = 'input_stream: "DELTAS:0:a" input_stream: "DELTAS:1:b"'
    one = 'input_stream: "DELTAS:a"'
    graphs = {
        "good": ROUTED.replace("JOIN", "").replace("WRITES", both),
        "half": ROUTED.replace("JOIN", "").replace("WRITES", one),
    }
    config_with(tmp_path, graphs)
    (error,) = findings_in(tmp_path, "config.json")
    assert (error["file"], error["severity"], error["node"]) == (
        "half/graph.pbtxt", "error", "large",
    )  # fmt: skip
    assert error["message"] == 'sends "b", and nobody reads it'


def test_an_answer_to_which_no_node_leads_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "graph.pbtxt").write_text("""\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
input_stream: "other"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node { calculator: "PassThroughCalculator" input_stream: "input" output_stream: "lost" }
node { calculator: "PassThroughCalculator" input_stream: "other" output_stream: "output" }
""")
    (error,) = findings_in(tmp_path, "graph.pbtxt")
    assert error["severity"] == "error"
    assert str(error["message"]).startswith('no node leads from "input", the request, to "output"')

"""The Helm chart: what it makes of its values, and which values it refuses."""

from __future__ import annotations

from typing import Any, Final

import pytest

pytest.importorskip("helm_python", reason="the extra `helm` has it")
pytest.importorskip("kubernetes_validate", reason="the extra `dev` has it")

import helm_python as helm

from deploy.manifests import CHART, MANIFESTS, manifests, rendered
from tests.release.kubernetes.custom_resources import check, objects_of

KEYS: Final = {"keys": {"secret": "graphrt-keys"}}
ONE: Final = {"autoscaling": {"enabled": False}, "replicas": 1}
CONFIG: Final = {"mediapipe_config_list": [{"name": "chat", "base_path": "/models/org/name"}]}
#: Name -> values, and templates that must be there because of them.
VARIATIONS: Final[dict[str, tuple[dict[str, Any], set[str]]]] = {
    "defaults": ({}, {"autoscaler", "disruption_budget", "network_policy", "service_account"}),
    "fixed number": ({"autoscaling": {"enabled": False}, "replicas": 3}, {"deployment"}),
    "config": ({"config": CONFIG, "files": {"chat.pbtxt": "# a graph\n"}}, {"config_map"}),
    "keys and TLS": (KEYS | {"tls": {"secret": "graphrt-tls"}}, {"deployment"}),
    "claim": ({"models": {"claim": {"create": True, "storageClassName": "nfs"}}}, {"models_claim"}),
    "volume of an image": (
        {"models": {"volume": {"image": {"reference": "models:1", "pullPolicy": "Always"}}}},
        {"deployment"},
    ),
    "download": (
        {"models": {"pull": ["org/a", "org/b:x.gguf"], "hubSecret": "hub"}},
        {"deployment"},
    ),
    "cache": ({"cache": {"volume": {"hostPath": {"path": "/var/cache"}}}}, {"deployment"}),
    "batches": (
        ONE | {"batches": {"enabled": True, "claim": {"create": True, "storageClassName": "ssd"}}},
        {"batches_claim"},
    ),
    "batches on a volume": (
        ONE | {"batches": {"enabled": True, "volume": {"hostPath": {"path": "/srv/batches"}}}},
        {"deployment"},
    ),
    "no gRPC": ({"ports": {"grpc": 0}}, {"service"}),
    "monitoring": (
        {"podMonitor": {"enabled": True}, "autoscaling": {"requestsPerReplica": 16}},
        {"pod_monitor", "autoscaler"},
    ),
    "inference pool": (
        {"inferencePool": {"enabled": True, "gateway": "inference-gateway"}},
        {"inference_pool", "http_route"},
    ),
    "network": (
        {
            "networkPolicy": {
                "from": [{"namespaceSelector": {"matchLabels": {"team": "web"}}}],
                "egress": [{"ports": [{"port": 4318}]}],
            }
        },
        {"network_policy"},
    ),
    "places": (
        {
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "podAnnotations": {"a": "b"},
            "podLabels": {"team": "chat"},
            "image": {"tag": "1.2.3", "pullSecrets": ["registry"]},
            "environment": [{"name": "OTEL_SERVICE_NAME", "value": "chat"}],
            "arguments": ["--request_timeout=60"],
            "preStopSeconds": 0,
        },
        {"deployment"},
    ),
}


def deployment_of(values: dict[str, Any]) -> dict[str, Any]:
    (found,) = objects_of(rendered(values)["deployment"])
    return found


def container_of(values: dict[str, Any]) -> dict[str, Any]:
    (container,) = deployment_of(values)["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_the_chart_has_no_faults() -> None:
    messages = helm.lint(str(CHART), strict=True)["messages"]
    assert [each["error"] for each in messages] == ["icon is recommended"]


@pytest.mark.parametrize("variation", VARIATIONS)
def test_what_it_renders_fits_kubernetes(variation: str) -> None:
    values, expected = VARIATIONS[variation]
    texts = rendered(values)
    assert expected | {"deployment", "service"} <= texts.keys()
    for text in texts.values():
        for value in objects_of(text):
            check(value)


def test_the_plain_manifests_are_those_of_the_chart() -> None:
    found = {path: (MANIFESTS / path).read_text("utf-8") for path in manifests()}
    assert found == manifests(), "run `python -m deploy.manifests`"


def test_objects_have_the_name_of_the_release() -> None:
    texts = rendered(VARIATIONS["inference pool"][0], name="chat")
    names = {each["metadata"]["name"] for text in texts.values() for each in objects_of(text)}
    assert names == {"chat-graphrt"}


def test_the_grace_period_follows_the_drain() -> None:
    pod = deployment_of({"drainSeconds": 600, "preStopSeconds": 10})["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 630
    assert "--drain_seconds=600" in pod["containers"][0]["args"]


def test_a_config_takes_the_place_of_words() -> None:
    assert container_of({})["args"][0] == "demo"
    assert container_of({"config": CONFIG})["args"][0] == "/etc/graphrt/config.json"
    assert container_of({"serve": ["/models/chat"]})["args"][0] == "/models/chat"


def test_keys_leave_metrics_and_probes_open() -> None:
    args = container_of(KEYS)["args"]
    assert {"--api_key_file=/etc/graphrt-keys/keys.txt", "--open_routes=/metrics"} <= set(args)


def test_probes_speak_tls_when_the_server_does() -> None:
    container = container_of({"tls": {"secret": "graphrt-tls"}})
    schemes = {container[f"{name}Probe"]["httpGet"]["scheme"] for name in ("liveness", "readiness")}
    assert schemes == {"HTTPS"}


def test_downloads_need_the_way_out_and_write_where_the_server_only_reads() -> None:
    values = VARIATIONS["download"][0]
    pod = deployment_of(values)["spec"]["template"]["spec"]
    commands = [each["command"] for each in pod["initContainers"]]
    assert [command[:3] for command in commands] == [
        ["graphrt", "pull", "org/a"],
        ["graphrt", "pull", "org/b:x.gguf"],
    ]
    (policy,) = objects_of(rendered(values)["network_policy"])
    assert {"ports": [{"protocol": "TCP", "port": 443}]} in policy["spec"]["egress"]
    (mount,) = [each for each in container_of(values)["volumeMounts"] if each["name"] == "models"]
    assert mount["readOnly"] is True


def test_batches_have_a_directory_that_one_pod_writes_to() -> None:
    for members, source in (
        ({}, {"emptyDir": {}}),
        (
            {"claim": {"create": True}},
            {"persistentVolumeClaim": {"claimName": "graphrt-batches"}},
        ),
        ({"volume": {"hostPath": {"path": "/srv"}}}, {"hostPath": {"path": "/srv"}}),
    ):
        values = ONE | {"batches": {"enabled": True, **members}}
        spec = deployment_of(values)["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
        (volume,) = [
            each for each in spec["template"]["spec"]["volumes"] if each["name"] == "batches"
        ]
        assert volume == {"name": "batches", **source}
        container = container_of(values)
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "batches"]
        assert f"--batch_dir={mount['mountPath']}" in container["args"]
        assert "readOnly" not in mount
    without = deployment_of({})["spec"]
    assert without["strategy"]["type"] == "RollingUpdate"
    assert "batches" not in {each["name"] for each in without["template"]["spec"]["volumes"]}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"replica": 3}, "replica"),
        ({"models": {"claims": {}}}, "claims"),
        ({"ports": {"http": 80}}, "want 1,024"),
        ({"drainSeconds": "30s"}, "drainSeconds"),
        ({"files": {"a/b": ""}}, "a/b"),
        ({"serve": []}, "serve"),
        (
            {"models": {"volume": {"nfs": {}}, "claim": {"create": True}}},
            "models.volume and models.claim.create: set one of them",
        ),
        (
            {"autoscaling": {"cpuPercent": 0}},
            "autoscaling: set cpuPercent or requestsPerReplica",
        ),
        (
            {"models": {"volume": {"image": {"reference": "m"}}, "pull": ["org/a"]}},
            "models.pull: models.volume is of a kind that cannot be written to",
        ),
        (
            {"batches": {"enabled": True}},
            "set autoscaling.enabled to false and replicas to 1",
        ),
        (
            ONE | {"batches": {"enabled": True, "volume": {"nfs": {}}, "claim": {"create": True}}},
            "batches.volume and batches.claim.create: set one of them",
        ),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(helm.HelmError) as refused:
        rendered(values)
    assert text in str(refused.value)

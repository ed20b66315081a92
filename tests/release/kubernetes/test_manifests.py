"""The manifests in `deploy/`: they fit the kinds of Kubernetes, each other, and the server."""

from __future__ import annotations

import copy
import importlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from servers.server.lifecycle import CLOSE_SECONDS
from tests.support.checkout import ROOT

pytest.importorskip("kubernetes_validate", reason="the extra `dev` has it")

import yaml

from tests.release.kubernetes.custom_resources import Misfit, check, objects_of

DEPLOY: Final = ROOT / "deploy"
MANIFESTS: Final = DEPLOY / "kubernetes"
#: Values for charts of others, and a file that only kubectl reads.
NOT_OBJECTS: Final = ("prometheus_adapter.yaml", "endpoint_picker.yaml", "kustomization.yaml")
FILES: Final = sorted(
    path
    for folder in ("kubernetes", "kserve", "ray")
    for path in (DEPLOY / folder).rglob("*.yaml")
    if path.name not in NOT_OBJECTS
)
OBJECTS: Final = [(path, each) for path in FILES for each in objects_of(path.read_text("utf-8"))]
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
LABELS: Final = {"app.kubernetes.io/name": "graphrt", "app.kubernetes.io/instance": "graphrt"}
each_object: Final = pytest.mark.parametrize(
    "value", [each for _, each in OBJECTS], ids=[f"{p.name}-{e['kind']}" for p, e in OBJECTS]
)


def the(kind: str, folder: Path = MANIFESTS) -> dict[str, Any]:
    """Return the only object of a kind in a folder."""
    (found,) = [each for path, each in OBJECTS if each["kind"] == kind and path.parent == folder]
    return found


def pod_of(deployment: Mapping[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def mappings_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a value, from the outermost one."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from mappings_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from mappings_in(each)


@each_object
def test_it_fits_its_kind(value: dict[str, Any]) -> None:
    check(value)


@each_object
def test_a_misspelt_name_is_found(value: dict[str, Any]) -> None:
    if "spec" not in value:
        pytest.skip("it has no spec")
    name = next(iter(value["spec"]))
    misspelt = copy.deepcopy(value)
    misspelt["spec"][f"{name}s"] = misspelt["spec"].pop(name)
    with pytest.raises(Misfit):
        check(misspelt)


@pytest.mark.parametrize("kind", ["Deployment", "ServingRuntime", "RayService"])
def test_a_misspelt_name_deep_in_a_pod_is_found(kind: str) -> None:
    value = copy.deepcopy(next(each for _, each in OBJECTS if each["kind"] == kind))
    contexts = [each for each in mappings_in(value["spec"]) if "allowPrivilegeEscalation" in each]
    contexts[-1]["allowPriviledgeEscalation"] = False
    with pytest.raises(Misfit, match="allowPriviledgeEscalation"):
        check(value)


def test_a_kind_without_a_schema_is_refused() -> None:
    with pytest.raises(Misfit, match="Gateway"):
        check({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {}})


def test_kubectl_applies_every_manifest_of_the_folder() -> None:
    (kustomization,) = objects_of((MANIFESTS / "kustomization.yaml").read_text("utf-8"))
    files = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files


def test_everything_selects_the_pods_of_the_deployment() -> None:
    template = the("Deployment")["spec"]["template"]
    selectors = [
        the("Service")["spec"]["selector"],
        the("Deployment")["spec"]["selector"]["matchLabels"],
        the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        the("InferencePool", MANIFESTS / "inference")["spec"]["selector"]["matchLabels"],
        the("PodMonitor", MANIFESTS / "monitoring")["spec"]["selector"]["matchLabels"],
    ]
    (picker,) = objects_of((MANIFESTS / "inference/endpoint_picker.yaml").read_text("utf-8"))
    selectors.append(picker["router"]["modelServers"]["matchLabels"])
    assert selectors == [LABELS] * 7
    assert LABELS.items() <= template["metadata"]["labels"].items()


def test_ports_are_those_of_the_container() -> None:
    (container,) = pod_of(the("Deployment"))["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": 8000, "grpc": 9000}
    assert {each["targetPort"] for each in the("Service")["spec"]["ports"]} == set(ports)
    (rule,) = the("NetworkPolicy")["spec"]["ingress"]
    assert {each["port"] for each in rule["ports"]} == set(ports)
    (target,) = the("InferencePool", MANIFESTS / "inference")["spec"]["targetPorts"]
    assert target["number"] == ports["http"]
    assert {f"--rest_port={ports['http']}", f"--port={ports['grpc']}"} <= set(container["args"])


@pytest.mark.parametrize(
    "folder", [MANIFESTS, MANIFESTS / "monitoring"], ids=lambda path: path.name
)
def test_the_autoscaler_scales_the_deployment(folder: Path) -> None:
    target = the("HorizontalPodAutoscaler", folder)["spec"]["scaleTargetRef"]
    deployment = the("Deployment")
    assert target == {
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "name": deployment["metadata"]["name"],
    }
    # Applying the deployment again would reset the count.
    assert "replicas" not in deployment["spec"]


@each_object
def test_containers_have_no_rights(value: dict[str, Any]) -> None:
    containers = [each for each in mappings_in(value) if "image" in each]
    for container in containers:
        rights = container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        # Ray writes its sessions and logs where it likes.
        assert rights.get("readOnlyRootFilesystem") or value["kind"] == "RayService"
        assert container["resources"]["limits"]["memory"]
    users = [each for each in mappings_in(value) if "runAsUser" in each]
    assert bool(users) == bool(containers)
    assert all(each["runAsNonRoot"] and each["runAsUser"] == 10001 for each in users)


def test_the_user_is_the_one_of_the_image() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert re.findall(r"^USER (.*)$", dockerfile, re.M) == ["10001:10001"]


@pytest.mark.parametrize("kind", ["Deployment", "ServingRuntime"])
def test_probes_ask_for_health(kind: str) -> None:
    value = next(each for _, each in OBJECTS if each["kind"] == kind)
    (container,) = [each for each in mappings_in(value) if "image" in each]
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    live, ready = "/v2/health/live", "/v2/health/ready"
    assert paths == {"startup": live, "liveness": live, "readiness": ready}


@each_object
def test_a_grace_period_is_longer_than_a_stop(value: dict[str, Any]) -> None:
    periods = [
        each["terminationGracePeriodSeconds"]
        for each in mappings_in(value)
        if "terminationGracePeriodSeconds" in each
    ]
    runtime = next(each for _, each in OBJECTS if each["kind"] == "ServingRuntime")
    waiting, draining = 5, 30
    for each in (value, runtime):
        for container in mappings_in(each):
            if "lifecycle" in container:
                command = container["lifecycle"]["preStop"]["exec"]["command"]
                assert command == ["sleep", str(waiting)]
                assert f"--drain_seconds={draining}" in container["args"]
    # The server ends itself within 2 seconds after these.
    assert all(period > waiting + draining + CLOSE_SECONDS + 2 for period in periods)


def test_the_ray_service_runs_the_application_on_the_head_and_its_service_finds_it() -> None:
    (ray, service) = [each for path, each in OBJECTS if path.parent.name == "ray"]
    (application,) = yaml.safe_load(ray["spec"]["serveConfigV2"])["applications"]
    module, _, name = application["import_path"].partition(":")
    make = getattr(importlib.import_module(module), name)
    # All keys but this one are known: they are checked first.
    with pytest.raises(ValueError, match="unknown key zone"):
        make({**application["args"], "zone": 1})
    arguments = application["args"]["arguments"]
    port = int(arguments[arguments.index("--rest_port") + 1])
    head = ray["spec"]["rayClusterConfig"]["headGroupSpec"]
    (container,) = head["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports["http"] == port
    assert service["spec"]["ports"][0]["targetPort"] == port
    resources = json.loads(json.loads(head["rayStartParams"]["resources"]))
    assert resources == application["args"]["resources"]
    labels = {**head["template"]["metadata"]["labels"], "ray.io/node-type": "head"}
    assert service["spec"]["selector"].items() <= labels.items()


def test_images_and_labels_have_the_version_of_the_project() -> None:
    texts = [path.read_text("utf-8") for path in FILES]
    texts.append((DEPLOY / "helm/graphrt/Chart.yaml").read_text("utf-8"))
    pattern = r"^\s*(?:- )?(?:image: graphrt:|app\.kubernetes\.io/version: |version: |appVersion: )"
    found = [re.findall(rf'{pattern}"?(\d+\.\d+\.\d+)"?$', text, re.M) for text in texts]
    versions = [version for each in found for version in each]
    assert len(versions) >= 15
    assert set(versions) == {VERSION}


def test_metrics_that_are_read_are_published() -> None:
    (adapter,) = objects_of((MANIFESTS / "monitoring/prometheus_adapter.yaml").read_text("utf-8"))
    made = {rule["name"]["as"] for rule in adapter["rules"]["custom"]}
    paths = [*FILES, *(path for path in MANIFESTS.rglob("*.yaml") if path.name in NOT_OBJECTS)]
    read = {
        name for path in paths for name in re.findall(r"\bgraphrt_\w+", path.read_text("utf-8"))
    }
    published = set(re.findall(r"`(graphrt_\w+)`", (ROOT / "docs/metrics.md").read_text("utf-8")))
    assert made == {"graphrt_llm_requests"}
    assert made <= read
    assert read - made <= published
    assert len(read) == 4

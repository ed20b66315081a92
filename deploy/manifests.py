"""The plain manifests below ``deploy/kubernetes``, written from the chart.

    python -m deploy.manifests

needs ``pip install "graphrt[helm]"``, which has Helm as a library. Every manifest is one template
of the chart with its default values and those of `VARIANTS`, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

DEPLOY: Final = Path(__file__).parent
CHART: Final = DEPLOY / "helm" / "graphrt"
MANIFESTS: Final = DEPLOY / "kubernetes"
#: The release's name. Every object is called so.
NAME: Final = "graphrt"

#: Folder below `MANIFESTS` -> the templates that it shows, and their values. Paths of templates
#: that render to nothing have no file.
VARIANTS: Final[Mapping[str, tuple[tuple[str, ...], dict[str, Any]]]] = {
    ".": (
        (
            "autoscaler",
            "deployment",
            "disruption_budget",
            "models_claim",
            "network_policy",
            "service",
            "service_account",
        ),
        {"models": {"claim": {"create": True}}},
    ),
    "monitoring": (
        ("autoscaler", "pod_monitor"),
        {
            "podMonitor": {"enabled": True},
            "autoscaling": {"cpuPercent": 0, "requestsPerReplica": 16},
        },
    ),
    "inference": (
        ("http_route", "inference_pool"),
        {"inferencePool": {"enabled": True, "gateway": "inference-gateway"}},
    ),
}

_HEAD: Final = "# Written from deploy/helm/graphrt by `python -m deploy.manifests`; do not edit.\n"
#: Labels and annotations that only Helm reads.
_OF_HELM: Final = ("app.kubernetes.io/managed-by: Helm", "helm.sh/chart: ")


def rendered(values: Mapping[str, Any], *, name: str = NAME) -> dict[str, str]:
    """Return the chart's manifests by the names of their templates, without those that are empty.

    Raises:
        helm_python.HelmError: the values do not fit the chart, or each other.
    """
    from helm_python import Chart

    with Chart.load(str(CHART)) as chart:
        found = chart.render(values=dict(values), name=name)
    texts = {Path(path).stem: text.strip() + "\n" for path, text in found.items()}
    return {stem: text for stem, text in texts.items() if stem != "NOTES" and text.strip()}


def manifests() -> dict[str, str]:
    """Return the texts of the plain manifests by their paths below `MANIFESTS`."""
    found = {}
    for folder, (templates, values) in VARIANTS.items():
        texts = rendered(values)
        for template in templates:
            found[str(Path(folder, f"{template}.yaml"))] = _HEAD + _without_helm(texts[template])
    return found


def _without_helm(text: str) -> str:
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if not line.strip().startswith(_OF_HELM)]
    return "".join(kept).replace(
        "  annotations:\n    # Models outlive the release.\n    helm.sh/resource-policy: keep\n", ""
    )


def main() -> None:
    """Write the manifests."""
    for path, text in manifests().items():
        (MANIFESTS / path).write_text(text, encoding="utf-8")
        print(MANIFESTS.relative_to(DEPLOY.parent) / path)


if __name__ == "__main__":
    main()

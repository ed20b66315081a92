"""`graphrt doctor`: facts for bug reports about the machine, the software and a config."""

from __future__ import annotations

import argparse
import json
from typing import Final

from servers.cli.graph_registry import make_registry
from servers.cli.messages import CommandFailed
from servers.cli.validate import check_of
from servers.config import ConfigError, read_config
from servers.contract.finding import Finding
from servers.operations.doctor import Section, make_report

_MOST_FINDINGS: Final = 20


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code, 1 if it found a problem."""
    sections = [] if args.config is None else [_config(args)]
    report = make_report(*sections)
    if args.json:
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        print(report.to_text())
    return 0 if report.is_well else 1


def _config(args: argparse.Namespace) -> Section:
    """Report the findings of `graphrt validate`, and the names in the config, without its paths."""
    path = args.config
    section = Section("config", {"file": path})
    try:
        findings, content = check_of(path)(path, make_registry(args))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error
    section.facts["content"] = content or None
    if path.endswith(".json"):
        _add_names(section, path)
    for finding in findings[:_MOST_FINDINGS]:
        _add_finding(section, finding)
    if len(findings) > _MOST_FINDINGS:
        left_out = len(findings) - _MOST_FINDINGS
        section.warn(f"{left_out} more findings", f"graphrt validate {path}")
    return section


def _add_names(section: Section, path: str) -> None:
    try:
        config = read_config(path)
    except ConfigError:
        return  # the findings have the reason
    section.facts["graphs"] = [entry.name for entry in config.graphs]
    section.facts["models"] = [entry.name for entry in config.models]


def _add_finding(section: Section, finding: Finding) -> None:
    place = ":".join(str(part) for part in (finding.file, finding.line, finding.column) if part)
    node = f'node "{finding.node}": ' if finding.node else ""
    message = f"{place}: {node}{finding.message}"
    if finding.severity == "error":
        section.error(message, finding.hint or "")
    else:
        section.warn(message, finding.hint or "")

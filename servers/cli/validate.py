"""`graphrt validate`: check files and report every finding."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from graph_runtime import Registry
from servers.cli.config_check import check_config
from servers.cli.graph_check import check_graph
from servers.cli.graph_registry import make_registry
from servers.contract.finding import Finding

Check = Callable[[str, Registry], tuple[list[Finding], str]]


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    registry = make_registry(args)
    results: list[dict[str, Any]] = []
    is_all_well = True
    for path in args.files:
        findings, content = check_of(path)(path, registry)
        findings.sort(key=_by_place(findings))
        is_valid = all(finding.severity != "error" for finding in findings)
        is_all_well = is_all_well and is_valid
        results.append(
            {
                "file": path,
                "valid": is_valid,
                **({"content": content} if content else {}),
                "findings": [finding.to_json() for finding in findings],
            }
        )
        if args.format == "text":
            _print(path, findings, content, is_valid=is_valid)
    if args.format == "json":
        print(json.dumps(results, indent=2, ensure_ascii=False))
    return 0 if is_all_well else 1


def check_of(path: str) -> Check:
    """Return the check for a file of this name: a config.json, else a graph."""
    return check_config if path.endswith(".json") else check_graph


def _by_place(findings: list[Finding]) -> Callable[[Finding], tuple[int, int]]:
    """Return a sort key: files in the order of the findings, and lines within each file."""
    files = list(dict.fromkeys(finding.file for finding in findings))
    return lambda finding: (files.index(finding.file), finding.line or sys.maxsize)


def _print(path: str, findings: list[Finding], content: str, *, is_valid: bool) -> None:
    """Print findings to standard error, and the summary of a valid file to standard output."""
    hints = set()
    for finding in findings:
        text = finding.to_text()
        if finding.hint in hints:  # print each hint once
            text = text.removesuffix(f"\nhint: {finding.hint}")
        hints.add(finding.hint)
        print(text, file=sys.stderr, flush=True)
    if is_valid:
        print(f"{path}: ok ({content})", flush=True)

"""A release: version, changelog, artefacts, commit and tag. ``make release VERSION=1.2.3`` runs it.

``python -m deploy.release 1.2.3 --check`` refuses what cannot be released: a version that is not
newer, uncommitted changes, a changelog without an entry. Without ``--check`` it makes the release.
Nothing is pushed or uploaded; a failure leaves the checkout as it was.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deploy.platform_wheels import PlatformWheelError, make_wheels

#: The tool that lists what an installation consists of.
SBOM_TOOL: Final = "cyclonedx-bom==7.5.0"
BRANCH: Final = "main"

_PROJECT: Final = Path("pyproject.toml")
#: Below it are the chart and manifests, which name the version.
_DEPLOY: Final = Path("deploy")
_CHANGELOG: Final = Path("CHANGELOG.md")
_LOCK: Final = Path("requirements.lock")
_DIST: Final = Path("dist")

_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_VERSION_LINE: Final = re.compile(r'^version = "(.*)"$', re.M)
#: In a chart, and the image and the label of a manifest.
_DEPLOYED_VERSION: Final = re.compile(
    r'^((?:version|appVersion|\s+app\.kubernetes\.io/version): "?|\s+(?:- )?image: graphrt:)'
    r"\d+\.\d+\.\d+",
    re.M,
)
_UNRELEASED: Final = "## [Unreleased]\n"
_HEADING: Final = re.compile(r"^## ", re.M)


class ReleaseRefused(Exception):
    """The release cannot be made; the text says why."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("version", help="as in 1.2.3")
    parser.add_argument("--check", action="store_true", help="check only")
    parser.add_argument(
        "--without_sbom", action="store_true", help="no list of components: it needs the network"
    )
    parser.add_argument(
        "--pure_only",
        action="store_true",
        help="no wheels with the compiled runtime: they need each Python, a compiler, the network",
    )
    args = parser.parse_args()
    try:
        check(args.version)
        if not args.check:
            release(args.version, with_sbom=not args.without_sbom, pure_only=args.pure_only)
    except ReleaseRefused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 1
    return 0


# Checks -------------------------------------------------------------------------------------------


def check(version: str) -> None:
    """Check that a version can be released from the checkout in the working directory.

    Raises:
        ReleaseRefused: it cannot.
    """
    number = _number(version)
    if number is None:
        raise ReleaseRefused(f'"{version}" is not a version: three numbers, as in 1.2.3')
    if changes := _git("status", "--porcelain"):
        raise ReleaseRefused(f"there are changes that are not committed:\n{changes}")
    if (branch := _git("branch", "--show-current")) != BRANCH:
        raise ReleaseRefused(f'the branch is "{branch}"; releases are made from {BRANCH}')
    tags = _git("tag", "--list", "v*").split()
    if _tag(version) in tags:
        raise ReleaseRefused(f"the tag {_tag(version)} exists")
    released = [found for tag in tags if (found := _number(tag.removeprefix("v"))) is not None]
    if released and number < max(released):
        latest = ".".join(map(str, max(released)))
        raise ReleaseRefused(f"{version} is before {latest}, which has been released")
    released_changelog(_CHANGELOG.read_text("utf-8"), version, "")
    versioned_project(_PROJECT.read_text("utf-8"), version)


def _number(version: str) -> tuple[int, ...] | None:
    match = _VERSION.fullmatch(version)
    return None if match is None else tuple(map(int, match.groups()))


def _tag(version: str) -> str:
    return f"v{version}"


# The release --------------------------------------------------------------------------------------


def release(version: str, *, with_sbom: bool = True, pure_only: bool = False) -> None:
    """Write the version, make the artefacts in ``dist/``, then commit and tag.

    Raises:
        ReleaseRefused: a step failed. The checkout is as it was, without a commit.
    """
    today = datetime.now(UTC).date().isoformat()
    with _restored_on_failure():
        text = released_changelog(_CHANGELOG.read_text("utf-8"), version, today)
        _CHANGELOG.write_text(text, "utf-8")
        _PROJECT.write_text(versioned_project(_PROJECT.read_text("utf-8"), version), "utf-8")
        for path in _DEPLOY.rglob("*.yaml"):
            path.write_text(versioned_deployment(path.read_text("utf-8"), version), "utf-8")
        artefacts = _built(pure_only=pure_only)
        if with_sbom:
            artefacts.append(_sbom(version))
        artefacts.append(_checksums(artefacts))
        _git("commit", "--quiet", "--all", "--message", f"Release {version}")
        _git("tag", "--annotate", _tag(version), "--message", f"graphrt {version}")
    print(f"released {version}; in {_DIST}/:")
    for artefact in artefacts:
        print(f"  {artefact.name}  {artefact.stat().st_size / 1e3:,.0f} kB")
    print(
        f"to publish it:\n  git push origin {BRANCH} {_tag(version)}\n"
        f"  twine upload {_DIST}/*.whl {_DIST}/*.tar.gz"
    )


@contextmanager
def _restored_on_failure() -> Iterator[None]:
    """Take back a commit and the changes of files if the block fails."""
    before = _git("rev-parse", "HEAD")
    try:
        yield
    except BaseException as error:
        _git("reset", "--quiet", "--soft", before)
        changed = [path for path in (_CHANGELOG, _PROJECT, _DEPLOY) if path.exists()]
        _git("checkout", "--quiet", before, "--", *map(str, changed))
        if isinstance(error, OSError):
            raise ReleaseRefused(str(error)) from error
        raise


def released_changelog(changelog: str, version: str, date: str) -> str:
    """Return the changelog with its unreleased entries under a version.

    Raises:
        ReleaseRefused: there are none.
    """
    before, heading, after = changelog.partition(_UNRELEASED)
    if not heading:
        raise ReleaseRefused(f'{_CHANGELOG} has no section "{_UNRELEASED.strip()}"')
    next_heading = _HEADING.search(after)
    entries = after[: next_heading.start()] if next_heading else after
    if not re.search(r"^- ", entries, re.M):
        raise ReleaseRefused(f'{_CHANGELOG} has no entry under "{_UNRELEASED.strip()}"')
    return f"{before}{_UNRELEASED}\n## [{version}] - {date}\n{after}"


def versioned_project(project: str, version: str) -> str:
    """Return pyproject.toml with a version.

    Raises:
        ReleaseRefused: it has no version, or several.
    """
    changed, count = _VERSION_LINE.subn(f'version = "{version}"', project)
    if count != 1:
        raise ReleaseRefused(f"{_PROJECT} has {count} lines with a version, not one")
    return changed


def versioned_deployment(text: str, version: str) -> str:
    """Return a chart or manifest with a version."""
    return _DEPLOYED_VERSION.sub(rf"\g<1>{version}", text)


# Artefacts ----------------------------------------------------------------------------------------


def _built(*, pure_only: bool) -> list[Path]:
    """Build the sdist and from it the wheels, as installers do, and return all of them."""
    for old in (*_DIST.glob("graphrt-*"), *_DIST.glob("SHA256SUMS")):
        old.unlink()
    _run(sys.executable, "-m", "hatchling", "build", "--target", "sdist")
    (sdist,) = _DIST.glob("graphrt-*.tar.gz")
    with tempfile.TemporaryDirectory() as directory:
        _run("tar", "--extract", "--file", str(sdist), "--directory", directory)
        (source,) = Path(directory).iterdir()
        target = str(_DIST.absolute())
        _run(
            *(sys.executable, "-m", "hatchling", "build", "--target", "wheel"),
            *("--directory", target),
            cwd=source,
        )
        if not pure_only:
            try:
                make_wheels(source, _DIST.absolute())
            except PlatformWheelError as error:
                raise ReleaseRefused(str(error)) from None
    return sorted(_DIST.glob("graphrt-*"))


def _sbom(version: str) -> Path:
    """Write a CycloneDX list of the packages that the lock file installs, and return its path."""
    target = _DIST / f"graphrt-{version}.cdx.json"
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = str(Path(directory, "bin", "python"))
        _run(python, "-m", "pip", "install", "--quiet", SBOM_TOOL)
        _run(
            *(python, "-m", "cyclonedx_py", "requirements", str(_LOCK)),
            *("--pyproject", str(_PROJECT), "--mc-type", "application"),
            *("--output-reproducible", "--output-format", "JSON", "--output-file", str(target)),
        )
    return target


def _checksums(artefacts: list[Path]) -> Path:
    """Write SHA-256 sums, in the form of ``sha256sum``, and return the path."""
    target = _DIST / "SHA256SUMS"
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}" for each in artefacts]
    target.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return target


def _git(*words: str) -> str:
    return _run("git", *words)


def _run(*words: str, cwd: Path | None = None) -> str:
    """Run a command and return its output.

    Raises:
        ReleaseRefused: it failed.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        command = " ".join(words)
        raise ReleaseRefused(f"`{command}` failed:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

"""Tiers of tests: the command that runs a test follows from what the test uses.

``quick`` are tests of pure logic. ``test`` are those that run engines, models or fronts in or
below the process of the tests. ``full`` are those that start programs: servers, examples, type
checkers. ``nightly`` are those that take minutes for few lines of ours: real models, libraries of
clients, and faults of the libraries that we build on. ``pytest --tier NAME`` runs the tests of a
tier and of those before it, ``--tier test`` without the files that take long and reach few lines of
their own, ``--tier quick`` without those that take long (`tests.file_times`).
``--tier rest`` runs what ``--tier test`` leaves out of ``--tier full``, ``--tier touched`` the
quick ones and those that the change of the checkout concerns (`tests.touched`); without it
everything runs.

The tier of a test is the highest of

- that of its directory (`DIRECTORIES`);
- that of what its module imports, with ``pytest.importorskip`` too, by itself or through other
  modules of ``tests`` (`IMPORTS`);
- that of its fixtures: a fixture that starts an engine requests ``in_process_engine``, and one that
  starts a program ``child_program``.

Modules of higher tiers are not even imported. So that the rules stay true, a test of the tier
``quick`` fails when it starts a process or loads a model library.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Generator, Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final

import pytest

from tests.file_times import time_of
from tests.support.checkout import ROOT
from tests.touched import change


class Tier(IntEnum):
    """The commands, from the fastest to the one that runs everything."""

    QUICK = 0
    TEST = 1
    FULL = 2
    NIGHTLY = 3

    @property
    def label(self) -> str:
        return self.name.lower()


#: Below ``tests/``.
DIRECTORIES: Final = {
    "examples": Tier.FULL,
    "process": Tier.FULL,
    "process/clients": Tier.NIGHTLY,
    "real_models": Tier.NIGHTLY,
    "reliability": Tier.FULL,
    "typing": Tier.FULL,
    "upstream": Tier.NIGHTLY,
}
#: Modules, each with everything below it.
IMPORTS: Final = {
    "aiohttp": Tier.TEST,
    "bench.cluster_model": Tier.FULL,
    "bench.mediapipe_agreement": Tier.TEST,
    "bench.random_model": Tier.TEST,
    "bench.replicas": Tier.TEST,
    "calculators.speech.audio.sound_reader": Tier.TEST,
    "calculators.kit.child_process": Tier.TEST,
    "calculators.llm.pdf_files": Tier.TEST,
    "calculators.kit.checkpoints": Tier.TEST,
    "calculators.llm.engine": Tier.TEST,
    "calculators.llm.grammar_process": Tier.TEST,
    "calculators.text.text_models.batch_runner": Tier.TEST,
    "calculators.text.text_models.messages": Tier.TEST,
    "calculators.text.text_models.text_model": Tier.TEST,
    "calculators.vision.inference.compiled_model": Tier.TEST,
    "grpc": Tier.TEST,
    "openvino": Tier.TEST,
    "openvino_genai": Tier.TEST,
    "openvino_tokenizers": Tier.TEST,
    "servers.operations.doctor": Tier.TEST,
    "servers.fronts.http": Tier.TEST,
    "servers.fronts.kserve_grpc": Tier.TEST,
    "servers.server": Tier.TEST,
    "servers.serving": Tier.TEST,
    "anthropic": Tier.FULL,
    "helm_python": Tier.FULL,
    "kserve": Tier.FULL,
    "openai": Tier.FULL,
    "schemathesis": Tier.FULL,
    "servers.page.scratch": Tier.FULL,
    "subprocess": Tier.FULL,
    "tests.calculators.tensors.python.running": Tier.TEST,
    "tests.process": Tier.FULL,
    "tritonclient": Tier.FULL,
}
#: Fixtures that others request to declare what they start.
FIXTURES: Final = {"in_process_engine": Tier.TEST, "child_program": Tier.FULL}

_TESTS: Final = ROOT / "tests"
_REST: Final = "rest"
_TOUCHED: Final = "touched"
_MODEL_LIBRARIES: Final = frozenset({"openvino", "openvino_genai", "openvino_tokenizers"})
_STARTS: Final = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})


@functools.cache
def tier_of_file(file: Path) -> Tier:
    """Return the tier of a test file, by its path and its imports."""
    folders = (_tier_of_directory(folder) for folder in file.parents)
    return max(Tier.QUICK, *folders, *map(_tier_of_import, imported_by(file)))


def known_tier_of_file(file: Path) -> Tier:
    """Return the tier that a file had when its time was measured, if that is known: at once."""
    known = time_of(file).tier
    return tier_of_file(file) if known is None else Tier[known.upper()]


def tier_of(item: pytest.Item) -> Tier:
    """Return the tier of a test, by its file and its fixtures."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return max(
        [tier_of_file(item.path), *(FIXTURES[name] for name in fixtures if name in FIXTURES)]
    )


def _tier_of_directory(folder: Path) -> Tier:
    if not folder.is_relative_to(_TESTS):
        return Tier.QUICK
    return DIRECTORIES.get(folder.relative_to(_TESTS).as_posix(), Tier.QUICK)


def _tier_of_import(name: str) -> Tier:
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return max(IMPORTS.get(prefix, Tier.QUICK) for prefix in prefixes)


@functools.cache
def imported_by(file: Path) -> frozenset[str]:
    """Return the modules that a file imports, by itself or through other files of ``tests``."""
    seen: set[str] = set()
    files, read = [file], {file}
    while files:
        for name in _imports(files.pop()):
            seen.add(name)
            below = _file_of(name)
            if below is not None and below not in read:
                read.add(below)
                files.append(below)
    return frozenset(seen)


@functools.cache
def _imports(file: Path) -> frozenset[str]:
    """Return the modules, and members of modules, that a file imports or asks pytest for."""
    found: set[str] = set()
    for statement in _executed(ast.parse(file.read_bytes()).body):
        if isinstance(statement, ast.Import):
            found.update(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            found.update(f"{statement.module}.{alias.name}" for alias in statement.names)
        elif isinstance(statement, ast.Assign | ast.Expr | ast.Return):
            match statement.value:
                case ast.Call(ast.Attribute(attr="importorskip"), [ast.Constant(str(name))]):
                    found.add(name)
                case _:
                    pass
    return frozenset(found)


def _executed(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements and all within them, without what is for type checkers only.

    Expressions hold no imports, and are most of a tree.
    """
    for statement in statements:
        yield statement
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from _executed(getattr(statement, block, ()))
        for block in ("handlers", "cases"):
            for branch in getattr(statement, block, ()):
                yield from _executed(branch.body)


@functools.cache
def _file_of(name: str) -> Path | None:
    """Return the file of a module of ``tests``, or of the module that has a member of this name."""
    parts = name.split(".")
    if parts[0] != "tests":
        return None
    for count in (len(parts), len(parts) - 1):
        path = ROOT.joinpath(*parts[:count])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
    return None


# The plug-in --------------------------------------------------------------------------------------


class Tiers:
    """Deselects unwanted tests, and guards the quick ones."""

    def __init__(self, config: pytest.Config) -> None:
        self._name: str = config.getoption("--tier")
        others = {_REST: Tier.FULL, _TOUCHED: Tier.QUICK}
        self._highest = others[self._name] if self._name in others else Tier[self._name.upper()]
        self._is_quick_only = False

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignore a path whose tests cannot be wanted, without importing it."""
        if _tier_of_directory(collection_path) > self._highest and self._name != _TOUCHED:
            # The conftest.py of such a directory is not imported either.
            return True
        # Reading the imports of all files takes a second, so it is done where it saves more.
        if self._highest >= Tier.FULL or not _is_test_file(collection_path):
            return None
        # Fixtures may raise the tier of a file's tests, but never lower it.
        return None if self._may_be_wanted(collection_path, tier_of_file(collection_path)) else True

    def _may_be_wanted(self, file: Path, tier: Tier) -> bool:
        if self._name == _TOUCHED and change().concerns(file, imported_by(file)):
            return True
        return max(tier, _first_command(file)) <= self._highest

    def _is_wanted(self, item: pytest.Item) -> bool:
        if self._name == _REST:
            return max(tier_of(item), _first_command(item.path)) is self._highest
        return self._may_be_wanted(item.path, tier_of(item))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self._name in (Tier.FULL.label, Tier.NIGHTLY.label):
            return
        wanted: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            (wanted if self._is_wanted(item) else others).append(item)
        items[:] = wanted
        # Files that are named on the command line are imported, whatever their tier.
        self._is_quick_only = self._name == Tier.QUICK.label and all(
            tier_of_file(item.path) is Tier.QUICK for item in others
        )
        if others:
            config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._guarded(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._guarded(item))

    def _guarded(self, item: pytest.Item) -> Generator[None, object, object]:
        # Threads set trace functions where coverage is measured, which CPython audits: while a hook
        # in Python is in between, the next thread is refused ("another trace function").
        if tier_of(item) is not Tier.QUICK or item.config.pluginmanager.hasplugin("_cov"):
            return (yield)
        with _guard:
            result = yield
        # A look-up of each: the set would go through all modules.
        if self._is_quick_only and any(name in sys.modules for name in _MODEL_LIBRARIES):
            _guard.seen.append("finds a model library loaded: a module of tests imports it")
        if _guard.seen:
            pytest.fail(
                f"a test of the tier `quick` {_guard.seen[0]}: what it uses belongs into "
                "`IMPORTS` or `FIXTURES` of tests/tiers.py",
                pytrace=False,
            )
        return result


def add_option(parser: pytest.Parser) -> None:
    names = (*(tier.label for tier in Tier), _REST, _TOUCHED)
    parser.addoption("--tier", choices=names, default=Tier.NIGHTLY.label, help="see tests/tiers.py")


def _first_command(file: Path) -> Tier:
    """Return the first command that may run a file, by its time; the tier may forbid it."""
    return Tier[time_of(file).command.upper()]


def _is_test_file(path: Path) -> bool:
    return path.suffix == ".py" and path.name.startswith("test_")


class _Guard:
    """Records what starts a process or loads a model library while the context is entered."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._is_entered = False
        self._is_installed = False

    def __enter__(self) -> None:
        if not self._is_installed:
            # Hooks stay until the process ends.
            sys.addaudithook(self._hear)
            self._is_installed = True
        self.seen = []
        self._is_entered = True

    def __exit__(self, *_: object) -> None:
        self._is_entered = False

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._is_entered:
            return
        if event == "subprocess.Popen" or event in _STARTS:
            self.seen.append(f"starts a process ({event})")
        elif event == "import" and str(arguments[0]).partition(".")[0] in _MODEL_LIBRARIES:
            self.seen.append(f"imports {arguments[0]}")


_guard = _Guard()


# Fixtures -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def in_process_engine() -> None:
    """Requested by fixtures that start an engine of a language model, or another child process."""


@pytest.fixture(scope="session")
def child_program() -> None:
    """Requested by fixtures that start a program: a server, a client, an example."""

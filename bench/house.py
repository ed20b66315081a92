"""Figures of the house: how many rooms, modules and names there are, and how far a request walks.

    python -m bench.house [--static] [--functions]

Prints the table of ``docs/map.md``. What stands in the files is counted from their syntax, in a
second; the path of a request, and what a start imports, from servers that run (left out with
``--static``). None of the figures depends on the machine. ``--functions`` lists the functions of a
request, in the order of their first calls, each with its count of calls.

A request's path: all files and functions of the product that run, in the server and in the
processes of its model, for each of four requests when five like them have been answered before.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.machine import DEMO, ROOT, JsonClient, ServerProcess, children, head, row

PACKAGES: Final = ("graphrt", "graphrt_base", "protos", "graph_runtime", "calculators", "servers")
#: Requests of which the functions count that run in each.
_ROUNDS: Final = 4
#: After an answer its server has records to close, which are a part of the request.
_AFTER_SECONDS: Final = 0.3
#: A module of fewer lines that one neighbour imports is said to be small.
SMALL: Final = 60

_CHAT: Final = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "stream": True}
_EMBEDDER: Final = ROOT / "examples" / "models" / "docs_embedder"


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the product, as its file has it."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def read_modules(root: Path = ROOT, packages: Sequence[str] = PACKAGES) -> dict[str, Module]:
    """Return the modules of packages, by default the product's, by their dotted names."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            found[name] = Module(name, path, text, ast.parse(text))
    return found


def imports_of(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Return the known modules that one imports, in functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in known else node.module)
    return found & known.keys() - {module.name}


def readers_of(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return, for each module, those that import it."""
    found: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        for name in imports_of(module, modules):
            found[name].add(module.name)
    return found


def small_with_one_reader(modules: Mapping[str, Module]) -> list[str]:
    """Return the small modules that only one module of their own folder imports."""
    found = []
    for name, readers in readers_of(modules).items():
        module = modules[name]
        if module.is_package or module.lines >= SMALL or len(readers) != 1:
            continue
        (reader,) = readers
        if modules[reader].path.parent == module.path.parent:
            found.append(name)
    return found


def rooms_of_calculators(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the entries of ``calculators/``, each with the entries that it imports."""
    found: dict[str, set[str]] = {}
    for module in modules.values():
        package, _, rest = module.name.partition(".")
        if package != "calculators" or not rest:
            continue
        room = rest.partition(".")[0]
        others = {
            name.split(".")[1]
            for name in imports_of(module, modules)
            if name.startswith("calculators.")
        }
        found.setdefault(room, set()).update(others - {room})
    return found


def floors(rooms: Mapping[str, set[str]]) -> int:
    """Return the length of the longest way down through rooms.

    Raises:
        CycleError: rooms import one another in a circle.
    """
    height: dict[str, int] = {}
    for room in TopologicalSorter(rooms).static_order():
        height[room] = 1 + max((height[below] for below in rooms[room]), default=0)
    return max(height.values())


def names_with_several_meanings(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Return the names of classes that more than one module defines."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in {node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}:
            found[name].append(module.name)
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


#: Files that serve every family of models: a place here that names one is work for the next one.
CENTRAL: Final = (
    "pyproject.toml",
    "hatch_build.py",
    "bench/house.py",
    "calculators/*.py",
    "calculators/kit/**/*.py",
    "graph_runtime/**/*.py",
    "graphrt_base/**/*.py",
    "protos/*.py",
    "servers/**/*.py",
    "tests/*.py",
    "tests/architecture/*.py",
    "tests/servers/cli/fork*.py",
    "website/*.py",
)


def families_beside_their_folders(root: Path = ROOT) -> dict[str, list[str]]:
    """Return, for each task of the project, the central places that name its family.

    A place is a file, or a section of ``pyproject.toml``. A name is the task's, or the path of the
    family's package, in code: comments, docstrings and documents are not counted, nor is the page,
    which shows a family without a panel of its own as a request.
    """
    points = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    families = {
        name: value.partition(":")[0].rpartition(".")[0]
        for name, value in points["entry-points"]["graphrt.tasks"].items()
    }
    found: dict[str, list[str]] = {name: [] for name in families}
    known = {*families, *(package.rpartition(".")[2] for package in families.values())}
    for pattern in CENTRAL:
        for path in sorted(root.glob(pattern)):
            place = str(path.relative_to(root))
            text = path.read_text(encoding="utf-8")
            if not any(word in text for word in known):
                continue
            for part, said in _parts(path, text):
                for name, package in families.items():
                    own = package.replace(".", "/")
                    words = (name, package.rpartition(".")[2])
                    if any(
                        word in words
                        or f"{word}.".startswith(f"{package}.")
                        or f"{word}/".startswith(f"{own}/")
                        for word in said
                    ):
                        found[name].append(f"{place}{part}")
    return found


def _parts(path: Path, text: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the parts of a file, each with what its code names: its strings and its imports."""
    if path.suffix == ".toml":
        for number, part in enumerate(re.split(r"^(?=\[)", text, flags=re.MULTILINE)):
            heading = part.partition("\n")[0] + f" ({number})"
            strings = re.findall(r'"([^"\n]*)"', re.sub(r"#.*", "", part))
            words = {word for each in strings for word in re.split(r" -> |:|\.\*+", each)}
            yield f" {heading}", words
        return
    tree = ast.parse(text)
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    said = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documented:
                said.add(node.value)
        elif isinstance(node, ast.Import):
            said.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            said.update(f"{node.module}.{alias.name}" for alias in node.names)
    yield "", said


def lines_of_imports(module: Module) -> set[int]:
    """Return the numbers of the lines that have nothing but imports."""
    imports = (n for n in ast.walk(module.tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return {line for node in imports for line in _lines_of(node)}


def count_lines(modules: Mapping[str, Module]) -> Counter[str]:
    """Count lines of code without imports and docstrings, lines of imports, comments, and all."""
    found: Counter[str] = Counter()
    for module in modules.values():
        imported = lines_of_imports(module)
        documented, code = set[int](), set[int]()
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and ast.get_docstring(node, clean=False) is not None
            ):
                documented.update(_lines_of(node.body[0]))
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type == tokenize.COMMENT:
                found["comments"] += 1
            elif token.string.strip() and token.type != tokenize.ENDMARKER:
                code.update(range(token.start[0], token.end[0] + 1))
        found["code"] += len(code - documented - imported)
        found["imports"] += len(imported)
        found["lines"] += module.lines
    return found


def benchmarks(root: Path = ROOT) -> list[Path]:
    """Return the files of code in ``bench/``."""
    results = (".md", ".pbtxt", ".pyc")
    files = (path for path in (root / "bench").rglob("*") if path.is_file())
    return sorted(path for path in files if path.suffix not in results)


def untyped_objects(modules: Mapping[str, Module]) -> int:
    """Count ``dict[str, Any]`` in the signatures of public functions."""
    found = 0
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                head = ast.unparse(node.args) + (ast.unparse(node.returns) if node.returns else "")
                found += head.count("dict[str, Any]")
    return found


def _lines_of(node: ast.stmt) -> Iterator[int]:
    yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


class Function(NamedTuple):
    """A function by the path of its file and its qualified name."""

    file: str
    name: str


#: Put first on the path of a server: every process of it counts the code that it runs.
_COUNTING: Final = '''
import json, os, signal, sys, threading
seen = {}
def count(frame, event, _):
    if event == "call":
        code = frame.f_code
        seen[code] = seen.get(code, 0) + 1
def toggle(*_):
    """Forget what ran, or write it."""
    place = os.environ["GRAPHRT_COUNTED"]
    if os.path.exists(os.path.join(place, "begin")):
        seen.clear()
        name = "begun"
    else:
        name = "ran"
    found = [(c.co_filename, c.co_qualname, calls) for c, calls in list(seen.items())]
    path = os.path.join(place, f"{name}.{os.getpid()}")
    with open(path + ".new", "w") as file:
        json.dump(found, file)
    os.replace(path + ".new", path)
signal.signal(signal.SIGUSR2, toggle)
threading.setprofile(count)
sys.setprofile(count)
'''


def path_of_a_request(model: Path, path: str, body: Mapping[str, Any]) -> dict[Function, int]:
    """Return the functions of the product that a warm request runs, each with its calls.

    They come by process, the server first, in the order of their first calls. The calls are those
    of the last request: a function that several processes run has the sum of theirs.
    """
    with tempfile.TemporaryDirectory() as place:
        Path(place, "sitecustomize.py").write_text(_COUNTING, encoding="utf-8")
        paths = (place, os.environ.get("PYTHONPATH", str(ROOT)))
        environment = {"PYTHONPATH": os.pathsep.join(paths), "GRAPHRT_COUNTED": place}
        with (
            ServerProcess(model, environment=environment) as server,
            JsonClient(server.address) as client,
        ):
            sent = json.dumps({"model": server.model, **body}).encode()
            for _ in range(5):
                client.send(path, sent)
            pids = _descendants(server.pids["server"])
            rounds: list[Counter[Function]] = []
            for _ in range(_ROUNDS):
                Path(place, "begin").touch()
                _signal(pids, Path(place), "begun")
                Path(place, "begin").unlink()
                client.send(path, sent)
                time.sleep(_AFTER_SECONDS)
                rounds.append(_signal(pids, Path(place), "ran"))
                for each in Path(place).glob("*.*"):
                    if each.suffix[1:].isdecimal():
                        each.unlink()
    # Timers of the server fall into some requests, and not into all.
    return {
        function: calls
        for function, calls in rounds[-1].items()
        if all(function in ran for ran in rounds)
        and function.file.startswith(tuple(f"{ROOT / package}/" for package in PACKAGES))
        and not function.name.startswith("<")
        # CPython 3.12 and later run comprehensions as a part of their function.
        and not function.name.endswith(("<listcomp>", "<setcomp>", "<dictcomp>"))
    }


def _descendants(pid: int) -> list[int]:
    return [pid, *(found for child in children(pid) for found in _descendants(child))]


def _signal(pids: list[int], place: Path, name: str) -> Counter[Function]:
    """Ask processes for what they ran, and wait until each has written it."""
    found = Counter[Function]()
    for pid in pids:
        os.kill(pid, signal.SIGUSR2)
    for pid in pids:
        path = place / f"{name}.{pid}"
        deadline = time.monotonic() + 30
        while not path.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"process {pid} does not answer")
            time.sleep(0.01)
        for file, function, calls in json.loads(path.read_text()):
            found[Function(file, function)] += calls
    return found


def modules_of_a_start() -> int:
    """Return how many modules of the product `graphrt serve demo` imports in its process."""
    code = (
        "import atexit, sys; from servers.cli import main\n"
        "atexit.register(lambda: print('IMPORTED', *sys.modules, file=sys.stderr))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "serve", str(DEMO), "--rest_port", "auto"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        while "graphrt serves http" not in said:
            line = process.stderr.readline()
            if not line:
                raise RuntimeError(said)
            said += line
        process.send_signal(signal.SIGTERM)
        said += process.stderr.read()
    names = re.findall(r"^IMPORTED (.*)$", said, re.MULTILINE)[0].split()
    return sum(name.partition(".")[0] in PACKAGES for name in names)


def processes_of_models(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the modules of ``calculators`` that run as processes, each with what it imports.

    Imports in functions are the work, which begins when a process has started.
    """
    found = {}
    for name, module in modules.items():
        if name.startswith("calculators.") and name.endswith("process") and _is_main(module):
            named = {
                node.value.partition(":")[0]
                for node in ast.walk(module.tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            found[name] = imports_of(module, modules) | named & modules.keys()
    return found


def _is_main(module: Module) -> bool:
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in module.tree.body
    )


def processes_with_the_runtime(modules: Mapping[str, Module]) -> list[str]:
    """Return the modules of which a process of a model imports ``graph_runtime``."""
    imported = {
        name: ", ".join((name, *sorted(others)))
        for name, others in processes_of_models(modules).items()
    }
    # Together they take a second, one by one six.
    if not _imports_the_runtime(", ".join(imported.values())):
        return []
    return [name for name, names in imported.items() if _imports_the_runtime(names)]


def _imports_the_runtime(names: str) -> bool:
    code = f"import sys, {names}; print('graph_runtime' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip() == "True"


def static_rows(modules: Mapping[str, Module]) -> list[tuple[str, str]]:
    """Return the figures that stand in the files."""
    rooms = rooms_of_calculators(modules)
    try:
        height = str(floors(rooms))
    except CycleError as error:
        height = f"a circle ({' -> '.join(error.args[1])})"
    counted = count_lines(modules)
    share = 100 * counted["comments"] / counted["lines"]
    arrows = sum(map(len, rooms.values()))
    beside = families_beside_their_folders()
    language = len(beside.pop("text_generation"))
    return [
        ("entries of `calculators/`, floors, arrows", f"{len(rooms)}, {height}, {arrows}"),
        ("modules of the product", f"{len(modules):,}"),
        (
            f"modules under {SMALL} lines that one neighbour imports",
            str(len(small_with_one_reader(modules))),
        ),
        (
            "lines of code without imports, docstrings, comments; of imports",
            f"{counted['code']:,}; {counted['imports']:,}",
        ),
        (
            "names of classes with several meanings",
            str(len(names_with_several_meanings(modules))),
        ),
        ("lines with a comment", f"{share:.1f} %"),
        (
            "places that name a family of models beside its folder",
            f"{max(map(len, beside.values()))} (language models: {language})",
        ),
        ("`dict[str, Any]` in public signatures", str(untyped_objects(modules))),
        ("files of code in `bench/`", str(len(benchmarks()))),
    ]


def running_rows(modules: Mapping[str, Module], is_listed: bool) -> list[tuple[str, str]]:
    """Return the figures of servers that run; list the functions of their requests if wanted."""
    paths = {
        "a streamed chat": path_of_a_request(DEMO, "/v3/chat/completions", _CHAT),
        "an embeddings request": path_of_a_request(_EMBEDDER, "/v3/embeddings", {"input": "Hello"}),
    }
    for name, functions in paths.items() if is_listed else ():
        print(f"functions of {name}, with their calls:")
        for function, calls in functions.items():
            print(f"{calls:6} {Path(function.file).relative_to(ROOT)} {function.name}")
    counted = [f"{len({at.file for at in ran})} and {len(ran)}" for ran in paths.values()]
    processes = len(processes_of_models(modules))
    return [
        ("files and functions of a warm streamed chat; of embeddings", "; ".join(counted)),
        ("modules that `graphrt serve demo` imports", str(modules_of_a_start())),
        (
            f"of {processes} kinds of processes, those with `graph_runtime`",
            str(len(processes_with_the_runtime(modules))),
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--static", action="store_true", help="only what stands in the files")
    parser.add_argument("--functions", action="store_true", help="list what two requests run")
    parser.add_argument("--names", action="store_true", help="list the names of classes too")
    arguments = parser.parse_args()
    modules = read_modules()
    rows = static_rows(modules)
    if not arguments.static:
        rows += running_rows(modules, arguments.functions)
    print(*head("figure", ""), sep="\n")
    for figure in rows:
        print(row(*figure))
    if arguments.names:
        for name, places in names_with_several_meanings(modules).items():
            print(f"{name}: {', '.join(places)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What C++ files may include and call."""

from __future__ import annotations

import posixpath
import re
from collections import Counter

from style.tree import Tree, line_of

# Which layers a layer may include, besides itself. Each has a directory of its name; csrc/transport
# itself holds the contracts that every transport is written against.
MAY_INCLUDE = {
    "base": set(),
    "collectives": {"base"},
    "proof": {"base", "collectives"},
    "transport": {"base"},
    "congestion": {"base"},
    "reliability": {"base", "transport", "congestion"},
    "datagram": {"base", "transport", "congestion", "reliability"},
    "udp": {"base", "transport"},
    "ud": {"base", "transport", "reliability", "datagram"},
    "switching": {"base", "transport"},
    "rc": {"base", "transport", "switching"},
    "shm": {"base", "transport", "switching"},
    "sim": {"base", "transport"},
    "verbs": {"base", "transport"},
    "messenger": {"base", "transport"},
    "tags": {"base", "transport", "messenger"},
    "operations": {"base", "transport", "messenger", "collectives"},
    "groups": {"base", "transport", "messenger", "collectives", "tags", "operations"},
    "engine": {"base", "transport", "operations", "groups"},
    "progress": {"base", "transport", "operations", "groups", "engine"},
    "runtime": {
        "base",
        "transport",
        "collectives",
        "engine",
        "progress",
        "reliability",
        "datagram",
        "udp",
        "ud",
        "switching",
        "rc",
        "shm",
    },
}
# What the bindings may include of the core, and the adapter's own rooms from the lowest to the modules.
OF_THE_CORE = {"base", "transport", "collectives", "operations", "engine", "progress", "runtime"}
MAY_INCLUDE["interpreter"] = {"base"}
BINDING = OF_THE_CORE | {"interpreter"}
MAY_INCLUDE["python"] = BINDING
TORCH_ROOMS = ("interface", "process", "tensors", "observing", "work", "backend", "torch")
for height, room in enumerate(TORCH_ROOMS):
    MAY_INCLUDE[room] = BINDING | set(TORCH_ROOMS[:height])
# Tests of what every implementation of a layer's contracts has to do, and of layers together.
SUITES = {"conformance": "transport", "longlife": "engine", "scale": "engine", "swarm": "engine"}
TORCH_HEADER = re.compile(r"^(torch|c10|ATen|caffe2)/")
CORE = tuple(
    f"csrc/{name}/"
    for name in ("base", "collectives", "transport", "messenger", "engine", "runtime")
)
# Who holds the progress lock tells the engine the time; UDP's port tells when datagrams came; the
# bindings measure what they wait for.
CLOCK_OWNERS = re.compile(
    r"^csrc/(base/(wall|monotonic)_clock|transport/datagram/udp/udp_(port|receiver)"
    r"|engine/progress/(progress|engine_lock)\w*|torch/\w+/(work|recorder|monitored_barrier|c10d_interface))\.(h|cc)$"
)
CLOCK = (
    r"\b(clock_gettime|steady_clock|system_clock|high_resolution_clock|gettimeofday)\b"
    r"|::now\(\)|\bMonotonicNow\(\)"
)
# Calls that end the process, write to the terminal, or sleep. Methods may share a name with them:
# only what stands as a statement, or is qualified, is the function of the C library.
STATEMENT = r"(\bstd::|(^|[;{})]|\belse\b)\s*(::)?)"
BANNED = (
    r"\bstd::(cout|cerr|clog)\b"
    r"|(?<![\w.>:])(std::)?(printf|fprintf|puts|putchar|perror|assert)\s*\("
    rf"|{STATEMENT}(abort|terminate)\s*\(\s*\)"
    rf"|{STATEMENT}(exit|_exit|quick_exit|_Exit|sleep)\s*\("
    r"|(?<![\w.>])(usleep|nanosleep|sleep_for|sleep_until)\s*\("
)
# What a header declares: functions (with a type before the name), and constants.
DECLARATION = re.compile(
    r"^(?![ \t]*(?:return|else|using|friend)\b)[ \t]*"
    r"(?:[\w:<>,&*\[\]() ]*[\w>\]&*]\s[&*]?(?P<function>\w+)\([^;{}]*(?:\{\}[^;{}]*)*[;{]"
    r"|(?:inline |static )*constexpr [\w:<>, ]+ (?P<constant>k\w+)\b)",
    re.MULTILINE,
)
INHERITED = re.compile(r"\b(override|PYBIND11\w*|operator)\b")
DEFINITION = re.compile(r"^[^\s#}][^;={}#]*?\b\w+::(\w+)\(", re.MULTILINE)

NAMED_FILE = re.compile(r"(?<![\w/.<-])(?:\w+/)*\w+\.(?:h|cc)\b")
SYSTEM_HEADERS = {"errno.h"}


def layer_of(name: str) -> str | None:
    """The layer of an include name (relative to csrc), or None when csrc has no such layer."""
    layer = posixpath.basename(posixpath.dirname(name))
    return layer if layer in MAY_INCLUDE else None


def layering(tree: Tree) -> list[str]:
    found = []
    for path in tree.under("csrc/", suffixes=(".h", ".cc")):
        layer = layer_of(path.removeprefix("csrc/"))
        if layer is None:
            found.append(f"{path}:1: is in no layer; add its directory to MAY_INCLUDE")
            continue
        for line, quoted, name in tree.includes(path):
            if not quoted:
                continue
            if f"csrc/{name}" not in tree.files:
                found.append(f'{path}:{line}: "{name}" names no file under csrc')
                continue
            target = layer_of(name)
            if target != layer and target not in MAY_INCLUDE[layer]:
                allowed = ", ".join(sorted(MAY_INCLUDE[layer])) or "nothing else"
                found.append(
                    f"{path}:{line}: {layer} includes {name} of {target}; it may include {allowed}"
                )
    return found


def torch_is_confined(tree: Tree) -> list[str]:
    found = []
    for path in tree.under("csrc/", "tests/cpp/", suffixes=(".h", ".cc")):
        for line, quoted, name in tree.includes(path):
            ours = quoted and f"csrc/{name}" in tree.files
            if name == "torch/extension.h":
                found.append(f"{path}:{line}: include what you need, not {name} (it costs 10 s)")
            elif TORCH_HEADER.match(name) and not ours and not path.startswith("csrc/torch/"):
                found.append(f"{path}:{line}: {name}: only csrc/torch includes torch")
            elif name.startswith("pybind11/") and not path.startswith(
                ("csrc/torch/", "csrc/python/", "csrc/interpreter/")
            ):
                found.append(f"{path}:{line}: {name}: only the bindings include pybind11")
    return found


def no_environment(tree: Tree) -> list[str]:
    hits = tree.find(
        r"\b(getenv|secure_getenv|setenv|putenv|unsetenv|environ)\b",
        tree.under("csrc/", suffixes=(".h", ".cc")),
    )
    return [
        f"{place}: {text}: options come from rocecoll/options.py as values" for place, text in hits
    ]


def clocks_have_owners(tree: Tree) -> list[str]:
    paths = (
        path for path in tree.under("csrc/", suffixes=(".h", ".cc")) if not CLOCK_OWNERS.match(path)
    )
    hits = tree.find(CLOCK, paths)
    return [f"{place}: take the time as an argument (Instant now)" for place in dict(hits)]


def banned_calls(tree: Tree) -> list[str]:
    hits = tree.find(BANNED, tree.under(*CORE, suffixes=(".h", ".cc")))
    return [f"{place}: {text}: return a Status, or use ROCECOLL_CHECK" for place, text in hits]


def throw_is_confined(tree: Tree) -> list[str]:
    paths = (
        path for path in tree.under(*CORE, suffixes=(".h", ".cc")) if path != "csrc/base/check.h"
    )
    hits = tree.find(r"\bthrow\b", paths)
    return [
        f"{place}: errors are Status values; invariants are ROCECOLL_CHECK" for place, _ in hits
    ]


def declarations_are_used(tree: Tree) -> list[str]:
    """A function or constant of a header whose name nothing but its definition says is dead."""
    words = Counter(word for text in tree.code.values() for word in re.findall(r"\w+", text))
    defined = Counter(name for text in tree.code.values() for name in DEFINITION.findall(text))
    declared: dict[str, list[str]] = {}
    for path in tree.under("csrc/", suffixes=(".h",)):
        code = tree.code[path]
        for match in DECLARATION.finditer(code):
            if not INHERITED.search(match.group()):
                place = f"{path}:{line_of(code, match.end())}"
                name = match["function"] or match["constant"]
                declared.setdefault(name, []).append(place)
    return [
        f"{places[0]}: nothing uses {name}; remove it"
        for name, places in declared.items()
        if words[name] - defined[name] <= len(places)
    ]


def headers_are_used(tree: Tree) -> list[str]:
    """A header that only its own implementation includes is dead."""
    users: dict[str, set[str]] = {}
    for path in tree.under("csrc/", "tests/cpp/", suffixes=(".h", ".cc")):
        for _, _, name in tree.includes(path):
            users.setdefault(name, set()).add(path)
    found = []
    for path in tree.under("csrc/", suffixes=(".h",)):
        own = path.removesuffix(".h") + ".cc"
        if not users.get(path.removeprefix("csrc/"), set()) - {own}:
            found.append(f"{path}:1: nothing but its own .cc includes it; use it or remove it")
    return found


def comments_name_files(tree: Tree) -> list[str]:
    """A file that a comment of csrc/ names is there, by its name or the end of its path."""
    found = []
    for path in tree.under("csrc/", suffixes=(".h", ".cc")):
        for number, line in enumerate(tree.files[path].splitlines(), 1):
            for match in NAMED_FILE.finditer(line.partition("//")[2]):
                name = match[0]
                there = any(file.endswith(f"/{name}") for file in tree.files)
                if not there and name not in SYSTEM_HEADERS:
                    found.append(f"{path}:{number}: there is no {name}")
    return found


def sources_have_headers(tree: Tree) -> list[str]:
    """x.cc implements x.h; x_part.cc implements a part of x.h or x_impl.h. Modules have none."""
    found = []
    for path in tree.under("csrc/", suffixes=(".cc",)):
        directory, stem = posixpath.dirname(path), posixpath.basename(path).removesuffix(".cc")
        if directory in ("csrc/python", "csrc/torch") and stem.endswith(("module", "library")):
            continue
        own = re.compile(rf"{directory.removeprefix('csrc/')}/{stem.split('_')[0]}[^/]*\.h")
        exact = f"{directory.removeprefix('csrc/')}/{stem}.h"
        names = {name for _, quoted, name in tree.includes(path) if quoted}
        if exact not in names and (
            f"csrc/{exact}" in tree.files or not any(map(own.fullmatch, names))
        ):
            found.append(f"{path}:1: includes no header of its name; add {stem}.h")
    return found


def tests_belong_to_a_layer(tree: Tree) -> list[str]:
    """tests/cpp/<layer>/<idea>_test.cc tests something of that layer; helpers are headers."""
    used = {
        name
        for path in tree.under("tests/cpp/", suffixes=(".h", ".cc"))
        for _, _, name in tree.includes(path)
    }
    found = []
    for path in tree.under("tests/cpp/", suffixes=(".h", ".cc")):
        directory = path.split("/")[2]
        layer = SUITES.get(directory, directory)
        if layer not in MAY_INCLUDE:
            found.append(f"{path}:1: {layer} is no layer; tests are in tests/cpp/<layer>")
        elif path.endswith(".h"):
            if path.removeprefix("tests/cpp/") not in used:
                found.append(f"{path}:1: no test includes it; remove it")
        elif not path.endswith("_test.cc"):
            found.append(f"{path}:1: name it <idea>_test.cc")
        elif not reaches_layer(tree, path, layer):
            found.append(f"{path}:1: includes no header of {layer}; move it to the layer it tests")
    return found


def reaches_layer(tree: Tree, path: str, layer: str) -> bool:
    """Or one of the rooms in its directory: directly, or through helpers under tests/cpp."""
    todo, seen = [path], set()
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        for _, quoted, name in tree.includes(current):
            if f"csrc/{name}" in tree.files and layer in posixpath.dirname(name).split("/"):
                return True
            if quoted and f"tests/cpp/{name}" in tree.files:
                todo.append(f"tests/cpp/{name}")
    return False

# SPDX-License-Identifier: Apache-2.0
"""Options that a job would refuse, and a torch that rocecoll was not built for."""

from __future__ import annotations

import importlib.metadata
import platform

import rocecoll
from rocecoll import options
from rocecoll.diagnosis.finding import Finding, Level
from rocecoll.diagnosis.machine.option_values import read_configuration
from rocecoll.runtime import check_torch

_BESIDE = ("numpy", "psutil", "typer", "rich")


def check_options() -> list[Finding]:
    found = read_configuration()
    findings = []
    for problem in found.problems:
        name = problem.partition("=")[0]
        findings.append(Finding("options", Level.PROBLEM, problem, f"unset {name}"))
    for name, nearest in found.unknown.items():
        text = f"there is no {name}{options.suggestion(nearest)}"
        cure = f'export {nearest}="${name}"; unset {name}' if nearest else f"unset {name}"
        findings.append(Finding("options", Level.WARNING, text, cure))
    if not findings:
        named = [option.variable for option in found.options if option.origin]
        text = f"set are {', '.join(named)}" if named else "all have their defaults"
        findings.append(Finding("options", Level.OK, text))
    return findings


def check_torch_version() -> list[Finding]:
    version = installed_version("torch")
    if not version:
        text = "torch is not installed: only rocecoll's core can be used"
        return [Finding("torch", Level.PROBLEM, text, "pip install torch")]
    try:
        check_torch(version)
    except ImportError as error:
        cure = "pip install --no-build-isolation --force-reinstall --no-deps rocecoll"
        return [Finding("torch", Level.PROBLEM, str(error), cure)]
    return [Finding("torch", Level.OK, f"{version}, which rocecoll {rocecoll.__version__} fits")]


def installed_version(package: str) -> str:
    """The package's version, without importing it; empty if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def versions() -> dict[str, str]:
    found = {name: installed_version(name) or "not installed" for name in ("torch", *_BESIDE)}
    return {"rocecoll": rocecoll.__version__, "python": platform.python_version(), **found}

# SPDX-License-Identifier: Apache-2.0
"""The values of the options in this process. No other module reads their variables.

An option's value comes from init_process_group(pg_options=rocecoll.Options(...)), else from its
variable ROCECOLL_<NAME>, else from one of NCCL's or gloo's with the same meaning, else it is the default.
"""

from __future__ import annotations

import difflib
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocecoll import environment
from rocecoll.host import processors

if TYPE_CHECKING:
    from rocecoll._core import Option

PREFIX = "ROCECOLL_"
Settings = dict[str, Any]
# A setting of the runtime beside the options: the user has asked for RoCE, by our own variables or
# options. Another library's variable does not count, as it was not meant for us.
ROCE_WANTED = "roce_wanted"
POLLING_UNDER_A_LIMIT_US = 50.0
_ASK_FOR_ROCE = frozenset({"transport", "ib_hca"})


@dataclass(frozen=True)
class Given:
    """The value that the environment gives an option, and the variable that it comes from."""

    value: Any
    origin: str


@dataclass(frozen=True)
class AliasNote:
    """A note on another library's variable: that it is used, or why it cannot be."""

    text: str
    used: bool


@functools.cache
def table() -> dict[str, Option]:
    """Every option by name. Loads the C++ library, which most programs need only later."""
    from rocecoll import _core

    return {option.name: option for option in _core.option_table()}


def variable(name: str) -> str:
    return PREFIX + name.upper()


def hint(name: str) -> str:
    """What an error adds about a name that rocecoll.Options does not take."""
    if name in table():
        return f"; set {variable(name)} for the whole process"
    return suggestion(_nearest(name, table()))


def _nearest(name: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.5)), "")


def suggestion(nearest: str) -> str:
    return f"; did you mean {nearest}?" if nearest else ""


def _read(name: str, text: str) -> Any:
    """The value of an option whose variable has this text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{variable(name)}={text!r}: accepted is text in UTF-8") from None
    return table()[name].read(text, variable(name))


def value_text(value: Any) -> str:
    """The text that the variable of an option would have; empty where the value chooses nothing."""
    from rocecoll._core import Option

    return "" if value in ("", (0, 0)) else Option.text(value)


def assignment(name: str, value: Any) -> str:
    """The line that sets the variable in a shell; None unsets it."""
    return (
        f"{variable(name)}={value_text(value)}" if value is not None else f"unset {variable(name)}"
    )


def given(problems: list[str] | None = None) -> dict[str, Given]:
    """What the environment gives, by the names of the options.

    A bad value of one of our variables raises ValueError, or is added to `problems` if that is given.
    A variable of another library was not meant for us: it counts only if it is of use.
    """
    found = {}
    for name, option in table().items():
        text = os.environ.get(variable(name))
        if text is None:
            if (borrowed := _borrow(option)[0]) is not None:
                found[name] = borrowed
            continue
        try:
            found[name] = Given(_read(name, text), variable(name))
        except ValueError as error:
            if problems is None:
                raise
            problems.append(str(error))
    return found


def alias_notes(chosen: Iterable[str] = ()) -> list[AliasNote]:
    """A note for each variable of another library that is considered; options in `chosen` need none."""
    notes = []
    for name, option in table().items():
        if variable(name) in os.environ or name in chosen:
            continue
        borrowed, refused = _borrow(option)
        notes += [AliasNote(text, used=False) for text in refused]
        if borrowed is not None:
            text = f"{borrowed.origin}={os.environ[borrowed.origin]}"
            notes.append(AliasNote(f"{variable(name)} is taken from {text}", used=True))
    return notes


def _borrow(option: Option) -> tuple[Given | None, list[str]]:
    """The value of the first alias that is of use, and what is wrong with those before it."""
    refused: list[str] = []
    for alias in option.aliases:
        text = os.environ.get(alias.variable, "")
        try:
            text.encode()
            words = alias.in_our_words(text.strip()) if text.strip() else ""
            if not words:
                continue
            value = option.read(words, alias.variable)
        except ValueError:
            why = f"{variable(option.name)} takes {option.accepted}"
        else:
            why = _NO_USE_HERE.get(option.name, _of_use)(value)
            if not why:
                return Given(value, alias.variable), refused
        refused.append(f"{alias.variable}={text} is not used: {why}")
    return None, refused


def _of_use(value: Any) -> str:
    return ""


def _names_no_interface(value: str) -> str:
    from rocecoll.host import interfaces

    return "" if interfaces.fits(value) else "no interface of this host that is up has such a name"


# By option: why a value that another library accepts means nothing on this host, or an empty text.
_NO_USE_HERE: dict[str, Callable[[Any], str]] = {"socket_ifname": _names_no_interface}


def unknown_variables() -> dict[str, str]:
    """Variables with our prefix that no option has, each with the nearest known name, if any is near."""
    known = [variable(name) for name in table()]
    return {
        name: _nearest(name, known)
        for name in os.environ
        if name.startswith(PREFIX) and name not in known
    }


def resolve(chosen: Mapping[str, Any] | None = None) -> Settings:
    """Every option's value; `chosen` are those of a rocecoll.Options.

    Raises ValueError for a bad value and warns about unknown variables.
    """
    for name, nearest in unknown_variables().items():
        warnings.warn(f"rocecoll does not know {name}{suggestion(nearest)}", stacklevel=2)
    found = given()
    settings = complete({name: said.value for name, said in found.items()} | dict(chosen or {}))
    own = {name for name, said in found.items() if said.origin == variable(name)}
    wanted = not _ASK_FOR_ROCE.isdisjoint(own.union(chosen or {}))
    return settings | ({ROCE_WANTED: True} if wanted else {})


def complete(named: Mapping[str, Any]) -> Settings:
    """Adds the defaults of the options that are not named. `shm` is no longer auto."""
    from rocecoll import _core

    return _core.with_defaults(dict(named))


def agreed(settings: Settings) -> dict[str, str]:
    """The options that all ranks of a group must have alike, as text of their variables."""
    return {n: option.text(settings[n]) for n, option in table().items() if option.must_agree}


def how_to_agree(names: Sequence[str]) -> str:
    """What to do if ranks have different values of these."""
    variables = " and ".join(map(variable, names))
    cure = f"Set {variables} alike on all ranks, or pass all the same rocecoll.Options"
    if "shm" in names:
        cure += (
            f"; {variable('shm')} is by itself 0 where {variable('transport')}=udp or "
            f"{variable('fault')} is set, else 1"
        )
    return cure


def carriers(settings: Settings) -> str:
    """In words: the transport, and shared memory if it is used within a host."""
    return str(settings["transport"]) + (", shared memory" if shares_memory(settings) else "")


def shares_memory(settings: Settings) -> bool:
    """Between ranks of one host."""
    return bool(settings["shm"])


def replaced_backends() -> frozenset[str]:
    """The backends of torch whose groups rocecoll takes over. Called often, and mostly returns none."""
    text = os.environ.get(variable("replace"))
    names = _read("replace", text) if text else ""
    return frozenset(filter(None, names.split(",")))


def runtime_settings(
    settings: Settings, host: str, local_ranks: int, all_ranks: int = 0
) -> Settings:
    """The settings that Runtime() takes, with `spin_us` as this machine's processors allow it.

    If the number of `local_ranks` is not known (0), all of `all_ranks` count as local: a rank without
    a core of its own must not spin.
    """
    chosen = {name: settings[name] for name, option in table().items() if option.of_runtime}
    if chosen["spin_us"] is None:
        chosen["spin_us"] = _polling_us(local_ranks or all_ranks)
    return chosen | {
        "host": host,
        ROCE_WANTED: settings.get(ROCE_WANTED, False),
        "local_ranks": local_ranks,
        "one_host": 0 < local_ranks == all_ranks,
        "local_rank": environment.local_rank() or 0,
        "accelerator": environment.accelerator(),
    }


def _polling_us(local_ranks: int) -> float | None:
    """None: for as long as it pays. Under a limit of processor time polling uses up the grant."""
    cores, granted = processors.usable_cores(), processors.granted()
    if local_ranks > cores:
        return 0.0
    return None if granted is None or granted >= cores else POLLING_UNDER_A_LIMIT_US

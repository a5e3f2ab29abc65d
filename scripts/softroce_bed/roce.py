# SPDX-License-Identifier: Apache-2.0
"""The tests that run in a bed: lists, each step on a freshly booted guest. step_runner runs them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from cpp_build import build_directory, build_tests, configure_tests

from softroce_bed.bed import EXIT_BROKEN, EXIT_LIMIT, BedError

ROOT = Path(__file__).resolve().parents[2]
PINGPONG = "python scripts/softroce_bed/pingpong.py"
# Limits are for hangs only, so they are far above the time that a step takes beside other work.
STEP_LIMIT_S = 900
PYTEST_LIMIT_S = 3600
REPORT_LIMIT_S = 300  # for pytest to report what has finished


@dataclass(frozen=True)
class Step:
    """A command of the shell, run from the repository's root. It passes by its exit status.

    With `cases`, the command leaves JUnit XML in $SOFTROCE_OUT and each of its cases counts.
    """

    name: str
    command: str
    guests: int = 1
    netem: str = ""
    status: int = 0
    limit_s: float = STEP_LIMIT_S
    cases: bool = False
    virtual: bool = False  # only where the bed has kernels of its own, as two guests always do


# The bed itself: what a command may rely on, and that errors are noticed.
BED_STEPS = (
    Step("exit status", "exit 3", status=3),
    Step("time limit", "sleep 600", limit_s=5, status=EXIT_LIMIT),
    Step(
        "kernel warning",
        "echo '<4>WARNING: planted by a test' >/dev/kmsg",
        status=EXIT_BROKEN,
        virtual=True,
    ),
    Step("scratch", "echo 1 >/tmp/scratch && echo 1 >/dev/shm/scratch && echo 1 >$SOFTROCE_OUT/x"),
    Step("host is read-only", "! touch /etc/softroce", virtual=True),
    Step("rc", f"{PINGPONG} rc"),
    Step("ud", f"{PINGPONG} ud"),
    Step("rc, IPv6", f"{PINGPONG} rc --ipv6", virtual=True),
    Step("ud, IPv6", f"{PINGPONG} ud --ipv6", virtual=True),
    Step("rc, 1 % lost", f"{PINGPONG} rc --faulty", netem="loss 1%"),
    Step("rc, two guests", f"{PINGPONG} rc", guests=2),
    Step("ud, two guests", f"{PINGPONG} ud", guests=2),
    Step(
        "a guest is killed",
        "if [ $SOFTROCE_GUEST = 1 ]; then touch $SOFTROCE_KILL.1; sleep 600; fi",
        guests=2,
    ),
)

CPP_BUILD = build_directory()


def preloaded(quirks: str) -> str:
    """Prefix of a command: tests/quirky_nic gives the devices these limits for it."""
    return (
        f"QUIRKY_NIC='{quirks}' LD_PRELOAD={CPP_BUILD}/quirky_nic/quirky_nic.so " if quirks else ""
    )


PYTEST = "python -m pytest -p no:cacheprovider -q -ra --durations=5"


def roce_step(name: str, *files: str, quirks: str = "") -> Step:
    """Files of tests/roce, all in one guest. Interrupted, pytest reports what has finished.

    PYTEST_LIMIT_S and, in pytest-timeout's words, PYTEST_TIMEOUT come from run_step.
    """
    paths = " ".join(f"tests/roce/test_{file}.py" for file in files)
    command = (
        f"{preloaded(quirks)}timeout -s INT $PYTEST_LIMIT_S {PYTEST} "
        f"--junitxml=$SOFTROCE_OUT/{files[0]}.xml {paths}"
    )
    return Step(name, command, cases=True, limit_s=PYTEST_LIMIT_S + REPORT_LIMIT_S)


def apart_step(name: str, arguments: str) -> Step:
    """Two ranks, each in a guest of its own."""
    command = f"PYTHONPATH=.:tests:tests/roce python tests/roce/two_guests.py {arguments}"
    return Step(name, command, guests=2)


CPP_TARGETS = ("verbs_test", "conformance_test", "rocecoll_verbs_plugin", "quirky_nic")
CPP_BUILD_LIMIT_S = 1500


def cpp_step(name: str, test: str, arguments: str = "", netem: str = "", quirks: str = "") -> Step:
    """Tests of GoogleTest that need devices; $1 and $2 are their names, $3 and $4 the addresses."""
    command = (
        f"set -- $SOFTROCE_DEVICES $SOFTROCE_ADDRESSES; "
        f"{preloaded(quirks)}exec {CPP_BUILD}/{test} "
        f"--gtest_output=xml:$SOFTROCE_OUT/{test}.xml {arguments}"
    )
    return Step(name, command, cases=True, netem=netem)


# What every transport has to do, over rc, ud and auto.
CONFORMANCE = "--rdma=$1@$3,$2@$4 --gtest_filter='*device_*-*Slow*:*Nightly*'"
RC_CONFORMANCE = CONFORMANCE.replace("device_", "device_rc")
# Without the case that needs RoCE between all of three ranks: the queue pairs are too few for it.
SHORT_CONFORMANCE = RC_CONFORMANCE.replace("*Slow*", "*Slow*:*ThePathThatIsMeant*")


def build_cpp_tests() -> None:
    """On this machine; the guest sees the result."""
    for command in (configure_tests(), build_tests(CPP_BUILD, *CPP_TARGETS)):
        done = subprocess.run(command, capture_output=True, text=True, timeout=CPP_BUILD_LIMIT_S)
        if done.returncode != 0:
            raise BedError(
                f"`{' '.join(command)}` failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )


def faulty_steps(*faults: str) -> tuple[Step, ...]:
    return tuple(
        cpp_step(f"conformance, {netem}", "conformance_test", CONFORMANCE, netem=netem)
        for netem in faults
    )


def late_step(way_ms: int) -> Step:
    """RoCE takes over a link that UDP has carried so far, at the latest when the link ends."""
    name = "conformance, peers are found late"
    return cpp_step(name, "conformance_test", RC_CONFORMANCE, quirks=f"way_ms={way_ms}")


# In addition to those of the list. The longest come first, so that none runs alone at the end.
ROCE_STEPS = (
    roce_step("killed ranks, many links", "kills", "cycles"),
    roce_step("many ranks", "scale"),
    roce_step("training", "training_roce"),
    cpp_step("conformance", "conformance_test", CONFORMANCE),
    cpp_step(
        "conformance, no shared receive queues",
        "conformance_test",
        RC_CONFORMANCE,
        quirks="max_srq=0",
    ),
    cpp_step(
        "conformance, few queue pairs, and few and slow registrations",
        "conformance_test",
        SHORT_CONFORMANCE,
        quirks="max_qp=4 max_mr=12 reg_ms_per_mib=1",
    ),
    roce_step("every collective, clean and with faults", "matrix"),
    roce_step("RoCE goes away, or was not asked for", "failover", "default"),
    roce_step("two wires, and devices that are removed", "rails", "removal"),
    roce_step("devices die for good", "dead_device", quirks="alive=1"),
    cpp_step("queue pairs and datagrams of a device", "verbs_test"),
    roce_step("what others see", "witness"),
    roce_step("doctor between hosts", "doctor"),
    apart_step("every collective, two guests", "together rc ud auto"),
    apart_step("a guest is killed under rc", "killed rc"),
    apart_step("a guest is killed under ud", "killed ud"),
)

STEPS = (
    *BED_STEPS,
    *faulty_steps("loss 2% delay 1ms duplicate 2% corrupt 1%"),
    late_step(way_ms=100),
    *ROCE_STEPS,
)
# Only in nightly runs, in which tests/roce/bed.py also repeats everything more often.
NIGHTLY_STEPS = (
    *BED_STEPS,
    *faulty_steps("loss 5%", "delay 2ms", "duplicate 2%", "corrupt 1%", "loss 1%"),
    late_step(way_ms=1000),
    *ROCE_STEPS,
)

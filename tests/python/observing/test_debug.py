# SPDX-License-Identifier: Apache-2.0
"""ROCECOLL_DEBUG: what a program's ranks say of their network, where, and how often."""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
from pathlib import Path

import pytest
from launch import environment, run_program, run_programs

import rocecoll

pytestmark = pytest.mark.quick

PROGRAM = """
import logging, os, sys, torch, torch.distributed as dist
def join(store, rank, size):
    dist.init_process_group("rocecoll", store=dist.FileStore(store, size), rank=rank, world_size=size)
    dist.all_reduce(torch.ones(1000))
    dist.barrier()
exec(sys.argv[4])
join(sys.argv[3], int(sys.argv[1]), int(sys.argv[2]))
"""
BASIC = "logging.basicConfig(stream=sys.stdout, format='%(levelname)s logged %(message)s')"
OWN_LINE = re.compile(
    rf"^{re.escape(socket.gethostname())}:(\d+) \[(\d)\] ROCECOLL ([A-Z]+) (.*)$", re.MULTILINE
)


def run_ranks(tmp_path: Path, before: str = "", size: int = 2, **variables: str) -> list[str]:
    store = tmp_path / secrets.token_hex(8)  # a different one each time
    commands = [
        [sys.executable, "-c", PROGRAM, str(rank), str(size), str(store), before]
        for rank in range(size)
    ]
    results = run_programs(commands, [environment(**variables)] * size)
    for result in results:
        assert result.returncode == 0, result.stdout
    return [result.stdout for result in results]


def own_lines(output: str) -> list[tuple[str, str, str, str]]:
    return OWN_LINE.findall(output)


def test_info_says_what_is_used_and_why(tmp_path: Path) -> None:
    outputs = run_ranks(tmp_path, ROCECOLL_DEBUG="INFO")
    for rank, output in enumerate(outputs):
        lines = own_lines(output)
        assert len(lines) == len(output.splitlines()), output
        assert {(shown, level) for _, shown, level, _ in lines} == {(str(rank), "INFO")}
        assert len({process for process, _, _, _ in lines}) == 1
        texts = [text for _, _, _, text in lines]
        assert len(texts) == len(set(texts)), output
        for pattern in (
            rf"version {re.escape(rocecoll.__version__)}, torch \S+, Python \S+, Linux \S+",
            r"transport auto, shared memory; address \S+ of \S+, MTU \d+: \S.*",
            r"UDP port \d+: UDP_SEGMENT (yes|no), UDP_GRO (yes|no); send buffer (only )?\d+ .*"
            r"bytes.*, receive buffer (only )?\d+ .*bytes.*",
            r"ranks [01] and [01] \(\S+\): shared memory.*",
        ):
            assert sum(re.fullmatch(pattern, text) is not None for text in texts) == 1, pattern
    assert "2 ranks on 1 host" in outputs[0]


@pytest.mark.parametrize(
    "variables", [{}, {"ROCECOLL_DEBUG": "WARN"}, {"ROCECOLL_DEBUG": "off"}, {"NCCL_DEBUG": "WARN"}]
)
def test_otherwise_nothing_is_said_of_a_network_that_works(
    variables: dict[str, str], tmp_path: Path
) -> None:
    assert run_ranks(tmp_path, **variables) == ["", ""]


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_level_of_the_root_logger_is_not_meant_for_us(level: str, tmp_path: Path) -> None:
    """Frameworks set it in their workers, as Ray Train does."""
    before = BASIC.replace("stream", f"level='{level}', stream")
    before += "\nfor name in ('torch', 'asyncio'): logging.getLogger(name).setLevel('WARNING')"
    for output in run_ranks(tmp_path, before):
        assert "rocecoll: " not in output
    for output in run_ranks(tmp_path, before + "\nlogging.getLogger('rocecoll').setLevel('INFO')"):
        assert "INFO logged rocecoll: UDP port " in output


@pytest.mark.parametrize("level", ["INFO", "TRACE"])
def test_nccl_debug_does_the_same(level: str, tmp_path: Path) -> None:
    for output in run_ranks(tmp_path, NCCL_DEBUG=level):
        texts = [text for _, _, _, text in own_lines(output)]
        assert f"ROCECOLL_DEBUG is taken from NCCL_DEBUG={level}" in texts
        assert any(text.startswith("UDP port ") for text in texts), output


@pytest.mark.parametrize("ours", ["off", "warn"])
def test_our_variable_wins_over_nccls(ours: str, tmp_path: Path) -> None:
    assert run_ranks(tmp_path, NCCL_DEBUG="INFO", ROCECOLL_DEBUG=ours) == ["", ""]


@pytest.mark.parametrize(
    "before",
    [BASIC, "dist.init_process_group\n" + BASIC, BASIC.replace("stream", "level=40, stream")],
)
def test_a_program_that_logs_gets_the_lines_once_through_its_own_handlers(
    before: str, tmp_path: Path
) -> None:
    for output in run_ranks(tmp_path, before, ROCECOLL_DEBUG="INFO"):
        assert own_lines(output) == [], output
        said = [line for line in output.splitlines() if "UDP port " in line]
        assert len(said) == 1, output
        assert said[0].startswith("INFO logged rocecoll: UDP port ")


def test_handlers_that_are_added_later_take_over(tmp_path: Path) -> None:
    before = f"""
plain = join
def join(*place):
    plain(*place)
    said = logging.getLogger("rocecoll")
    said.info("before")
    {BASIC}
    said.info("after")
"""
    for rank, output in enumerate(run_ranks(tmp_path, before, ROCECOLL_DEBUG="INFO")):
        assert ("before" in [text for _, _, _, text in own_lines(output)]) is True, (rank, output)
        assert output.count("after") == 1
        assert "INFO logged after" in output


@pytest.mark.parametrize("level", ["WARNING", "ERROR"])
def test_a_level_that_the_program_has_set_stays(level: str, tmp_path: Path) -> None:
    before = f"logging.getLogger('rocecoll').setLevel('{level}')"
    assert run_ranks(tmp_path, before, ROCECOLL_DEBUG="INFO") == ["", ""]


def test_off_silences_warnings_and_warn_names_their_rank(tmp_path: Path) -> None:
    variables = {"NCCL_IB_SL": "9"}  # which is of no use here
    text = "NCCL_IB_SL=9 is not used: ROCECOLL_IB_SL takes a whole number from 0 to 7"
    for output in run_ranks(tmp_path, **variables):
        assert output == f"rocecoll: {text}\n"  # by Python's logging
    for rank, output in enumerate(run_ranks(tmp_path, ROCECOLL_DEBUG="WARN", **variables)):
        [(_, shown, level, said)] = own_lines(output)
        assert (shown, level, said) == (str(rank), "WARN", text)
    assert run_ranks(tmp_path, ROCECOLL_DEBUG="OFF", **variables) == ["", ""]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_say_it_too(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import multiprocessing, sys, torch, torch.distributed as dist
def join(rank, store):
    dist.init_process_group("rocecoll", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1000))
    dist.barrier()
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    ranks = [context.Process(target=join, args=(r, sys.argv[1])) for r in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(sum(process.exitcode for process in ranks))
""")
    output = run_program(
        [sys.executable, str(program), str(tmp_path / "store")], ROCECOLL_DEBUG="INFO"
    )
    lines = own_lines(output)
    assert len({process for process, _, _, _ in lines}) == 2, output
    for rank in "01":
        texts = [text for _, shown, _, text in lines if shown == rank]
        assert sum(text.startswith("version ") for text in texts) == 1, output
        assert sum(text.startswith("UDP port ") for text in texts) == 1, output


def test_a_child_forked_from_a_rank_has_lines_of_its_own(tmp_path: Path) -> None:
    before = """
plain = join
def join(store, rank, size):
    plain(store, rank, size)
    dist.destroy_process_group()
    child = os.fork()
    if child == 0:
        plain(store + "child", rank, size)
        dist.destroy_process_group()
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
"""
    for output in run_ranks(tmp_path, before, size=1, ROCECOLL_DEBUG="INFO"):
        lines = own_lines(output)
        processes = list(dict.fromkeys(process for process, _, _, _ in lines))
        assert len(processes) == 2, output
        for process in processes:
            texts = [text for one, _, _, text in lines if one == process]
            assert sum(text.startswith("version ") for text in texts) == 1, output
            assert sum(text.startswith("UDP port ") for text in texts) == 1, output


def test_a_small_socket_buffer_is_told_with_what_to_do(tmp_path: Path) -> None:
    wanted = 1 << 30  # more than any system allows by default
    command = [sys.executable, "-c", PROGRAM, "0", "1", str(tmp_path / "store"), ""]
    if os.geteuid() == 0:  # root may exceed the limit
        command = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", *command]
    [result] = run_programs(
        [command], [environment(ROCECOLL_DEBUG="INFO", ROCECOLL_SOCKET_BUFFER_BYTES=str(wanted))]
    )
    assert result.returncode == 0, result.stdout
    assert re.search(
        rf"receive buffer only \d+ of {wanted} bytes \(as root, sysctl -w "
        rf"net\.core\.rmem_max={wanted} allows them\)",
        result.stdout,
    ), result.stdout

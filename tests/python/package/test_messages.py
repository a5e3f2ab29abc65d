# SPDX-License-Identifier: Apache-2.0
"""`rocecoll explain` knows everything that the sources can say."""

from __future__ import annotations

from pathlib import Path

import pytest
from launch import ROOT
from said_messages import NUMBER, Said, all_said, said_in_cpp, said_in_python

from rocecoll.diagnosis import messages

pytestmark = pytest.mark.quick

GOES_ON = "rocecoll: ranks 0 and 1 (192.0.2.1:7): goes on over {}: {{}}"
OVER_UDP, OVER_NETWORK = GOES_ON.format("UDP"), GOES_ON.format("the network")
# Files that contain only reasons (and log lines, which are counted separately), and the whole
# message in which a reason reaches people.
INSIDE = {
    "csrc/transport/fast_paths/shm/": OVER_NETWORK,
    "csrc/transport/fast_paths/": OVER_UDP,
    "csrc/transport/verbs/": OVER_UDP,
    "csrc/transport/datagram/ud/failover_paths.cc": "UDP carries the traffic with 3: {}",
    "csrc/messenger/peer_channel_receive.cc": 'rocecoll: group "0": rank 3 of the group sent {}',
    "csrc/transport/datagram/reliability/connection.cc": 'rocecoll: group "0": lost rank 3 (192.0.2.1:7): {} 9 s',
}
# What follows the cause in a message: advice, and where an operation was.
BEHIND = (
    " Or set ROCECOLL_TRANSPORT=auto, the default, ",
    "see whether these ranks are alive",
    "if it still runs, ",
    "if it only ended early, ",
    "see the device's own error on that rank",
    f" and {NUMBER} more ranks",
    f"; see {NUMBER}'s own log first",
    "; not called by ",
    "; no answer from ",
    "; called by every rank",
    " waits for the operations that were called before it",
    f" of {NUMBER} parts done",
    ", one at step ",
    ", the next waits for this rank's device",
    ", blocks of different sizes",
    "; the group has failed: ",
    " (the timeout argument of ",
    "; wait() again, or for longer",
    ", this host has ",
    ", the range only ",
    ", and another process has the only one",
    " (ss -ulnp shows whose they are)",
    f"only {NUMBER} of {NUMBER} bytes (as root, ",
    f"{NUMBER} ({NUMBER} times so far)",
    f"; without {NUMBER} {NUMBER} does not tell one job from another",
    "set MASTER_PORT to a free one",
    f"; set {NUMBER} for the whole process",
    f"; did you mean {NUMBER}?",
    "no interface of this host that is up has such a name",
    f"; {NUMBER} is by itself 0 where ",
    "install that release again, ",
    "run `pip install --no-build-isolation .` in its source tree",
    "Python has found its source tree, ",
    "build rocecoll for this one, ",
    "another that this version of rocecoll can be built for: ",
    "give it to that one",
    "set it before that one",
    "the default backend",
    f"; and {NUMBER} more tensors",
    f", and {NUMBER} before them that the trace had no room for",
)
# Texts made up of what is inserted, or completed by their caller: their beginnings, and a whole
# message.
ADDRESS = "rocecoll: transport udp; address 192.0.2.1 of eth0, MTU 1500: {}"
UNUSABLE = "rocecoll: transport rc cannot be used here: {}"
NEEDS = "rocecoll: allreduce: ring needs {}"
MADE_UP = {
    "blocks of one size": NEEDS,
    "a number of ranks that is a power of two": NEEDS,
    "to know the ranks' hosts": NEEDS,
    "hosts of which none has over": NEEDS,
    "out of memory": "{}; this is a bug in rocecoll, please report it",
    f"a block of input{NUMBER}": "gather: a block of input has 3 elements, {} has 4",
    f"this rank's block of input{NUMBER}": "gather: input has 3 elements, {} has 4",
    f" is no network plug-in: it has no {NUMBER}": UNUSABLE,
    "its launcher has told it": "no RoCE in this process, only UDP: {}",
    "the source of ": ADDRESS,
    "the route to ": ADDRESS,
    "the default route": ADDRESS,
    "the first that is up, ": ADDRESS,
    "there is only loopback": ADDRESS,
    ", among those of ROCECOLL_SOCKET_IFNAME=": ADDRESS,
    f" #{NUMBER} (to {NUMBER} (from {NUMBER}any rank": "send #1 (to rank 3) timed out after 9 s",
    f"lost {NUMBER}: ": "lost rank 3: no process listens at its address any more",
    "nothing heard for ": "no contact with rank 3: its address is known, but no UDP packet came back",
    " is up again": "the RoCE port 3 is up again",
    f": goes on over {NUMBER}: ": OVER_UDP,
    f"{NUMBER} is taken from {NUMBER}": "ROCECOLL_DEBUG is taken from NCCL_DEBUG=INFO",
    f"rank {NUMBER} made {NUMBER} calls": "rocecoll: rank 3 made 3 calls",
    "post a ": "RoCE: cannot post a send request: Input/output error",
    f'group "{NUMBER}": {NUMBER}; {NUMBER} waits for it': "nothing heard from rank 3 for 2 s; barrier waits for it",
}


def whole(said: Said) -> str:
    """The whole message, as people see it."""
    for beginning, message in MADE_UP.items():
        if said.text.startswith(beginning):
            return message.format(said.text)
    for place, message in INSIDE.items():
        if said.file.startswith(place) and not said.by_itself:
            return message.format(said.text)
    return said.text


def test_everything_that_is_said_is_explained() -> None:
    known = messages.entries()
    said = all_said()
    assert len(said) > 400  # the texts are still found
    unknown = [
        str(one)
        for one in said
        if not one.text.startswith(BEHIND)
        and not any(entry.explains(text) for entry in known for text in (one.text, whole(one)))
    ]
    assert not unknown, "rows are missing in docs/messages.md:\n" + "\n".join(unknown)


def test_what_is_taken_for_a_part_is_still_said() -> None:
    texts = [one.text for one in all_said()]
    for part in [*BEHIND, *MADE_UP]:
        assert any(text.startswith(part) for text in texts), f"nobody says {part!r} any more"
    for place in INSIDE:
        assert any(one.file.startswith(place) for one in all_said()), f"{place} says nothing"


def test_other_programs_are_not_explained() -> None:
    for line in (
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "ValueError: batch_size must be positive",
        "epoch 3: loss 0.25, 17 elements wrong",
        "W1128 torch/distributed/run.py: the server is down (503)",
    ):
        found = [entry.says for entry in messages.entries() if entry.explains(line)]
        assert not found, (line, found)


def test_texts_of_cpp_are_found_where_they_are_put_together() -> None:
    source = """
    // "not this one, which is a comment"
    Status Fail(int rank) {
      return Status(kCode, "rank " + std::to_string(rank) + " has no "
                           "name; and no \\"number\\" either");
    }
    """
    [said] = said_in_cpp("a.cc", source)
    assert said == Said("a.cc", 4, False, f'rank {NUMBER} has no name; and no "number" either')


def test_texts_of_python_are_found(tmp_path: Path) -> None:
    source = ROOT / "rocecoll" / "tracing.py"
    assert "a rocecoll trace can be entered only once" in [
        said.text for said in said_in_python(source)
    ]

# SPDX-License-Identifier: Apache-2.0
"""send, recv, tags, and operations that finish in another order than they began."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from exact import DTYPES, assert_same, make_input

pytestmark = [pytest.mark.quick, pytest.mark.lossy]


def check_ring(dtype: torch.dtype) -> None:
    """Every rank sends to its right neighbour; to itself in a world of one is refused by torch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 5, 4099, 70_001):
        output = torch.empty(count, dtype=dtype)
        request = dist.isend(make_input(dtype, count, rank), right)
        source = dist.recv(output, left)
        request.wait()
        assert source == left
        assert_same(output, make_input(dtype, count, left), (dtype, count))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ring(shared_pool, size: int, dtype: torch.dtype) -> None:
    shared_pool(size).run(check_ring, dtype)


def check_tags_in_reverse() -> None:
    """Receives are posted in the order opposite to the sends; the tag decides."""
    tags = [7, 1, 1000, 0, 2**20]
    counts = {tag: 10 + 30_000 * index for index, tag in enumerate(tags)}
    if dist.get_rank() == 0:
        requests = [dist.isend(torch.full((counts[tag],), tag), 1, tag=tag) for tag in tags]
    else:
        outputs = {tag: torch.empty(counts[tag], dtype=torch.int64) for tag in reversed(tags)}
        requests = [dist.irecv(output, 0, tag=tag) for tag, output in outputs.items()]
    for request in requests:
        request.wait()
    if dist.get_rank() == 1:
        for tag, output in outputs.items():
            assert_same(output, torch.full((counts[tag],), tag), tag)


def test_tags_in_reverse(shared_pool) -> None:
    shared_pool(2).run(check_tags_in_reverse)


def check_tags_of_calls() -> None:
    """Messages with the largest tag do not meet what calls exchange themselves."""
    peer = 1 - dist.get_rank()
    largest = 2**31 - 3
    request = dist.isend(torch.full((3,), 1.0 * dist.get_rank()), peer, tag=largest)
    total = torch.eye(3).to_sparse()
    dist.all_reduce(total)
    assert_same(total.to_dense(), 2 * torch.eye(3), "sum")
    dist.monitored_barrier()
    output = torch.empty(3)
    dist.recv(output, peer, tag=largest)
    request.wait()
    assert_same(output, torch.full((3,), 1.0 * peer), "message")
    for tag in (largest + 1, largest + 2):
        refused = pytest.raises(RuntimeError, match=f"invalid tag: {tag}")
        with refused:
            dist.isend(torch.zeros(3), peer, tag=tag)
        with refused:
            dist.irecv(torch.zeros(3), peer, tag=tag)
        with refused:
            dist.irecv(torch.zeros(3), tag=tag)


def test_tags_of_calls(shared_pool) -> None:
    shared_pool(2).run(check_tags_of_calls)


def check_same_tag_keeps_order() -> None:
    peer = 1 - dist.get_rank()
    outputs = [torch.empty(3) for _ in range(40)]
    requests = [dist.isend(torch.full((3,), float(i)), peer) for i in range(40)]
    requests += [dist.irecv(output, peer) for output in outputs]
    for request in requests:
        request.wait()
    assert [output[0].item() for output in outputs] == list(range(40))


def test_same_tag_keeps_order(shared_pool) -> None:
    shared_pool(2).run(check_same_tag_keeps_order)


def check_late_message_does_not_block() -> bool:
    """A receive whose message comes last does not hold up one that was posted after it."""
    if dist.get_rank() == 0:
        late, early = torch.empty(4), torch.empty(4)
        late_request = dist.irecv(late, 1, tag=1)
        dist.irecv(early, 1, tag=2).wait()
        unfinished = not late_request.is_completed()
        dist.send(torch.zeros(1), 1, tag=3)  # only now does rank 1 send the late one
        late_request.wait()
        assert late[0] == 1 and early[0] == 2
        return unfinished
    dist.send(torch.full((4,), 2.0), 0, tag=2)
    dist.recv(torch.empty(1), 0, tag=3)
    dist.send(torch.full((4,), 1.0), 0, tag=1)
    return True


def test_late_message_does_not_block(shared_pool) -> None:
    assert shared_pool(2).run(check_late_message_does_not_block) == [True, True]


def check_any_source() -> None:
    """The last rank takes what comes, and learns whose each was."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (1, 3000, 300_000):
        if rank < size - 1:
            dist.send(torch.full((count,), 1.0 * rank), size - 1, tag=4)
        else:
            sources = []
            for _ in range(size - 1):
                output = torch.zeros(count)
                sources.append(dist.recv(output, tag=4))
                assert (output == sources[-1]).all()
            assert sorted(sources) == list(range(size - 1))
        dist.barrier()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_any_source(shared_pool, size: int) -> None:
    shared_pool(size).run(check_any_source)


def check_any_source_work() -> None:
    """In a group with ranks of its own, and beside a receive from a named rank."""
    rank = dist.get_rank()
    group = dist.new_group([1, 2])
    if rank == 1:
        output, named = torch.zeros(2), torch.zeros(2)
        work = group.recv_anysource([output], 9)
        with pytest.raises(RuntimeError, match="once the message has come"):
            work._source_rank()
        other = dist.irecv(named, 2, group=group, tag=8)
        dist.send(torch.zeros(1), 2, group=group)
        work.wait()
        other.wait()
        assert work._source_rank() == 1  # rank 2 of the world is rank 1 of the group
        assert (output.tolist(), named.tolist()) == ([9, 9], [8, 8])
    elif rank == 2:
        dist.recv(torch.zeros(1), 1, group=group)
        for tag in (8, 9):
            dist.send(torch.full((2,), float(tag)), 1, group=group, tag=tag)
    dist.barrier()
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        dist.destroy_process_group(group)


def test_any_source_work(shared_pool) -> None:
    shared_pool(3).run(check_any_source_work)


def check_any_source_profiled() -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        check_any_source()
    return sorted({event.name for event in profiler.events() if event.name.startswith("rocecoll:")})


def test_any_source_profiled(shared_pool) -> None:
    assert "rocecoll:recvAnySource" in shared_pool(2).run(check_any_source_profiled)[1]


def check_any_source_alone() -> None:
    with pytest.raises(RuntimeError, match="no other rank"):
        dist.recv(torch.zeros(1))


def test_any_source_alone(shared_pool) -> None:
    shared_pool(1).run(check_any_source_alone)


def check_batch() -> None:
    """Everybody to everybody, in one batch, next to a collective in flight."""
    rank, size = dist.get_rank(), dist.get_world_size()
    peers = [peer for peer in range(size) if peer != rank]
    outputs = {peer: torch.empty(2000 + peer) for peer in peers}
    operations = [dist.P2POp(dist.irecv, outputs[peer], peer) for peer in peers]
    operations += [dist.P2POp(dist.isend, torch.full((2000 + rank,), rank * 1.0), p) for p in peers]
    total = torch.ones(50_000)
    collective = dist.all_reduce(total, async_op=True)
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    collective.wait()
    assert (total == size).all()
    for peer in peers:
        assert_same(outputs[peer], torch.full((2000 + peer,), peer * 1.0), peer)


@pytest.mark.parametrize("size", [2, 5])
def test_batch(shared_pool, size: int) -> None:
    shared_pool(size).run(check_batch)

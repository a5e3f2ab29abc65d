# SPDX-License-Identifier: Apache-2.0
"""Train a small network on scikit-learn's handwritten digits with DistributedDataParallel.

    torchrun --nproc-per-node 2 examples/train_digits.py --backend rocecoll

Everything is seeded: two backends that add correctly give the same loss curve. The numbers are
float64 because backends add in different orders from 3 ranks on, and training amplifies the last
bit: in float32 the curves would part visibly after some hundred steps.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import typer
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import rocecoll

TEST_SAMPLES = 360
BATCH = 64  # of all ranks together


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """1,797 images of 8x8 pixels in a fixed shuffled order, cut into training and test sets."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float64).unsqueeze(1) / 16.0
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return (
        TensorDataset(images[TEST_SAMPLES:], labels[TEST_SAMPLES:]),
        TensorDataset(images[:TEST_SAMPLES], labels[:TEST_SAMPLES]),
    )


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def train_epoch(
    model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer
) -> tuple[float, float]:
    """Mean loss and accuracy over the training samples of all ranks."""
    totals = torch.zeros(3)
    for images, labels in loader:
        optimizer.zero_grad()
        scores = model(images)
        loss = nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        correct = (scores.argmax(dim=1) == labels).sum()
        totals += torch.tensor([loss.item() * len(labels), correct.item(), len(labels)])
    dist.all_reduce(totals)
    loss_sum, correct_sum, samples = totals.tolist()
    return loss_sum / samples, correct_sum / samples


def test_accuracy(model: nn.Module, data: TensorDataset) -> float:
    images, labels = data.tensors
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).to(torch.float64).mean().item()


def bytes_moved(backend: str) -> dict[str, int]:
    """Bytes that this rank has sent and received so far, by path; gloo does not count them."""
    if backend != "rocecoll":
        return {}
    stats = rocecoll.stats()
    return {
        "network": stats["bytes_sent"] + stats["bytes_received"],
        "memory": stats["shared_bytes_sent"] + stats["shared_bytes_received"],
    }


def main(
    backend: str = "rocecoll",
    epochs: int = 10,
    report: Annotated[Path | None, typer.Option(help="rank 0 appends a JSON line here")] = None,
) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group(backend)
    training, test = load_data()
    sampler = DistributedSampler(training, seed=0)
    loader = DataLoader(
        training, batch_size=max(1, BATCH // dist.get_world_size()), sampler=sampler
    )
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        before = bytes_moved(backend)
        started = time.perf_counter()
        loss, accuracy = train_epoch(model, loader, optimizer)
        row = {
            "epoch": epoch + 1,
            "loss": loss,
            "accuracy": accuracy,
            "test_accuracy": test_accuracy(model, test),
            "seconds": time.perf_counter() - started,
            "bytes": {path: moved - before[path] for path, moved in bytes_moved(backend).items()},
        }
        if dist.get_rank() == 0:
            line = json.dumps(row)
            print(line, flush=True)
            if report:
                with report.open("a") as file:
                    file.write(line + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)

# SPDX-License-Identifier: Apache-2.0
"""What scripts/softroce does outside of a guest; `scripts/softroce test` boots real ones."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import softroce
from fake_bed import FakeBed, job
from softroce_bed import beds, cache, native, uml, uml_kernel, wire
from softroce_bed.bed import (
    EXIT_BROKEN,
    EXIT_IMPOSSIBLE,
    BedError,
    ImpossibleError,
)
from softroce_bed.guests import Guest
from typer.testing import CliRunner

pytestmark = pytest.mark.quick

DEADLINE_S = 300


# Which bed.


@pytest.mark.parametrize(
    ("name", "found", "chosen"),
    [
        ("auto", [FakeBed("native"), FakeBed("uml")], "native"),
        ("auto", [FakeBed("native"), FakeBed("uml", ready=True)], "uml"),
        ("auto", [FakeBed("native", "no rxe"), FakeBed("uml")], "uml"),
        ("auto", [FakeBed("native", lacking="a package"), FakeBed("uml")], "uml"),
        ("native", [FakeBed("native"), FakeBed("uml", ready=True)], "native"),
    ],
)
def test_bed_is_chosen(name: str, found: list[FakeBed], chosen: str) -> None:
    bed = beds.prepared(beds.Name(name), found)
    assert bed.name == chosen and bed.is_ready()


def test_impossible_beds_say_why() -> None:
    found = [FakeBed("native", "no rxe"), FakeBed("uml", lacking="bison")]
    with pytest.raises(ImpossibleError, match=r"native: no rxe\numl: bison"):
        beds.prepared(beds.Name.auto, found)
    with pytest.raises(ImpossibleError, match=r":\numl: bison"):
        beds.prepared(beds.Name.uml, found)


def test_every_bed_has_a_name_to_ask_for() -> None:
    assert ["auto", *(bed.name for bed in beds.all_beds())] == [name.value for name in beds.Name]


def test_capabilities() -> None:
    assert native.has_capability(12, "Name:\tx\nCapEff:\t0000000000001000\n")
    assert not native.has_capability(12, "Name:\tx\nCapEff:\t0000000000000fff\n")


# The command line.


def test_command_line_becomes_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bed = FakeBed("uml")
    monkeypatch.setattr(beds, "all_beds", lambda: [bed])
    monkeypatch.chdir(tmp_path)
    line = ["run", "--guests", "2", "--netem", "loss 1%", "--time-limit", "9", "--memory-mib"]
    line += ["512", "--out", "o", "--", "program", "--bed", "x", "--", "-y"]
    assert CliRunner().invoke(softroce.application, line).exit_code == 3
    (got,) = bed.jobs
    assert got.command == ("program", "--bed", "x", "--", "-y")
    assert got.directory == tmp_path
    assert (got.guests, got.netem, got.limit_s, got.memory_mib) == (2, "loss 1%", 9, 512)
    assert got.out == Path("o") and bed.ready


@pytest.mark.parametrize(
    ("error", "status"), [(BedError("no"), EXIT_BROKEN), (ImpossibleError("no"), EXIT_IMPOSSIBLE)]
)
def test_errors_have_a_status(
    monkeypatch: pytest.MonkeyPatch, error: BedError, status: int
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(softroce, "application", fail)
    with pytest.raises(SystemExit) as ended:
        softroce.main()
    assert ended.value.code == status


# What a guest is told.


def test_ends_are_in_one_guest_or_one_in_each() -> None:
    alone = wire.variables("uml", job("true"), 0)
    assert alone["SOFTROCE_DEVICES"] == "rxa rxb"
    second = wire.variables("uml", job("true", guests=2), 1)
    assert second["SOFTROCE_DEVICES"] == "rxb" and second["SOFTROCE_INTERFACES"] == "vb"
    assert second["SOFTROCE_ADDRESSES"] == alone["SOFTROCE_ADDRESSES"]


def test_uml_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(uml_kernel, "built_kernel", lambda: tmp_path / "linux")
    monkeypatch.setattr(uml, "memory_directory", lambda needed: tmp_path)
    guest = Guest(1, tmp_path, 512, 3, 4, 5, terminal_fd=None, wire_fd=6)
    process = uml.Uml().process(guest)
    line = " ".join(process.command)
    assert line.startswith(f"{tmp_path}/linux mem=512M ")
    assert f"init={tmp_path}/guest_init.sh" in line and "SOFTROCE_GUEST=1" in line
    assert "vec0:transport=fd,fd=6,mtu=4200,mac=02:00:00:00:00:02" in line
    assert process.environment == {"TMPDIR": str(tmp_path)}
    alone = uml.Uml().process(replace(guest, wire_fd=None))
    assert "SOFTROCE_NIC" not in " ".join(alone.command)


def test_uml_looks_for_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(
        shutil,
        "disk_usage",
        lambda path: usage._replace(free=usage.free if path == tmp_path else 64 << 20),
    )
    assert uml.memory_directory(64 << 20) == Path("/dev/shm")
    assert uml.memory_directory(65 << 20) == tmp_path
    with pytest.raises(BedError, match="--memory-mib"):
        uml.memory_directory(1 << 60)


# What is built once.


def test_key_follows_version_and_configuration() -> None:
    directory = uml_kernel.kernel_directory
    one = directory("6.12.1", "CONFIG_A=y\nCONFIG_B=y\n")
    assert one == directory("6.12.1", "# why\nCONFIG_B=y\n\nCONFIG_A=y\n")
    others = {
        directory("6.12.2", "CONFIG_A=y\nCONFIG_B=y\n"),
        directory("6.12.1", "CONFIG_A=y\n"),
        directory("6.12.1", "CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n"),
    }
    assert one not in others and len(others) == 3
    assert cache.short_hash("ab", "c") != cache.short_hash("a", "bc")


def test_kernel_outlives_its_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(uml_kernel, "source", lambda: None)
    assert uml_kernel.built_kernel() is None
    kernel = uml_kernel.kernel_directory("6.12.1", uml_kernel.CONFIG.read_text()) / "linux"
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    uml_kernel.kernel_directory("6.13", "CONFIG_A=y\n").mkdir()
    assert uml_kernel.built_kernel() == kernel


def test_newest_source_is_taken(tmp_path: Path) -> None:
    for version in ("6.1", "6.12", "6.9"):
        (tmp_path / f"linux-source-{version}.tar.xz").touch()
    (tmp_path / "linux-source-7.0").mkdir()
    assert uml_kernel.source(tmp_path) == tmp_path / "linux-source-6.12.tar.xz"
    assert uml_kernel.source(tmp_path / "linux-source-7.0") is None


def test_lost_configuration_is_an_error() -> None:
    wanted = "# CONFIG_C=y\nCONFIG_A=y\nCONFIG_B=y\n"
    uml_kernel.check_config(wanted, "CONFIG_B=y\nCONFIG_A=y\n")
    with pytest.raises(BedError, match="CONFIG_A=y"):
        uml_kernel.check_config(wanted, "# CONFIG_A is not set\nCONFIG_B=y\n")
    with pytest.raises(BedError, match="# CONFIG_A is not set"):
        uml_kernel.check_config("# CONFIG_A is not set\n", "CONFIG_A=y\n")


def test_old_sources_are_edited_as_a_whole_or_refused(tmp_path: Path) -> None:
    uml_kernel.keep_all_registers(tmp_path)
    for name, old, _ in uml_kernel.EDITS:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + old)
    uml_kernel.keep_all_registers(tmp_path)
    for name, _, new in uml_kernel.EDITS:
        assert new in (tmp_path / name).read_text()
    (tmp_path / uml_kernel.EDITS[0][0]).write_text("other")
    with pytest.raises(BedError, match="not known"):
        uml_kernel.keep_all_registers(tmp_path)


def test_what_the_kernel_does_without_is_not_unpacked(tmp_path: Path) -> None:
    needed = {"net/core/a.c", "drivers/gpu/drm/Kconfig", "arch/Kconfig", "arch/arm/Kconfig"}
    source, tree = tmp_path / "linux-source-6.12", tmp_path / "tree"
    for name in (*needed, "drivers/gpu/drm/a.c", "arch/arm/mm/a.S", "Documentation/mm/a.rst"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    archive = tmp_path / "linux-source-6.12.tar.gz"
    command = ["tar", "-C", tmp_path, "-czf", archive, source.name]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    tree.mkdir()
    with (tmp_path / "log").open("w") as log:
        uml_kernel.unpack(log, tree, archive)
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert files == needed


FAKE_MAKEFILE = """
tinyconfig:
\t@echo CONFIG_TINY=y >$(O)/.config
olddefconfig:
\t@sed -i /CONFIG_LOST/d $(O)/.config
linux:
\t@echo compiling; $(WORK)
"""
FAKE_MERGE = 'cat "$5" >>"$4"\n'  # -m -O OBJECTS OBJECTS/.config FRAGMENT


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on PATH")
@pytest.mark.parametrize(
    ("work", "fragment", "error"),
    [
        ("cp $(O)/.config $(O)/linux", "CONFIG_A=y", ""),
        ("echo no such thing; false", "CONFIG_A=y", "no such thing"),
        ("true", "CONFIG_LOST=y", "does not take CONFIG_LOST=y"),
    ],
)
def test_kernel_is_built_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, work: str, fragment: str, error: str
) -> None:
    tree = tmp_path / "linux-source-6.12"
    (tree / "scripts" / "kconfig").mkdir(parents=True)
    (tree / "Makefile").write_text(FAKE_MAKEFILE.replace("$(WORK)", work))
    merge = tree / "scripts" / "kconfig" / "merge_config.sh"
    merge.write_text("#!/bin/sh\n" + FAKE_MERGE)
    merge.chmod(0o755)
    archive = tmp_path / "linux-source-6.12.tar.gz"
    subprocess.run(
        ["tar", "-C", tmp_path, "-czf", archive, tree.name], check=True, timeout=DEADLINE_S
    )
    config = tmp_path / "uml.config"
    config.write_text(f"# why\n{fragment}\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(uml_kernel, "CONFIG", config)
    monkeypatch.setattr(uml_kernel, "BUILD_SPACE_BYTES", 0)
    monkeypatch.setattr(uml_kernel, "source", lambda: archive)
    if error:
        with pytest.raises(BedError, match=error):
            uml_kernel.build()
        assert uml_kernel.built_kernel() is None
    else:
        assert uml_kernel.build() == uml_kernel.built_kernel()
    left = {path.name for path in cache.directory().glob("uml-*") if path.is_dir()}
    assert left == (set() if error else {uml_kernel.built_kernel().parent.name})


def test_made_once_by_many(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(part: Path) -> None:
        made.append(part)
        (part / "file").write_text("whole")

    target = tmp_path / "cache" / "thing"
    target.parent.mkdir()
    threads = [threading.Thread(target=cache.make_once, args=(target, make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(made) == 1 and (target / "file").read_text() == "whole"


def test_failed_make_leaves_nothing_and_stale_parts_go(tmp_path: Path) -> None:
    def fail(part: Path) -> None:
        (part / "file").write_text("half")
        raise BedError("failed")

    target = tmp_path / "thing"
    (tmp_path / "thing.part.old").mkdir()
    with pytest.raises(BedError):
        cache.make_once(target, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]


def test_waiting_is_said(tmp_path: Path) -> None:
    said = threading.Event()
    target = tmp_path / "thing"
    with cache.lock(tmp_path / "thing.lock", lambda: None):
        thread = threading.Thread(
            target=cache.make_once, args=(target, lambda part: None, said.set)
        )
        thread.start()
        assert said.wait(DEADLINE_S)
        assert not target.exists()
    thread.join(DEADLINE_S)
    assert target.is_dir()


def test_a_guests_processes_may_have_a_mapping_for_each_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = tmp_path / "max_map_count"
    limit.write_text("65530\n")
    uml.allow_mappings(limit)
    assert int(limit.read_text()) == uml.MAPPINGS
    assert "65530" in capsys.readouterr().err
    limit.write_text("2000000\n")
    uml.allow_mappings(limit)
    assert limit.read_text() == "2000000\n"
    assert capsys.readouterr().err == ""

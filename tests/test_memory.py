"""Memory is asked for before it is taken."""

import pytest

from depthrank import memory
from depthrank.errors import DepthrankError


def test_gib_is_written_with_three_digits():
    assert memory.gib(200_000 * 50_000 * 8) == "74.5 GiB"
    assert memory.gib(200_000 * 200_000 * 8) == "298 GiB"
    assert memory.gib(2**20) == "0.000977 GiB"


def test_what_fits_passes_and_what_does_not_says_so(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2**30)
    memory.require(2**30, "a table")
    with pytest.raises(
        DepthrankError, match=r"^a table needs 2 GiB; 1 GiB are available\. Take less\.$"
    ):
        memory.require(2**31, "a table", "Take less.")


def test_unknown_memory_refuses_nothing(monkeypatch):
    monkeypatch.setattr(memory, "_machine_room", lambda: None)
    monkeypatch.setattr(memory, "_group_room", lambda: None)
    assert memory.available() is None
    memory.require(2**62, "a table")


def test_the_tightest_control_group_counts(monkeypatch, tmp_path):
    inner = tmp_path / "outer"
    inner.mkdir()
    for folder, limit, used in ((tmp_path, "max", 7), (inner, 5000, 3000)):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
    (inner / "memory.stat").write_text("anon 10\ninactive_file 400\n")
    assert memory._group_room(tmp_path, "0::/outer\n") == 2400
    assert memory._group_room(tmp_path, "0::/\n") is None


def test_this_machine_has_some_memory():
    room = memory.available()
    assert room is None or room > 0

"""`depthrank limits`: the exact limit, from the command line."""

import os

import pytest

from depthrank.theory import limits
from tests.cli.test_main import process

SETTING = ("--depth", "3", "--alpha", "0.1", "--m", "2")


def test_prints_the_closed_form(run):
    found = run("limits", *SETTING, "--dimension", "5", "--value", "2", "--json").json
    exact = limits(depth=3, alpha=0.1, m=2.0, n_blocks=5, value=2.0)
    assert found["singular_values"] == exact.singular_values.tolist()
    for key in ("stable_rank", "effective_rank", "coupled", "regime", "t_half"):
        assert found[key] == getattr(exact, key)


def test_blocks_and_dimension_say_the_same(run):
    sizes = (("--blocks", "3", "--block-size", "2"), ("--dimension", "6", "--block-size", "2"))
    first, second = (run("limits", *SETTING, *size, "--json").json for size in sizes)
    assert first == second
    assert (first["dimension"], first["blocks"]) == (6, 3)


def test_infinite_m_is_a_string_in_json(run):
    words = ("--depth", "3", "--alpha", "0.1", "--m", "inf", "--dimension", "4")
    found = run("limits", *words, "--json").json
    assert (found["m"], found["stable_rank"]) == ("inf", 4.0)


def test_people_see_ranks_close_to_one_apart_from_one(run):
    said = run("limits", "--depth", "3", "--alpha", "0.01", "--m", "2", "--dimension", "10")
    assert "stable rank          1 + 2.453e-15\n" in said.out
    assert "singular values      10, 1.65107e-07 (9 times)\n" in said.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--m", "0.5", "--dimension", "4"), "m is 0.5; .*assume 1 <= m.*`depthrank flow`"),
        (("--m", "2", "--dimension", "5", "--block-size", "2"), "equal size.*`depthrank flow`"),
        (("--m", "2"), "the size is missing; give --dimension D, or --blocks N"),
        (("--m", "2", "--dimension", "4", "--value", "inf"), "finite number.*`depthrank flow`"),
        (("--m", "2", "--dimension", str(10**14)), "singular values needs .* GiB"),
    ],
)
def test_outside_the_assumptions_names_them(run, words, message):
    import re

    said = run("limits", "--depth", "3", "--alpha", "0.1", *words)
    assert (said.status, said.out) == (2, "")
    assert re.search(message, said.err)


def test_answers_within_a_second():
    def seconds():
        before = os.times()
        assert process("limits", *SETTING, "--dimension", "10").returncode == 0
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])

    assert min(seconds() for _ in range(2)) < 1.0

"""The page: self-contained, escaped, complete."""

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import depthrank
from depthrank.report.page import completion_page, trajectory_page, write

NASTY = "<script>alert('1')</script>"


class Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self):
        super().__init__()
        self.tags, self.links, self.words, self.open = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


@pytest.fixture
def observations():
    table = np.outer(np.arange(1.0, 5), [1.0, 2.0, 3.0])
    table[0, 1] = table[2, :] = np.nan
    return depthrank.Observations.from_dense(
        table, row_labels=[NASTY, "b & c", "empty", "d"], col_labels=["x", 'y"', "<z>"]
    )


@pytest.fixture
def page(observations):
    result: dict[str, Any] = {
        "depth": 3,
        "holdout_rmse": 0.125,
        "observed_rmse": 1e-6,
        "effective_rank": 1.0,
    }
    result |= {"baselines": {"column_mean": 2.0}, "warnings": [NASTY], "settings": {"tol": 1e-9}}
    return completion_page(
        observations,
        observations.to_dense(fill=7.0),
        result,
        title=NASTY,
        sentences=[f"Seen: {NASTY}"],
        command=f"depthrank complete '{NASTY}.csv'",
        python="model.fit(observations)",
    )


def test_labels_titles_and_warnings_are_text(page):
    reader = read(page)
    assert "script" not in reader.tags
    said = " ".join(reader.words)
    assert said.count(NASTY) >= 5  # title twice, sentence, warning, label, command
    assert 'y"' in said
    assert "<z>" in said


def test_nothing_is_fetched(page):
    reader = read(page)
    assert reader.links
    assert all(link.startswith("data:image/") for link in reader.links)
    assert "link" not in reader.tags
    assert "http" not in page.replace("http-equiv", "")


def test_page_says_what_there_is(page):
    said = " ".join(read(page).words)
    for expected in (
        "held-out error",
        "0.125",
        "column mean baseline",
        "Before and after",
        "rows without data",
        "empty",
        "settings: tol",
        "model.fit(observations)",
        f"depthrank {depthrank.__version__}",
    ):
        assert expected in said


def test_filled_and_undetermined_cells_are_set_off(page):
    assert page.count('<td class="filled">7</td>') == 1
    assert page.count('<td class="unsure">7</td>') == 3


def test_page_of_a_flow(observations, tmp_path):
    run = depthrank.flow(observations, depth=2, init=depthrank.Gaussian(1e-2), tol=1e-8)
    result = {"regime": "r < s", "limit": {"largest_relative_difference": 2e-9}, "warnings": []}
    page = trajectory_page(run, observations, result, command="depthrank flow", python="run")
    said = " ".join(read(page).words)
    assert "Regime: r < s." in said
    assert "2.0e-09" in said
    assert "fitted" in said
    write(page, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page

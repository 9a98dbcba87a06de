"""The report's page: whole in itself, the same every time, and safe from what users call themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tesched_sim.reports.page import NAMED_USERS, page
from tesched_sim.reports.run_summary import Case, RunReportError
from tesched_sim.reports.style import DARK, DARK_PAGE, LIGHT, LIGHT_PAGE, ColumnStyle
from tesched_sim.result import Result

from tests.missing_packages import hide
from tests.unit.sim.results import Noticed, Ran, four_jobs, result

#: tags without an end
VOID = {"meta", "br", "link", "img"}


class Tags(HTMLParser):
    """The page's elements; raises when one is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        self.ids.update(value for name, value in attrs if name == "id" and value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        self.ids.update(value for name, value in attrs if name == "id" and value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def made(*cases: Case, baseline: str | None = None) -> str:
    found = page(cases, baseline=baseline)
    assert isinstance(found, str)
    return found


def one_of_each() -> list[Case]:
    """Return two policies on two seeds; FIFO preempts no job."""
    waits = result(
        Ran(te=True, end=100, run=100),
        Ran(end=200, run=200, nodes=2, user=1),
        Ran(te=True, submit=50, start=200, end=205, run=5),
        Ran(submit=100, start=205, end=1205, run=1000),
        user_names=("ann", "bob"),
    )
    return [Case.of(one, seed=seed) for seed in (1, 2) for one in (replace(waits, policy="fifo"), four_jobs("fitgpp"))]


def test_the_page_is_whole_in_itself() -> None:
    text = made(*one_of_each(), baseline="fifo")
    tags = Tags(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.count)
    # Nothing is fetched: every reference is to the page itself.
    assert set(re.findall(r'(?:src|href)="([^#"][^"]*)"', text)) == set()
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_every_reference_in_a_plot_is_to_an_id_of_its_own() -> None:
    text = made(*one_of_each(), baseline="fifo")
    ids = Tags(text).ids
    assert [name for name, times in ids.items() if times > 1] == []
    meant = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
    assert {one or other for one, other in meant} <= set(ids)
    for words in re.findall(r'aria-labelledby="([^"]+)"', text):
        assert set(words.split()) <= set(ids)


def test_the_plots_are_described_and_take_their_colours_from_the_page() -> None:
    text = made(*one_of_each(), baseline="fifo")
    # TE and BE slowdown, TE and BE wait, over time, interval, victims
    assert text.count('role="img"') == text.count("<desc") == 7
    assert "fitgpp: median 2.00 ±0.00, 95th percentile 2.90 ±0.00" in text
    style, _, body = text.partition("</style>")
    assert "prefers-color-scheme: dark" in style
    assert re.findall(r"#[0-9a-f]{6}\b", body) == []
    assert {"var(--c0)", "var(--c1)", "var(--ink)"} <= set(re.findall(r"var\(--\w+\)", body))


def test_the_figures_stand_in_the_page_with_their_differences() -> None:
    text = made(*one_of_each(), baseline="fifo")
    # TE waits: 0 and 150 s under FIFO, 0 and 10 s under FitGpp: mean 75 and 5 s, -93.3 %.
    assert re.search(r"TE wait mean</th><td>01:15 ±00:00</td><td>00:05 ±00:00<small>-93.3 ±0.0 %</small>", text)
    assert "Below each figure: difference to fifo" in text
    assert "fitgpp: jobs not finished: 2" in text
    assert "2 seeds (1, 2)" in text


def test_the_same_cases_make_the_same_bytes() -> None:
    assert made(*one_of_each(), baseline="fifo") == made(*one_of_each(), baseline="fifo")


EVIL = "</title><script>alert('x')</script>&\"$\\frac$ <b>"


def evil() -> Result:
    return result(
        Ran(te=True, end=100),
        Ran(end=300, preempted=1, lost=5),
        noticed=[Noticed(victim=1, preemptor=0, left=10, back=20)],
        policy=f"p{EVIL}",
        name=f"w{EVIL}",
        user_names=(f"u{EVIL}",),
        notes=(f"n{EVIL}",),
        settings={f"k{EVIL}": f"v{EVIL}", "nested": {EVIL: EVIL}},
    )


def test_names_from_outside_are_words_and_nothing_else() -> None:
    plain = replace(
        evil(),
        policy="p",
        settings={"k": "v", "nested": {"a": "b"}},
        workload=replace(evil().workload, name="w", notes=("n",), user_names=("u",)),
    )
    tags = Tags(made(Case.of(evil(), seed=1, variant=EVIL)))
    assert tags.count == Tags(made(Case.of(plain, seed=1))).count
    said = "".join(tags.words)
    for letter in "pwunkv":
        assert f"{letter}{EVIL}" in said


def test_a_class_without_jobs_and_a_run_without_preemptions() -> None:
    text = made(Case.of(result(Ran(end=100)), seed=1))
    assert "Slowdown of TE jobs: there is nothing to show." in text
    assert "No job was preempted." in text
    Tags(text)


@pytest.mark.parametrize("jobs", [(), (Ran(),)], ids=["no jobs", "none ended"])
def test_a_run_of_which_nothing_came(jobs: tuple[Ran, ...]) -> None:
    assert "there is nothing to show" in made(Case.of(result(*jobs), seed=1))


def test_users_beyond_the_first_twenty_are_summed() -> None:
    count = NAMED_USERS + 3
    jobs = [Ran(end=200, preempted=count - user, lost=1, user=user) for user in range(count)]
    names = [f"user{user}" for user in range(count)]
    text = made(Case.of(result(*jobs, user_names=names), seed=1))
    assert f'<th scope="row">user{NAMED_USERS - 1}</th>' in text
    assert f"user{NAMED_USERS}<" not in text
    # The last three were preempted 3, 2 and once, and lost a second each.
    assert '<th scope="row">3 others</th><td>6<small>0.00 h</small></td>' in text


def test_a_setting_that_all_share_stands_once() -> None:
    cases = [
        Case.of(result(Ran(end=100), policy=policy, settings={"backfill": False, "s": s}), seed=1)
        for policy, s in (("fifo", 1), ("fitgpp", 4))
    ]
    text = made(*cases)
    assert '<th scope="row">backfill</th><td colspan="2">False</td>' in text
    assert '<th scope="row">s</th><td>1</td><td>4</td>' in text


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "matplotlib")
    with pytest.raises(RunReportError) as caught:
        page(one_of_each())
    assert str(caught.value) == "a page with plots needs Matplotlib, which is not installed; pip install '.[plots]'"


def test_no_cases_make_no_page() -> None:
    with pytest.raises(RunReportError, match="there is no run"):
        page([])


def test_importing_the_reports_imports_neither_matplotlib_nor_scipy() -> None:
    code = (
        "import sys, tesched_sim.reports.page, tesched_sim.reports.terminal\n"
        "print([name for name in ('matplotlib', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def luminance(colour: str) -> float:
    """Return a colour's relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("behind", "colours"), [(LIGHT_PAGE, LIGHT), (DARK_PAGE, DARK)], ids=["light", "dark"])
def test_each_colour_stands_out_from_the_page(behind: str, colours: tuple[str, ...]) -> None:
    for colour in colours:
        bright, dim = sorted((luminance(colour), luminance(behind)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 3, colour


def test_no_two_of_many_policies_are_drawn_alike() -> None:
    looks = [ColumnStyle.of(index) for index in range(49)]
    assert len({(look.colour, look.dashes) for look in looks}) == 49
    assert len({(look.colour, look.mark) for look in looks}) == 49

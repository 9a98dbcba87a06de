"""What a job may say of itself, and what is made of it. Expected values are worked out by hand."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.job_report import (
    AHEAD_S,
    LONGEST_NAME,
    MOST_BYTES,
    MOST_POINTS,
    Curve,
    Reported,
    ReportError,
    accelerator_of,
    continued,
    learned,
    parse,
    parse_on,
)

from tests.builders import running, share

NOW = 1000.0


def read(points: Any = (), **more: Any) -> Reported:
    """Return what is understood of a report with these points."""
    return parse(json.dumps({"version": 1, "points": list(points), **more}).encode(), now=NOW, accelerator="v100")


def pairs(curve: Curve) -> list[tuple[int, float]]:
    return list(zip(curve.iteration.tolist(), curve.loss.tolist(), strict=True))


def test_a_whole_report_is_read() -> None:
    found = read([[0, 5.5, 10, None], [10, 4, 20.5, 3]], samples=[[20, "k80", 2.5]], workload="lstm", target_loss=0.1)
    assert pairs(found.curve) == [(0, 5.5), (10, 4.0)]
    assert found.curve.at.tolist() == [10.0, 20.5]
    assert np.isnan(found.curve.work[0])
    assert found.curve.work[1] == 3.0
    assert (found.throughputs, found.workload, found.target_loss, found.dropped) == ({"k80": 2.5}, "lstm", 0.1, 0)


def test_up_to_when_the_work_is_saved_is_a_time_in_the_past_or_not_said() -> None:
    assert read([]).saved_at is None
    assert read([], saved_at=None).saved_at is None
    assert read([], saved_at=20.5).saved_at == 20.5


@pytest.mark.parametrize("saved_at", [-1, NOW + 7200, "17", True, [1], 1e999])
def test_another_time_of_saving_says_nothing_and_the_rest_counts(saved_at: object) -> None:
    found = read([[0, 5.5, 10, None]], saved_at=saved_at)
    assert (found.saved_at, len(found.curve)) == (None, 1)


def test_no_reader_may_write_to_a_curve() -> None:
    with pytest.raises(ValueError, match="read-only"):
        read([[0, 1, 1, None]]).curve.loss[0] = 2.0


@pytest.mark.parametrize(
    ("iterations", "stays"),
    [
        ([0, 10, 20, 30, 20, 25], [0, 1, 4, 5]),
        ([5, 5, 5], [2]),
        ([3, 2, 1], [2]),
        ([1, 2, 3, 0], [3]),
        ([0, 1, 2], [0, 1, 2]),
    ],
)
def test_of_iterations_that_were_done_again_the_later_counts(iterations: list[int], stays: list[int]) -> None:
    # The loss is the place in the file.
    found = read([[iteration, place, 1, None] for place, iteration in enumerate(iterations)])
    assert found.curve.loss.tolist() == stays
    assert found.dropped == len(iterations) - len(stays)


@given(st.lists(st.integers(0, 20), max_size=30))
def test_a_curve_goes_up_ends_with_the_last_and_drops_only_what_was_overtaken(iterations: list[int]) -> None:
    curve = Curve.of([(iteration, place, 0.0, 0.0) for place, iteration in enumerate(iterations)])
    places = [int(place) for place in curve.loss]
    assert (np.diff(curve.iteration) > 0).all()
    assert places[-1:] == list(range(len(iterations)))[-1:]
    for place in set(range(len(iterations))) - set(places):
        assert min(iterations[place + 1 :]) <= iterations[place]


@pytest.mark.parametrize(
    "point",
    [
        [1, float("nan"), 1, None],
        [1, float("inf"), 1, None],
        [1, -1e101, 1, None],
        [-1, 1, 1, None],
        [2**53 + 2, 1, 1, None],
        [float("nan"), 1, 1, None],
        [None, 1, 1, None],
        [1, None, 1, None],
        [1, 1, NOW + AHEAD_S + 1, None],
        [1, 1, -1, None],
        [1, 1, None, None],
        [1, 1, 1, float("inf")],
    ],
)
def test_a_point_that_cannot_be_is_dropped_alone(point: list[float | None]) -> None:
    found = read([[0, 5, 1, None], point, [2, 3, 1, None]])
    assert pairs(found.curve) == [(0, 5.0), (2, 3.0)]
    assert found.dropped == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b'{"version": 1', "no JSON"),
        (b"[" * 60_000, "nested too deeply"),
        (b'{"version": ' + b"9" * 5000 + b"}", "no JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "its version is missing"),
        (b'{"version": 2}', "its version is 2, not 1"),
        (b'{"version": true}', "its version is True, not 1"),
        (b'{"version": "1\\n\\u001b[31m"}', r"its version is '1\\n\\x1b"),
        (b'{"version": 1, "points": {}}', "no list of"),
        (b'{"version": 1, "points": [[1, 2, 3]]}', "no list of"),
        (b'{"version": 1, "points": [[1, 2, 3, []]]}', "not of numbers"),
        (b'{"version": 1, "points": [[[0, 9, 1, 1], [1, 8, 1, 1], [2, 7, 1, 1], [3, 6, 1, 1]]]}', "not of numbers"),
        (b'{"version": 1, "points": [["1", "2", "3", null]]}', "not of numbers"),
        (b'{"version": 1, "points": [[1, true, 3, null]]}', "not of numbers"),
        (b'{"version": 1, "points": [[1, 2, 3, {}]]}', "not of numbers"),
        (b'{"version": 1, "points": [["x", 2, 3, null]]}', "not of numbers"),
        (b'{"version": 1, "points": [[1' + b"0" * 400 + b", 2, 3, null]]}", "not of numbers"),
        (b'{"version": 1, "samples": [[1, 2]]}', "its samples"),
        (b'{"version": 1, "samples": [["x", "v100", 2]]}', "no numbers"),
        (b'{"version": 1, "samples": [[1, "v100", true]]}', "no numbers"),
        (b'{"version": 1, "samples": [[1, 7, 2]]}', "its type"),
        (b'{"version": 1, "samples": [[1, "v\\n1", 2]]}', "its type"),
        (b'{"version": 1, "workload": null}', "its workload"),
        (b'{"version": 1, "workload": "\\u0000"}', "its workload"),
        (b'{"version": 1, "target_loss": NaN}', "its target_loss"),
        (b'{"version": 1, "target_loss": "low"}', "its target_loss"),
    ],
)
def test_what_is_no_report_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ReportError, match=said):
        parse(data, now=NOW)


def test_each_bound_is_met_and_not_passed() -> None:
    most = [[iteration, 1, 1, None] for iteration in range(MOST_POINTS)]
    assert len(read(most).curve) == MOST_POINTS
    with pytest.raises(ReportError, match="more than 1000 points"):
        read([*most, [MOST_POINTS, 1, 1, None]])
    assert read(workload="w" * LONGEST_NAME).workload == "w" * LONGEST_NAME
    with pytest.raises(ReportError, match="its workload"):
        read(workload="w" * (LONGEST_NAME + 1))
    whole = b'{"version": 1}'
    assert parse(whole + b" " * (MOST_BYTES - len(whole)), now=NOW) == Reported()
    with pytest.raises(ReportError, match="longer than 65536 bytes"):
        parse(whole + b" " * (MOST_BYTES - len(whole) + 1), now=NOW)
    assert len(read(samples=[[1, "a", 1]] * 32).samples) == 32
    with pytest.raises(ReportError, match="at most 32"):
        read(samples=[[1, "a", 1]] * 33)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(
    lambda value: json.dumps({"version": 1, "points": value, "samples": value}).encode()
))  # fmt: skip
def test_whatever_comes_is_a_report_or_a_refusal(data: bytes) -> None:
    with suppress(ReportError):
        found = parse(data, now=NOW)
        assert np.isfinite(found.curve.loss).all()


def test_a_throughput_is_the_moving_average_of_gavels_physical_mode() -> None:
    found = read(samples=[[1, "v100", 8], [2, "k80", 3], [3, "v100", 12], [4, "v100", 13]])
    assert found.throughputs == {"v100": 11.5, "k80": 3.0}


def test_a_sample_without_a_type_is_of_the_type_that_the_job_has() -> None:
    data = b'{"version": 1, "samples": [[1, "", 8]]}'
    assert parse(data, now=NOW, accelerator="v100").throughputs == {"v100": 8.0}
    nameless = parse(data, now=NOW)
    assert (len(nameless.samples), learned(nameless.samples)) == (1, {})


def test_a_sample_that_cannot_be_is_dropped_alone() -> None:
    samples = [[1, "a", -1], [1, "a", float("inf")], [float("nan"), "a", 1], [NOW + AHEAD_S + 1, "a", 1], [2, "a", 6]]
    assert read(samples=samples).throughputs == {"a": 6.0}


def test_the_type_of_a_job_is_the_one_that_slurm_gave_it() -> None:
    one = running(1, share("n1", 1, gres={"gpu:a100": 2}), share("n2", 1, gres={"gpu:a100": 2}))
    assert accelerator_of(one) == "a100"
    two = running(1, share("n1", 1, gres={"gpu:a100": 2}), share("n2", 1, gres={"gpu:v100": 2}))
    assert accelerator_of(two) == ""
    assert accelerator_of(running(1, share("n1", 1, gres={"gpu": 2}))) == ""
    assert accelerator_of(replace(one, allocation=())) == ""


class TestGoingOn:
    """A report that comes again with more losses."""

    @staticmethod
    def text(points: list[list[Any]], **more: Any) -> bytes:
        """Return a report as the writer writes it."""
        whole = {"version": 1, "points": points, "samples": [], "workload": "", "target_loss": None, **more}
        return json.dumps(whole, separators=(",", ":")).encode()

    @given(
        st.lists(
            st.lists(st.tuples(st.integers(0, 30), st.floats(0, 9) | st.just(math.nan)), max_size=5),
            min_size=1,
            max_size=6,
        )
    )
    def test_it_says_what_it_would_say_if_it_were_read_anew(self, batches: list[list[tuple[int, float]]]) -> None:
        points: list[list[Any]] = []
        known = None
        for batch in batches:
            points += [[iteration, loss, float(len(points)), None] for iteration, loss in batch]
            data = self.text(points, workload=f"{len(points)}")
            found, known = parse_on(data, known, now=NOW, accelerator="v100")
            anew = parse(data, now=NOW, accelerator="v100")
            np.testing.assert_array_equal(found.curve.rows, anew.curve.rows)
            assert (found.dropped, found.workload) == (anew.dropped, anew.workload)

    def test_only_what_is_new_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points = [[k, 1.0, 0.0, None] for k in range(500)]
        _, known = parse_on(self.text(points), None, now=NOW)
        lengths: list[int] = []

        def counted(data: bytes, **more: Any) -> Reported:
            lengths.append(len(data))
            return parse(data, **more)

        monkeypatch.setattr("tesched_core.model.job_report.parse", counted)
        found, known = parse_on(self.text([*points, [500, 0.5, 0.0, None]]), known, now=NOW)
        assert pairs(found.curve)[-2:] == [(499, 1.0), (500, 0.5)]
        assert len(found.curve) == 501
        # One that was thinned, or is of another writer, is read whole.
        found, known = parse_on(self.text(points[::2]), known, now=NOW)
        assert len(found.curve) == 250
        other = json.dumps({"points": points, "version": 1}).encode()
        assert parse_on(other, known, now=NOW)[1] is None
        assert [length < 150 for length in lengths] == [True, False, False]

    @pytest.mark.parametrize(
        "rest",
        [
            b',[1,2,3,4],[5]],"samples":[]}',
            b',["a",1,1,1]],"samples":[]}',
            b"]}",
            b'],"samples":7}',
            b",[[[[",
            b'],"samples":[]}}',
            b"," + b"[3,1,1,1]," * 1000 + b'[3,1,1,1]],"samples":[]}',
        ],
    )
    def test_what_follows_is_checked_as_ever(self, rest: bytes) -> None:
        good = self.text([[k, 1.0, 0.0, None] for k in range(3)])
        _, known = parse_on(good, None, now=NOW)
        data = good[: good.index(b']],"samples"') + 1] + rest
        with suppress(ReportError):
            anew = parse(data, now=NOW)
            assert len(parse_on(data, known, now=NOW)[0].curve) == len(anew.curve)
            return
        with pytest.raises(ReportError):
            parse_on(data, known, now=NOW)

    def test_a_curve_goes_on_with_another_one_that_overtakes_it(self) -> None:
        first = read([[k, 9.0 - k, k, 2] for k in range(5)]).curve
        then = read([[3, 1.5, 7, None], [4, 1.25, 8, None]]).curve
        assert pairs(continued(first, then)) == [(0, 9.0), (1, 8.0), (2, 7.0), (3, 1.5), (4, 1.25)]
        assert pairs(continued(then, first)) == pairs(first)
        assert pairs(continued(first, read().curve)) == pairs(first)
        long = continued(read([[k, 1, 0, None] for k in range(1000)]).curve, read([[1000, 1, 0, None]]).curve)
        assert (len(long), long.iteration[0], long.iteration[-1]) == (MOST_POINTS, 0, 1000)

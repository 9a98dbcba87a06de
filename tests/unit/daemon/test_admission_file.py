"""The admission file: when it is written, what it says, and that it is gone when nothing is to be held."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule, UserWord
from tesched_core.model.decision import Admission, SubmittedTe
from tesched_core.model.snapshot import JobClass
from tesched_daemon.admission_file import HOLDS_S, AdmissionFile, text_of
from tesched_daemon.admission_rules import UNKNOWN, lines_of, pattern_of

NOW = 1000.0
RULES = Classification(rules=(Rule(name="d", job_class=JobClass.TE, match=Match(partitions=("debug",))),))


@pytest.fixture
def file(tmp_path: Path) -> AdmissionFile:
    """Give a file that was written at `NOW`, and lets TE jobs start for 100 s."""
    file = AdmissionFile(path=tmp_path / "admission")
    assert is_written(file, until=NOW + 100)
    return file


def is_written(
    file: AdmissionFile,
    *,
    until: float,
    now: float = NOW,
    most_s: float = 60.0,
    classes: Classification = RULES,
    longest_wait_s: float = 200.0,
) -> bool:
    """Let the file say this, and return whether it was written anew."""
    before = file.path.stat().st_ino if file.path.exists() else None
    admission = Admission(until=until, most_s=most_s)
    file.follow(admission, classes, now=now, longest_wait_s=longest_wait_s)
    return file.path.stat().st_ino != before


def test_it_says_until_when_which_jobs_may_start_and_which_may_be_te(file: AdmissionFile) -> None:
    assert file.path.read_text() == (
        "tesched-admission 1\n"
        f"valid {NOW + HOLDS_S + 400:.3f}\nuntil 1100.000\nmost 60.000\n"
        "default be\nsay be\nrule te\npartitions =debug\nend\n"
    )
    assert oct(file.path.stat().st_mode & 0o777) == "0o644"


def test_changes_are_left_alone_of_the_users_known_when_it_is_written(file: AdmissionFile) -> None:
    known: set[int] = set()
    file.uids = lambda: known
    assert is_written(file, until=NOW + 100, most_s=61.0)
    assert "uid " not in file.path.read_text()
    known.add(64030)
    assert is_written(file, until=NOW + 100, most_s=62.0)
    assert "uid 64030\n" in file.path.read_text()


def test_it_says_how_many_each_user_has_in_the_queue_and_when_they_were_counted(file: AdmissionFile) -> None:
    count = SubmittedTe(most=2, by_user={"ada": 1, "bob b": 3})
    admission = Admission(until=inf, most_s=inf, submitted=count)
    file.follow(admission, Classification(), now=NOW + 1, longest_wait_s=200.0)
    assert file.path.read_text() == (
        f"tesched-admission 1\nvalid {NOW + 1 + HOLDS_S + 400:.3f}\nopen\n"
        "submitted_most 2\ncounted 1001.000000\nsubmitted bob%20b 3\nsubmitted ada 1\n"
        "default be\nsay be\nend\n"
    )
    # The hook adds those that have come since: each poll says anew until when they were counted.
    before = file.path.stat().st_ino
    file.follow(admission, Classification(), now=NOW + 2, longest_wait_s=200.0)
    assert file.path.stat().st_ino != before


@pytest.mark.parametrize("text", ["SQLite format 3", "SlurmctldHost=here\n", "tesched"])
def test_another_file_is_neither_written_nor_removed(tmp_path: Path, text: str) -> None:
    file = AdmissionFile(path=tmp_path / "store")
    file.path.write_text(text)
    file.withdraw()
    assert file.failure == (
        f"the admission file cannot be removed: {file.path}: it is another file, which is left; name another path "
        "(slurm.admission)"
    )
    assert not is_written(file, until=NOW + 100)
    assert file.path.read_text() == text
    assert "cannot be written" in file.failure


def test_one_that_an_earlier_process_has_left_is_removed(file: AdmissionFile) -> None:
    later = AdmissionFile(path=file.path)
    later.withdraw()
    assert (later.failure, file.path.exists()) == ("", False)


def test_it_is_written_anew_after_a_quarter_of_its_window(file: AdmissionFile) -> None:
    assert not is_written(file, until=NOW + 124, now=NOW + 24)
    assert is_written(file, until=NOW + 125, now=NOW + 25)


def test_it_is_written_anew_after_a_quarter_of_the_time_for_which_it_holds(file: AdmissionFile) -> None:
    quarter_s = (HOLDS_S + 400) / 4
    assert is_written(file, until=NOW - 5, now=NOW + 1)
    assert not is_written(file, until=NOW - 5, now=NOW + quarter_s)
    assert is_written(file, until=NOW - 5, now=NOW + 1 + quarter_s)


@pytest.mark.parametrize(
    "change",
    [
        {"until": NOW + 99},
        {"until": NOW - 1},
        {"until": NOW + 100, "most_s": 30.0},
        {"until": NOW + 100, "classes": Classification(default_class=JobClass.TE)},
        {"until": NOW + 100, "longest_wait_s": 1.0},
    ],
    ids=["sooner", "closed", "shorter jobs", "other rules", "a faster pace"],
)
def test_it_is_written_anew_as_soon_as_it_says_too_much(file: AdmissionFile, change: dict[str, float]) -> None:
    assert is_written(file, now=NOW + 1, **change)  # type: ignore[arg-type]


def test_of_a_window_that_is_closed_the_time_does_not_matter(file: AdmissionFile) -> None:
    assert is_written(file, until=NOW - 10, now=NOW + 1)
    assert not is_written(file, until=NOW - 20, now=NOW + 2)
    assert not is_written(file, until=NOW, now=NOW + 3)
    assert is_written(file, until=NOW + 5, now=NOW + 4)


@pytest.mark.parametrize("does", ["removes", "replaces"])
def test_what_another_process_does_to_it_is_put_right(file: AdmissionFile, does: str) -> None:
    file.path.unlink()
    if does == "replaces":
        file.path.write_text("tesched-admission 1\n")
    is_written(file, until=NOW + 100, now=NOW + 1)
    assert file.path.read_text().endswith("end\n")


def test_no_file_stays_without_a_bound_whichever_program_wrote_it(file: AdmissionFile) -> None:
    other = AdmissionFile(path=file.path)
    other.leave()
    assert file.path.exists(), "it is another daemon's"
    other.follow(None, RULES, now=NOW, longest_wait_s=1.0)
    assert not file.path.exists()
    assert not other.failure


def test_it_is_removed_when_its_daemon_ends(file: AdmissionFile) -> None:
    file.leave()
    assert not file.path.exists()
    file.leave()


def test_a_failure_is_reported_until_it_can_be_written(tmp_path: Path) -> None:
    file = AdmissionFile(path=tmp_path / "none" / "admission")
    file.follow(Admission(until=NOW, most_s=60.0), RULES, now=NOW, longest_wait_s=1.0)
    assert file.failure == f"the admission file cannot be written: {file.path}: No such file or directory"
    file.path.parent.mkdir()
    assert is_written(file, until=NOW, now=NOW + 1)
    assert not file.failure


def test_rules_that_are_too_long_count_as_met_and_that_is_reported(file: AdmissionFile) -> None:
    few, many = Match(users=("a",)), Match(users=tuple(f"user{at:05}" for at in range(25_000)))
    rules = (
        Rule(name="be", job_class=JobClass.BE, match=few),
        Rule(name="te", job_class=JobClass.TE, match=many),
    )
    assert is_written(file, until=NOW + 100, classes=Classification(rules=rules))
    assert file.path.read_text().endswith("rule be\nusers =a\nrule te\nusers ?\nend\n")
    assert "counts 1 of their conditions as met" in file.failure
    assert not is_written(file, until=NOW + 100, now=NOW + 1, classes=Classification(rules=rules))
    assert file.failure
    assert is_written(file, until=NOW + 100, now=NOW + 2)
    assert not file.failure


def test_rules_without_end_are_reported_and_not_written(file: AdmissionFile) -> None:
    rules = tuple(Rule(name=f"{at}", job_class=JobClass.TE, match=Match(users=("a",))) for at in range(10_000))
    assert not is_written(file, until=NOW + 100, now=NOW + 1, classes=Classification(rules=rules))
    assert file.failure.endswith("the rules are longer than the 65536 bytes that the file may have")


def test_a_path_that_names_no_file_is_reported() -> None:
    file = AdmissionFile(path=Path("/"))
    file.follow(Admission(until=NOW, most_s=60.0), RULES, now=NOW, longest_wait_s=1.0)
    assert file.failure.startswith("the admission file cannot be written: /: ")


def test_a_file_that_cannot_be_removed_is_reported(tmp_path: Path) -> None:
    file = AdmissionFile(path=tmp_path / "admission")
    file.path.mkdir()
    file.withdraw()
    assert file.failure.startswith("the admission file cannot be removed: ")


def test_rules_behind_the_last_one_for_te_jobs_are_left_out() -> None:
    rules = tuple(
        Rule(name=name, job_class=job_class, match=Match(names=(name,)))
        for name, job_class in (("a", JobClass.EXEMPT), ("b", JobClass.TE), ("c", JobClass.BE))
    )
    assert [*lines_of(Classification(rules=rules, user_word=UserWord(may_say_be=False)))] == [
        "default be",
        "rule exempt",
        "names =a",
        "rule te",
        "names =b",
    ]
    assert "rule be" in [*lines_of(Classification(rules=rules, default_class=JobClass.TE))]


def test_conditions_are_written_with_their_bounds() -> None:
    match = Match(qos=("a b", "c*"), interactive=False, min_time_limit_s=5, max_nodes=2, min_gpus=1, max_gpus=4)
    classes = Classification(user_word=UserWord(may_say_te=True, within=match))
    assert [*lines_of(classes)][2:] == [
        "say te",
        "qos =a%20b =c*".replace("%20", "%25%20"),
        "interactive no",
        "time_limit_s 5 -",
        "nodes - 2",
        "gpus 1 4",
    ]


def as_python(pattern: str) -> re.Pattern[bytes]:
    """Return the hook's reading of a pattern, as a regular expression of bytes."""
    pieces = [unquote_to_bytes(piece) for piece in pattern[1:].split("*")]
    # Lua escapes by %, and in these sets nothing but letters, digits, "_" and "." stands.
    return re.compile(b"(?s:.*)".join(re.sub(rb"%(.)", lambda it: re.escape(it[1]), one) for one in pieces), re.DOTALL)


@pytest.mark.parametrize(
    "glob",
    ["", "*", "debug", "d*g", "**", "a?c", "[a-c]x", "[!a-c]x", "[", "[]", "a-b", "50%", "ä*", "?ä", "[0-9_.]*", "a]"],
)
def test_a_glob_means_to_the_hook_what_it_means_here(glob: str) -> None:
    texts = [
        "",
        "debug",
        "dg",
        "dxxg",
        "abc",
        "aäc",
        "ac",
        "ax",
        "dx",
        "äx",
        "[",
        "[]",
        "a-b",
        "50%",
        "ä",
        "ää",
        "1._",
        "a]",
    ]
    pattern = as_python(pattern_of(glob))
    for text in texts:
        assert (pattern.fullmatch(text.encode()) is not None) is fnmatchcase(text, glob), text


@pytest.mark.parametrize("glob", ["[%]", "[ä]", "[!-~]", "[]]", "[z-a]", "a\0b"])
def test_a_glob_that_lua_can_not_match_is_unknown(glob: str) -> None:
    assert pattern_of(glob) == UNKNOWN


def test_its_text_is_ascii_whatever_stands_in_the_rules() -> None:
    rules = (Rule(name="r", job_class=JobClass.TE, match=Match(comments=("é\n x*",))),)
    text = text_of(Admission(until=NOW, most_s=60.0), Classification(rules=rules), NOW)
    assert text.isascii()
    assert "comments =%C3%A9%25%0A%25%20x*\n" in text

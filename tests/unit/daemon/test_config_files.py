"""conf.d: which files are read, in which order, what becomes of values given twice, and which file is blamed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config, load, load_files
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.settings import Mode


def site(folder: Path, main: str, **drop_ins: str) -> Path:
    """Write a main file and, by their names without .toml, those of conf.d; return the main file."""
    (folder / "conf.d").mkdir()
    path = folder / "tesched.toml"
    path.write_text(main)
    for name, text in drop_ins.items():
        (folder / "conf.d" / f"{name}.toml").write_text(text)
    return path


def test_files_are_read_by_name_after_the_main_file_and_the_later_value_stays(tmp_path: Path) -> None:
    path = site(
        tmp_path,
        "mode = 'enforce'\n[guard]\ncool_down_s = 1\nmin_run_time_s = 1",
        b="[guard]\ncool_down_s = 3",
        a="[guard]\ncool_down_s = 2\nretry_after_s = 2",
    )
    loaded = load_files(path)
    guard = loaded.config.guard
    assert (guard.min_run_time_s, guard.retry_after_s, guard.cool_down_s) == (1, 2, 3)
    assert loaded.tree.origins == {
        "mode": str(path),
        "guard.min_run_time_s": str(path),
        "guard.retry_after_s": str(tmp_path / "conf.d" / "a.toml"),
        "guard.cool_down_s": str(tmp_path / "conf.d" / "b.toml"),
    }
    assert loaded.tree.files == (str(path), *(str(tmp_path / "conf.d" / name) for name in ("a.toml", "b.toml")))


def test_a_list_takes_the_place_of_a_list_and_a_table_below_is_merged(tmp_path: Path) -> None:
    path = site(
        tmp_path,
        """
        [guard]
        protected_users = ["a", "b"]
        [[classes.rules]]
        name = "one"
        job_class = "te"
        [[classes.rules]]
        name = "two"
        job_class = "te"
        [classes.user_word]
        may_say_te = true
        within = { max_gpus = 1, max_nodes = 1 }
        """,
        x="""
        [guard]
        protected_users = ["c"]
        [[classes.rules]]
        name = "three"
        job_class = "exempt"
        [classes.user_word.within]
        max_gpus = 4
        """,
    )
    config = load(path)
    assert config.guard.protected_users == ("c",)
    assert [(rule.name, rule.job_class) for rule in config.classes.rules] == [("three", JobClass.EXEMPT)]
    word = config.classes.user_word
    assert (word.may_say_te, word.within.max_gpus, word.within.max_nodes) == (True, 4, 1)


def test_only_toml_files_that_are_not_hidden_are_read(tmp_path: Path) -> None:
    path = site(tmp_path, "")
    for name in ("a.toml.rpmsave", ".b.toml", "README"):
        (tmp_path / "conf.d" / name).write_text("this is no TOML")
    assert load(path) == Config()


def test_values_that_go_together_in_the_end_may_come_from_two_files(tmp_path: Path) -> None:
    # Alone, each of the two would be wrong: the default of the other key does not go with it.
    path = site(tmp_path, "[loop]\nbackoff_max_s = 90", x="[loop]\npoll_interval_s = 60")
    assert load(path).loop.poll_interval_s == 60


@pytest.mark.parametrize(
    ("main", "drop_in", "blamed", "said"),
    [
        ("[guard]\ncool_down_s = 1", "[guard]\ncool_down_s = -1", "x", "guard.cool_down_s: must be a number"),
        ("[guard]\ncool_down_s = 'x'", "[guard]\nretry_after_s = 1", "main", "guard.cool_down_s: must be a number"),
        ("[guard]\ncool_down_s = 1", "guard = 1", "x", "guard: must be a table"),
        ("[guard]\nmood = 1", "guard = {}", "main", "guard.mood: unknown key"),
        ("mode = 'shadow'", "mood = 'shadow'", "x", "mood: unknown key"),
        ("mode = 'shadow'", "mode = ", "x", "not valid TOML: line 1 (mode)"),
        ("", "[[classes.rules]]\nname = 'a'", "x", "classes.rules[0]: lacks the key job_class"),
        ("[[classes.rules]]\nname = 'a'", "[classes]\ndefault_class = 'te'", "main", "classes.rules[0]: lacks"),
        # The fault is the second file's, the wrong value then the first's, or a default.
        ("[loop]\nbackoff_max_s = 9", "[loop]\npoll_interval_s = 60", "main", "poll_interval_s is set in {x}"),
        ("", "[loop]\npoll_interval_s = 60", "x", "loop.backoff_max_s: must be between poll_interval_s and 3600"),
    ],
)
def test_an_error_names_the_file_that_has_it(tmp_path: Path, main: str, drop_in: str, blamed: str, said: str) -> None:
    path = site(tmp_path, main, x=drop_in)
    files = {"main": path, "x": tmp_path / "conf.d" / "x.toml"}
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{files[blamed]}: ")
    assert said.format(**files) in str(caught.value)


def test_a_conf_d_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"
    path.touch()
    (tmp_path / "conf.d").touch()
    with pytest.raises(ConfigError, match=r"conf\.d: must be a folder"):
        load(path)


def test_a_pipe_that_is_named_is_read(tmp_path: Path) -> None:
    end, start = os.pipe()
    try:
        os.write(start, b"mode = 'shadow'\n")
        os.close(start)
        assert load(Path(f"/dev/fd/{end}")).mode is Mode.SHADOW
    finally:
        os.close(end)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=("mode = 'enforce'\n",), daemon=True)
    writer.start()
    assert load(fifo).mode is Mode.ENFORCE
    writer.join()
    assert load_files(Path("/dev/null")).tree.values == {}


def test_what_never_ends_is_read_so_far_and_no_further() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: must have 16 MiB at most"):
        load(Path("/dev/zero"))


def test_a_pipe_is_waited_for_neither_beside_a_file_nor_at_a_reload(tmp_path: Path) -> None:
    main = site(tmp_path, "mode = 'shadow'")
    drop_in = tmp_path / "conf.d" / "a.toml"
    os.mkfifo(drop_in)
    with pytest.raises(ConfigError, match=r"a\.toml: must be a file"):
        load(main)
    with pytest.raises(ConfigError, match=r"a\.toml: must be a file"):
        load_files(drop_in, waits=False)

"""`tesched jobs` and `tesched orders` have squeue's habits: columns, order, users, and lines that fit a terminal."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.common import clock
from tesched_cli.main import main
from tesched_core.model.cluster import JobState, Request
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, moved, order, remembering, victim

ME = pwd.getpwuid(os.getuid()).pw_name
LONG = "a_name_that_is_far_too_long_for_a_column"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store with four jobs of three users, two orders, of which one is of jobs of `ME` alone."""
    path, url = configured_store(tmp_path_factory.mktemp("columns"))
    engine = open_store(url)
    running = job(2, JobState.RUNNING, nodes=("n1", "n2"), user="bob", name=LONG, start_time=100.0, time_limit_s=600)
    jobs = [
        replace(job(1, user="ada", nice=50, reason="Priority", partitions=("debug",)), request=Request(cpus=4)),
        replace(running, partitions=("a-very-long-partition",), request=Request(cpus=16)),
        replace(job(3, user="ada", reason="Resources", nice=-3, partitions=("debug", "main")), request=Request(cpus=9)),
        replace(job(4, user=ME, reason="Dependency", partitions=("main",)), request=Request(cpus=1)),
    ]
    open_one = order(1, 1, victim(2, VictimState.NOTICED, noticed_at=205.0))
    mine = order(2, 4, state=OrderState.OPEN, ending=Ending.EXPIRED, ended_at=300.0)
    writer = Writer(engine)
    steps = [moved(1, 210.0, "planned", "noticed", 2), moved(2, 210.0, "", "open")]
    writer.look(220.0, *jobs, te=[1, 4], memory=remembering(open_one, mine), transitions=steps)
    engine.dispose()
    return path


def ask(config: Path, *argv: str, columns: int | None = None, **variables: str) -> Result:
    environment = {"COLUMNS": None if columns is None else str(columns), "NO_COLOR": "1", **variables}
    return CliRunner(env=environment).invoke(main, [*argv, "--config", str(config)])


def lines(config: Path, *argv: str, columns: int | None = None, **variables: str) -> list[str]:
    answer = ask(config, *argv, columns=columns, **variables)
    assert answer.exit_code == 0, answer.output
    return answer.output.splitlines()


class TestColumns:
    """-o, -O, --noheader, TESCHED_FORMAT."""

    def test_letters_are_squeues_with_its_widths_and_texts(self, config: Path) -> None:
        assert lines(config, "jobs", "-o", "%.6i %.9P|%6j|%u/%C") == [
            " JOBID PARTITION|NAME  |USER/CPUS",
            "     1     debug|run   |ada/4",
            "     2 a-very-lo|a_name|bob/16",
            "     3 debug,mai|run   |ada/9",
            f"     4      main|run   |{ME}/1",
        ]

    def test_names_are_squeues_and_our_own(self, config: Path) -> None:
        wanted = [
            "JOBID USER CLASS CPUS PARTI",
            "1     ada  TE       4 debug",
            "2     bob  BE      16 a-ver",
            "3     ada  BE       9 debug",
            f"4     {ME[:4]:<4} TE       1 main",
        ]
        assert lines(config, "jobs", "-O", "jobid,username:4,Class,numcpus,partition:5") == wanted
        assert lines(config, "jobs", "--format=jobid,user:4,class,cpus,partition:5") == wanted

    def test_no_line_of_headings(self, config: Path) -> None:
        assert lines(config, "jobs", "--noheader", "-o", "%i") == ["1", "2", "3", "4"]
        assert lines(config, "jobs", "--noheader")[0].startswith("1 ")

    def test_h_is_help_here(self, config: Path) -> None:
        said = " ".join(ask(config, "jobs", "-h").output.split())
        assert "squeue's -h: here -h is --help" in said

    def test_the_environment_gives_the_usual_columns(self, config: Path) -> None:
        assert lines(config, "jobs", TESCHED_FORMAT="%i %t")[:3] == ["JOBID ST", "1 PD", "2 R"]
        assert lines(config, "jobs", "-o", "%i", TESCHED_FORMAT="%i %t")[1] == "1"
        assert "EXPECTED" in lines(config, "jobs", "--mine", TESCHED_FORMAT="%i %t")[0], "that is another table"
        assert lines(config, "jobs", "--mine", "-o", "%i %u") == ["JOBID USER", f"4 {ME}"]

    @pytest.mark.parametrize("command", ["jobs", "orders"])
    @pytest.mark.parametrize(
        ("argv", "word"),
        [
            (("-o", "%i %X"), "%X"),
            (("-o", "%i %"), "%"),
            (("-O", "jobid,colour"), "colour"),
            (("-O", ""), ""),
            (("-O", "jobid,,user"), ""),
            (("-O", "jobid:x"), "jobid:x"),
            (("-S", "colour"), "colour"),
            (("-S", "-"), ""),
            (("-S", "Y"), "Y"),
        ],
    )
    def test_a_bad_field_is_named_with_the_right_ones(
        self, config: Path, command: str, argv: tuple[str, str], word: str
    ) -> None:
        answer = ask(config, command, *argv)
        assert answer.exit_code == 2
        said = " ".join(answer.output.split())
        assert f"{word!r} is no field; right are " in said
        assert "jobid (%i)" in said
        assert argv[0] in said
        assert "Traceback" not in said

    @pytest.mark.parametrize("text", ["%0i", "%99999i", "jobid:0"])
    def test_a_width_that_is_none_is_named(self, config: Path, text: str) -> None:
        answer = ask(config, "jobs", "-o", text)
        assert answer.exit_code == 2
        assert f"{text!r}: a width must be from 1 to 10000" in " ".join(answer.output.split())

    def test_the_environments_fault_is_named_as_such(self, config: Path) -> None:
        answer = ask(config, "jobs", TESCHED_FORMAT="%i %X")
        assert answer.exit_code == 2
        assert "TESCHED_FORMAT" in answer.output

    @pytest.mark.parametrize("argv", [("--json",), ("--mine",), ("--mine", "--json")])
    def test_the_environment_is_not_read_where_its_columns_are_not_shown(
        self, config: Path, argv: tuple[str, ...]
    ) -> None:
        assert ask(config, "jobs", *argv, TESCHED_FORMAT="%i %X").exit_code == 0
        assert ask(config, "jobs", *argv, "--format=%X").exit_code == 2, "asked for by name it counts"

    @pytest.mark.parametrize("argv", [("orders",), ("orders", "--mine"), ("jobs",), ("jobs", "--mine")])
    def test_an_empty_list_without_headings_is_empty(self, tmp_path: Path, argv: tuple[str, ...]) -> None:
        path, _ = configured_store(tmp_path)
        assert ask(path, *argv).output != ""
        assert lines(path, *argv, "--noheader") == []

    def test_json_is_what_it_was(self, config: Path) -> None:
        plain = json.loads(ask(config, "jobs", "--json").output)["jobs"]
        more = ("--json", "-o", "%i", "-S", "-i", "--noheader")
        assert json.loads(ask(config, "jobs", *more).output)["jobs"] == plain
        assert [one["label"] for one in plain] == ["1", "2", "3", "4"]


class TestOrder:
    """-S."""

    @pytest.mark.parametrize(
        ("sort", "ids"),
        [
            ("-i", "4321"),
            ("u,-i", "".join(str(-number) for _, number in sorted([("ada", -3), ("ada", -1), ("bob", -2), (ME, -4)]))),
            ("-C", "2314"),
            ("+cpus", "4132"),
            ("y", "3241"),
            ("partition,jobid", "2134"),
            ("-timelimit", "2134"),
            ("timelimit", "2134"),
        ],
    )
    def test_rows_come_in_the_requested_order(self, config: Path, sort: str, ids: str) -> None:
        assert "".join(lines(config, "jobs", "--noheader", "-o", "%i", "-S", sort)) == ids

    def test_orders_are_sorted_by_their_own_keys(self, config: Path) -> None:
        assert lines(config, "orders", "-O", "order,jobid,user:4,state,victims,ended", "-S", "-order")[:2] == [
            "ORDER JOBID USER STATE   VICTIMS ENDED",
            f"    2 4     {ME[:4]:<4} expired         {clock(300)}",
        ]
        heads = [line for line in lines(config, "orders", "--sort=-V,-order") if line.startswith("order")]
        assert [line.split()[1] for line in heads] == ["2", "1"]

    def test_json_has_the_oldest_first_of_the_newest_so_many_as_its_schema_says(self, config: Path) -> None:
        def ids(*argv: str) -> list[int]:
            found = json.loads(ask(config, "orders", "--json", *argv).stdout)["orders"]
            return [one["order"]["order_id"] for one in found]

        assert (ids(), ids("-n", "1")) == ([1, 2], [2])
        schema = json.loads(CliRunner().invoke(main, ["schema", "orders"]).stdout)
        assert "the oldest first" in schema["description"]


class TestUsers:
    """-u and --mine."""

    def test_several_users_are_named_with_commas(self, config: Path) -> None:
        assert lines(config, "jobs", "--noheader", "-o", "%i", "-u", "ada,bob") == ["1", "2", "3"]
        assert lines(config, "jobs", "--noheader", "-o", "%i", "--user=bob") == ["2"]
        assert lines(config, "jobs", "--noheader", "-o", "%i", "-p", "debug") == ["1", "3"]
        assert ask(config, "jobs", "-u", ",").exit_code == 2

    def test_orders_of_a_user_are_those_with_a_job_as_te_job_or_victim(self, config: Path) -> None:
        def ids(*argv: str) -> list[str]:
            return [line.strip() for line in lines(config, "orders", "--noheader", "-O", "order", *argv)]

        assert ids() == ["1", "2"]
        assert ids("-u", "ada") == ["1"]
        assert ids("-u", "bob") == ["1"]
        assert ids("--mine") == ids("--me") == ["2"]
        assert ids("-u", f"bob,{ME}") == ["1", "2"]
        assert ids("-u", "daemon") == []
        assert ask(config, "orders", "-u", "ada", "--mine").exit_code == 2

    @pytest.mark.parametrize("command", ["jobs", "orders"])
    def test_a_user_that_neither_the_system_nor_a_job_knows_is_refused(self, config: Path, command: str) -> None:
        said = ask(config, command, "-u", "ada,nouser,4294967000")
        assert (said.exit_code, said.stdout) == (2, "")
        assert said.stderr.startswith("Error: Invalid user: 4294967000, nouser; ")
        assert ask(config, command, "-u", "nouser", "--json").exit_code == 2

    def test_a_user_may_be_named_by_its_id(self, config: Path) -> None:
        mine = lines(config, "jobs", "--noheader", "-o", "%i", "-u", ME)
        assert mine == lines(config, "jobs", "--noheader", "-o", "%i", "-u", str(os.getuid()))
        assert mine

    def test_the_limit_counts_orders_of_those_users(self, config: Path) -> None:
        assert lines(config, "orders", "--noheader", "-o", "%i", "-n", "1", "-u", "ada") == ["1"]


class TestWidth:
    """No word is broken on a terminal, and nothing is cut in a pipe."""

    @pytest.mark.parametrize("columns", [60, 80, 100, 140])
    def test_each_job_has_one_line_that_fits(self, config: Path, columns: int) -> None:
        shown = lines(config, "jobs", columns=columns)
        assert len(shown) == 5
        assert max(map(len, shown)) <= columns
        header = shown[0].split()
        assert {"JOBID", "CLASS", "NAME", "USER", "ST", "TIME", "WHERE"} <= set(header)
        pending = next(line for line in shown if line.startswith("3 "))
        assert pending.endswith(("(Resources)", ".."))

    def test_what_is_less_important_is_left_out_first(self, config: Path) -> None:
        def left_out(columns: int) -> set[str]:
            return set(lines(config, "jobs")[0].split()) - set(lines(config, "jobs", columns=columns)[0].split())

        assert left_out(140) == set()
        assert "NICE" in left_out(80)
        assert "RULE" not in left_out(80)

    def test_own_jobs_have_a_line_each_and_on_a_narrow_terminal_one_on_what_comes_next(self, tmp_path: Path) -> None:
        path, url = configured_store(tmp_path)
        engine = open_store(url)
        Writer(engine).look(220.0, job(1, JobState.RUNNING, nodes=("n1",), user=ME, name=LONG, start_time=100.0))
        engine.dispose()
        header, one = lines(path, "jobs", "--mine")
        assert header.endswith("EXPECTED")
        assert one.endswith("may be preempted 16 time(s)")
        header, one, what_next = lines(path, "jobs", "--mine", columns=60)
        assert max(len(header), len(one)) <= 60
        assert "EXPECTED" not in header
        assert what_next == "job 1 may be preempted 16 time(s)"
        assert len(lines(path, "jobs", "--mine", "--noheader")) == 1

    def test_requested_columns_are_all_there_on_a_narrow_terminal(self, config: Path) -> None:
        assert lines(config, "jobs", "-O", "jobid,name,partition,nice,gpus", columns=40)[0].split() == [
            *("JOBID", "NAME", "PARTITION", "NICE", "GPUS")
        ]

    def test_in_a_pipe_nothing_is_left_out_or_cut(self, config: Path) -> None:
        assert lines(config, "jobs", "-O", "jobid,name")[2] == f"2     {LONG}"
        assert len(lines(config, "jobs")[0].split()) == 12

    @pytest.mark.parametrize("columns", [60, 80])
    def test_steps_of_orders_are_broken_between_words(self, config: Path, columns: int) -> None:
        whole = " ".join(" ".join(lines(config, "orders")).split())
        assert " ".join(" ".join(lines(config, "orders", columns=columns)).split()) == whole

    @pytest.mark.parametrize("text", ["0", "-5", "", "abc", "\u00b2"])
    @pytest.mark.parametrize(
        "argv", [("jobs",), ("jobs", "--mine"), ("orders",), ("explain", "2"), ("status",)], ids=" ".join
    )
    def test_columns_that_are_no_positive_number_count_for_nothing(
        self, config: Path, argv: tuple[str, ...], text: str
    ) -> None:
        def shown(**columns: str | None) -> str:
            said = CliRunner(env={"NO_COLOR": "1", **columns}).invoke(main, [*argv, "--config", str(config)]).output
            return re.sub(r"\d+", "0", said)  # ages go on

        assert shown(COLUMNS=text) == shown(COLUMNS=None) != ""

    def test_wide_letters_count_as_two(self, tmp_path: Path) -> None:
        path, url = configured_store(tmp_path)
        engine = open_store(url)
        Writer(engine).look(220.0, job(1, name="訓練" * 9, user="ada"), job(2, name="x", user="ada"))
        engine.dispose()
        first, second = lines(path, "jobs", "--noheader", "-O", "name:9,user")
        assert (first, second) == ("訓練訓練  ada", "x         ada")


TESCHED = Path(sys.executable).parent / "tesched"
_IN_BASH = """
eval "$(_TESCHED_COMPLETE=bash_source tesched)"
COMP_WORDS=(tesched {words}); COMP_CWORD={place}
_tesched_completion tesched
echo "${{COMPREPLY[@]}}"
"""


class TestCompletion:
    """The lines of docs/howto/installation.md."""

    @staticmethod
    def run(*argv: str, **variables: str) -> str:
        environment = {"PATH": f"{TESCHED.parent}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", **variables}
        return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout

    @pytest.mark.parametrize(
        ("words", "place", "found"),
        [("jo", 1, "jobs"), ("jobs --no", 2, "--noheader"), ("orders --mi", 2, "--mine"), ("jobs --class t", 3, "te")],
    )
    def test_bash_completes_commands_options_and_values(self, words: str, place: int, found: str) -> None:
        assert self.run("/bin/bash", "-c", _IN_BASH.format(words=words, place=place)).split() == [found]

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_what_the_other_shells_read_is_there(self, shell: str) -> None:
        assert "_TESCHED_COMPLETE" in self.run(str(TESCHED), _TESCHED_COMPLETE=f"{shell}_source")
        words = {"zsh": {"COMP_WORDS": "tesched exp", "COMP_CWORD": "1"}, "fish": {"COMP_WORDS": "tesched exp"}}[shell]
        more = {"COMP_CWORD": "exp"} if shell == "fish" else {}
        said = self.run(str(TESCHED), _TESCHED_COMPLETE=f"{shell}_complete", **words, **more)
        assert re.search(r"\bexplain\b", said)

    def test_the_lines_are_in_the_documents(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "howto" / "installation.md").read_text()
        for shell in ("bash", "zsh", "fish"):
            assert f"_TESCHED_COMPLETE={shell}_source tesched" in page

"""Checks of a configuration beyond its form: the files at its paths, and what it asks for and cannot have.

Made where a daemon's configuration is taken: at its start, at a reload,
by `tesched config check` and `tesched doctor`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tesched_core.model.extra import Extra
from tesched_core.model.limits import YieldBy
from tesched_core.model.snapshot import JobClass
from tesched_db.engine import DRIVER, parse_url
from tesched_slurm.client_choice import ClientChoice

from tesched_daemon import admission_file, marks_file
from tesched_daemon.bounded_read import bounded_read
from tesched_daemon.config import Config, Loaded
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.early_fit import Hindrance, advice, hindrances, said
from tesched_daemon.file_systems import served_by
from tesched_daemon.hook_fit import MARKS_ALONE, keys_of
from tesched_daemon.job_reports.address import address_of, is_loopback
from tesched_daemon.own_file import kind_of, new_beside, obstacle
from tesched_daemon.settings import Mode, Pace

#: the first words of the files that the daemon writes, by key of [slurm]
_WORDS = {"marks": marks_file.WORD, "admission": admission_file.WORD}
#: what to do about a slurm.conf that is not there
CONF_ADVICE = "name the site's file, or leave the key out if Slurm finds it"
_MAKE_PROGRAM = "name a program that is there and executable, and its arguments"
#: the unit's RuntimeDirectory (systemd/tesched.service)
_RUNTIME = Path(Pace().socket).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A key that does not do what it seems to do."""

    #: the file that says so
    file: str
    key: str
    #: what is so, and what follows
    text: str
    #: what would be right
    advice: str

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.file}: {self.key}: {self.text}; {self.advice}"


def refuse(loaded: Loaded) -> None:
    """Raise ConfigError for what no daemon can run on."""
    if found := [*complaints(loaded)]:
        raise ConfigError(found[0], found[1:])


def complaints(loaded: Loaded) -> Iterator[str]:
    """Yield what no daemon can run on."""
    yield from _missing_packages(loaded)
    yield from _other_files(loaded)
    yield from _missing_folders(loaded)


def _missing_folders(loaded: Loaded) -> Iterator[str]:
    """Yield the sockets that no folder could have, or in whose place another file stands.

    The unit's own folder in /run is there while the service runs. What this user may not see is left to the daemon.
    """
    for key, text in (
        ("metrics.listen", loaded.config.metrics.listen),
        ("reports.socket", loaded.config.reports.socket),
    ):
        where = address_of(text) if text else None
        if not isinstance(where, Path) or where.parent == _RUNTIME:
            continue
        if why := _no_place_for(where):
            name = where.name
            right = f'name a path in a folder that is there, such as "{_RUNTIME / name}"'
            yield f"{loaded.tree.blamed(key)}: {key}: {where}: {why}; {right}"


def _no_place_for(path: Path) -> str:
    """Reason that no socket can be made at the path; empty if one can, or that may not be seen."""
    if why := _no_folder_for(path):
        return why
    try:
        found = path.lstat().st_mode
    except (FileNotFoundError, PermissionError):
        return ""
    except OSError as error:
        return f"it cannot be examined: {error.strerror}"
    return "" if stat.S_ISSOCK(found) else f"it is {kind_of(found)}, where a socket is to be"


def _no_folder_for(path: Path) -> str:
    """Reason that there can be no file at the path; empty if there can, or that may not be seen."""
    try:
        is_folder = stat.S_ISDIR(path.parent.stat().st_mode)
    except FileNotFoundError:
        return f"there is no folder {path.parent}"
    except PermissionError:
        return ""
    except OSError as error:
        return f"it cannot be examined: {error.strerror}"
    return "" if is_folder else f"{path.parent} is no folder"


def _missing_packages(loaded: Loaded) -> Iterator[str]:
    """Yield the keys that need a package that tesched is installed without, or that cannot be used."""
    for key, value, extra in _needed(loaded.config):
        if why := extra.lacking():
            yield f'{loaded.tree.blamed(key)}: {key}: "{value}" needs {why}'


def _needed(config: Config) -> Iterator[tuple[str, str, Extra]]:
    """Yield the packages that the keys ask for, each with its key and what stands there."""
    chosen = [("policy.te", config.policy.te.value), *(("policy.be", one.name.value) for one in config.policy.be)]
    for key, name in chosen:
        yield from ((key, name, extra) for extra in config.policy.table(name).needs)
    if parse_url(config.store.url).get_backend_name() == "postgresql":
        yield "store.url", "postgresql://…", DRIVER


def _other_files(loaded: Loaded) -> Iterator[str]:
    """Yield the paths at which the daemon's file would take the place of another one.

    What this user may not see is left to the daemon, which writes no file that it cannot read.
    """
    for name, word in _WORDS.items():
        path = Path(getattr(loaded.config.slurm, name))
        for each in (path, new_beside(path)):
            if why := _configurations(each, loaded) or _obstacle(each, word, replaced=each != path):
                key = f"slurm.{name}"
                right = f'name a path where there is nothing, such as "/run/tesched/{name}"'
                yield f"{loaded.tree.blamed(key)}: {key}: {each}: {why}; {right}"
                break


def _obstacle(path: Path, word: str, *, replaced: bool) -> str:
    """Obstacle in the way of the daemon's file; empty if there is none. A link may be one to be `replaced`."""
    try:
        return "" if replaced and path.is_symlink() else obstacle(path, word)
    except PermissionError:
        return ""
    except NotADirectoryError:
        return "it is below a file, which has to be a folder"
    except OSError as error:
        return f"it cannot be examined: {error.strerror}"


def _configurations(path: Path, loaded: Loaded) -> str:
    """Return that the path is one of the configuration's own files, which may be empty; else nothing."""
    for file in loaded.tree.files:
        with suppress(OSError):
            if path.samefile(file):
                return "it is a file of the configuration"
    return ""


def remarks(loaded: Loaded) -> Iterator[Remark]:
    """Yield where TE jobs are not kept to [guard.bound] and [guard.te], what has no effect, what is open or unsafe."""
    config, guard = loaded.config, loaded.config.guard
    for key in keys_of(guard):
        file = loaded.tree.blamed(key)
        if config.mode is not Mode.ENFORCE:
            yield Remark(
                file=file,
                key=key,
                text=f"it is measured, not enforced: in mode {config.mode} no TE job is held",
                advice='set mode = "enforce"',
            )
        if not config.classes.makes_te:
            yield Remark(
                file=file,
                key=key,
                text="no rule makes a job trial and error: nothing is held, and nothing is bounded",
                advice='write a rule with job_class = "te" and a max_time_limit_s (`tesched config example` has one)',
            )
    if (keys := [*keys_of(guard)]) and config.classes.user_word.may_say_be and (rule := _of_a_place(config)):
        yield Remark(
            file=loaded.tree.blamed("classes.user_word.may_say_be"),
            key="classes.user_word.may_say_be",
            text=f"a job of rule {rule} whose user says be counts for no {keys[0]} and keeps its partition or QOS: "
            "Slurm may start it before all others",
            advice="set it to false, unless best-effort jobs come first there, too",
        )
    if guard.bound.is_set and guard.lever is YieldBy.PLUGIN:
        yield Remark(
            file=loaded.tree.blamed("guard.bound"),
            key="guard.bound",
            text=MARKS_ALONE,
            advice='set guard.lever = "requeue" or "auto"',
        )
    # scontrol's answer is read once squeue's is there.
    poll_s = 2 * config.slurm.timeout_s
    if guard.bound.is_set and config.loop.backoff_max_s < poll_s:
        yield Remark(
            file=loaded.tree.blamed("guard.bound"),
            key="guard.bound",
            text=f"it counts on a poll each {config.loop.backoff_max_s:g} s (loop.backoff_max_s), and two commands "
            f"of Slurm's one after the other may take {poll_s:g} s (slurm.timeout_s, twice)",
            advice="let loop.backoff_max_s be no shorter than that",
        )
    # Of a default no site is warned: it has nothing to set otherwise.
    if config.loop.early_turn and "loop.early_turn" in loaded.tree.origins and (found := _no_early_turn(config)):
        yield Remark(
            file=loaded.tree.blamed("loop.early_turn"),
            key="loop.early_turn",
            text=f"{said(found)}: new TE jobs wait for polls",
            advice=f"set it to false, or set {advice(found)}",
        )
    yield from _served_store(loaded)
    yield from _missing_files(loaded)
    if not is_loopback(config.metrics.listen):
        yield Remark(
            file=loaded.tree.blamed("metrics.listen"),
            key="metrics.listen",
            text=f"whatever reaches {config.metrics.listen} may read the metrics: there is no password and no TLS",
            advice="listen on 127.0.0.1 behind a reverse proxy that has both, or let a firewall admit Prometheus alone",
        )


def _of_a_place(config: Config) -> str:
    """Name of the first rule that makes jobs TE by their partition or QOS; empty if there is none."""
    te = (rule for rule in config.classes.rules if rule.job_class is JobClass.TE)
    return next((rule.name for rule in te if rule.match.partitions or rule.match.qos), "")


def unread_conf(conf: str) -> str:
    """Reason that the slurm.conf that is configured cannot be read; empty if it can, or none is."""
    try:
        if conf:
            bounded_read(lambda: Path(conf).open("rb").close())
    except FileNotFoundError:
        return f"there is no {conf}"
    except (OSError, ValueError) as error:
        return f"{conf}: {getattr(error, 'strerror', None) or error}"
    return ""


def _missing_files(loaded: Loaded) -> Iterator[Remark]:
    """Yield the paths at which the daemon finds nothing, or cannot write, and goes on; each may come later."""
    config = loaded.config
    conf, program = config.slurm.conf, config.tell.command[:1]
    found = [
        ("slurm.conf", unread_conf(conf), "each command of Slurm's fails, after a wait", CONF_ADVICE),
        *(("tell.command", _no_program(Path(path)), "no user is notified by it", _MAKE_PROGRAM) for path in program),
    ]
    for key, text, has, follows in (
        ("loop.socket", config.loop.socket, _no_place_for, "no job is seen before the next poll"),
        ("slurm.marks", config.slurm.marks, _no_folder_for, "no job can be marked"),
        ("slurm.admission", config.slurm.admission, _no_folder_for, "the submission hook holds no job"),
        ("idle.file", config.idle.file, _no_folder_for, "no job counts as idle"),
    ):
        path = Path(text)
        if text and path.parent != _RUNTIME and (why := has(path)):
            found.append((key, f"{path}: {why}", follows, "make that folder, or name a path in one that is there"))
    for key, why, follows, right in found:
        if why:
            yield Remark(file=loaded.tree.blamed(key), key=key, text=f"{why}: {follows}", advice=right)


def _no_program(path: Path) -> str:
    """Reason that the program cannot be run by any user; empty if it can, or that may not be seen."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not stat.S_ISREG(mode):
        return f"{path}: it is {kind_of(mode)}, where a program is to be"
    return "" if mode & 0o111 else f"{path}: it is not executable"


def _served_store(loaded: Loaded) -> Iterator[Remark]:
    """Yield whether the state store is a SQLite file that several hosts may have open: SQLite can't lock it there."""
    url = parse_url(loaded.config.store.url)
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    folder = Path(url.database).absolute().parent
    if kind := served_by(folder):
        yield Remark(
            file=loaded.tree.blamed("store.url"),
            key="store.url",
            text=f"{folder} is on a network's file system ({kind}), where a state store in SQLite can be damaged, and "
            "where a second daemon on another host isn't kept from acting",
            advice="name a file on a local disk, or a PostgreSQL database",
        )


def _no_early_turn(config: Config) -> Sequence[Hindrance]:
    """Return the settings with each of which no early turn ever comes."""
    found = hindrances(
        mode=config.mode,
        limits=config.guard,
        policies=config.policy.entries(),
        pace=config.loop,
        reads_jobs=config.slurm.client is not ClientChoice.PYSLURM,
    )
    return [*found]

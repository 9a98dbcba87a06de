"""A backup slurmctld of a local cluster: on this host, under a host name and an address of its own.

slurmctld knows by its host's name which of the SlurmctldHost lines it is, and listens at that name's address. So the
backup has a name, a hosts file and, for its pid and log, a slurm.conf of its own, in namespaces that end with it. That
needs root, as `unshare` does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tesched_testcluster.definition import ClusterDefinition

#: its host's name and address; the whole of 127.0.0.0/8 is this host's
NAME, ADDRESS = "backup-ctld", "127.0.0.2"
#: the name by which its process is found (`processes.DAEMON_VARIABLE`)
DAEMON = "backup"
_START = (
    f'set -e; hostname {NAME}; mount --bind "$1/hosts" /etc/hosts; mount --bind "$1/slurm.conf" "$SLURM_CONF"; '
    "exec slurmctld"
)


def with_backup(definition: ClusterDefinition, *, timeout_s: int) -> ClusterDefinition:
    """Return the cluster with a second SlurmctldHost, which takes over after `timeout_s` without the first one."""
    return replace(
        definition,
        settings={**definition.settings, "SlurmctldTimeout": str(timeout_s)},
        extra_lines=(*definition.extra_lines, f"SlurmctldHost={NAME}({ADDRESS})"),
    )


def start_command(folder: Path, slurm_conf: Path) -> tuple[str, ...]:
    """Write what the backup of the cluster in `folder` needs, and return the command that starts it."""
    own = folder / "backup"
    own.mkdir(exist_ok=True)
    (own / "hosts").write_text(f"{Path('/etc/hosts').read_text()}\n{ADDRESS} {NAME}\n")
    text = slurm_conf.read_text()
    for kind in ("pid", "log"):
        text = text.replace(f"/slurmctld.{kind}\n", f"/{DAEMON}.{kind}\n")
    (own / "slurm.conf").write_text(text)
    return ("unshare", "--uts", "--mount", "sh", "-c", _START, "sh", str(own))

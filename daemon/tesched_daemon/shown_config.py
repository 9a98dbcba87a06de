"""What a command that shows the state store reads of the configuration: [store], [guard], [run_times], no other table.

`config.Config` has the tables of all installed policies, for which their packages are searched for and imported: a
tenth of the CPU time of such a command, which asks no policy anything. What is wrong in the tables that are not read
here is said by `tesched config check`, by the daemon, and by the commands that go by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec
from tesched_core.model.limits import Limits

from tesched_daemon import config_files
from tesched_daemon.config_errors import unknown_keys
from tesched_daemon.settings import RunTimesConfig
from tesched_daemon.store_config import StoreConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConfig:
    """The tables that are read."""

    store: StoreConfig = StoreConfig()
    guard: Limits = Limits()
    run_times: RunTimesConfig = RunTimesConfig()


_READ = frozenset(field.name for field in fields(ShownConfig))
#: what else may stand at the top of a file (`config.Config`)
NOT_READ = frozenset(
    {"mode", "undo_on_stop", "slurm", "loop", "policy", "classes", "reports", "tell", "metrics", "idle"}
)


def load_shown(path: Path) -> ShownConfig:
    """Return these tables of the configuration in `path` and in conf.d beside it. Raises ConfigError."""
    layers = config_files.layers(path)
    if all(_is_known(layer) for _, layer in layers):
        try:
            return msgspec.convert(config_files.merged(layers).values, ShownConfig)
        except msgspec.ValidationError:
            pass  # said below, in the words of the whole check
    from tesched_daemon.config import load  # noqa: PLC0415 - the policies: see above

    whole = load(path)
    return ShownConfig(store=whole.store, guard=whole.guard, run_times=whole.run_times)


def _is_known(layer: Mapping[str, object]) -> bool:
    """Check that a file has no unknown table, of which one may be one that is read with a slip in its name."""
    if not layer.keys() <= _READ | NOT_READ:
        return False
    return not [*unknown_keys({name: layer[name] for name in _READ & layer.keys()}, ShownConfig)]

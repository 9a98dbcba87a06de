"""Files that a site copies: the example configuration and the unit."""

from __future__ import annotations

import configparser
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from tesched_daemon.config import Config, parse

SYSTEMD = Path(__file__).parents[3] / "systemd"
EXAMPLE = (SYSTEMD / "tesched.toml").read_text()


def keys_of(part: Any) -> set[str]:
    """Return the names of all fields of a configuration, its sections' too."""
    found = set()
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value) and not fields(value):
            continue  # a policy without keys
        found.add(field.name)
        if is_dataclass(value) and field.name != "within":
            found |= keys_of(value)
    return found


def test_the_example_is_the_defaults() -> None:
    assert parse(EXAMPLE, "tesched.toml") == Config()


def test_the_example_names_every_key() -> None:
    named = set(re.findall(r"^#? ?\[*(?:\w+\.)?(\w+)(?:\]+| =)", EXAMPLE, re.MULTILINE))
    assert keys_of(Config()) - named == set()


def test_the_rules_in_the_examples_comments_can_be_used() -> None:
    rules = re.sub(r"^# ", "", EXAMPLE[EXAMPLE.index("# [[classes.rules]]") :], flags=re.MULTILINE).replace(
        "\n#\n", "\n"
    )
    classes = parse(rules, "tesched.toml").classes
    assert [rule.name for rule in classes.rules] == ["debug-partition", "long-trainings"]
    assert [rule.name for rule in classes.notice_rules] == ["own-launcher"]


def test_the_unit_is_of_the_daemons_user_and_has_the_default_stores_folder() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(SYSTEMD / "tesched.service")
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["User"] == "tesched"

"""Pages from Jinja2 templates: all text is escaped, and users' text is made visible before.

A template's `{{ … }}` passes each string through `tesched_core.model.visible` (control characters, bidirectional marks)
and then through Jinja2's autoescape. `Markup` alone passes as it is: drawings and style sheets of ours.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tesched_core.model.visible import visible

from tesched_sim.reports.style import style_sheet

if TYPE_CHECKING:
    from jinja2 import Environment

#: packages with a folder `templates`; a template of the first one can extend the base of the last one
PACKAGES = ("tesched_cli.render", "tesched_sim.reports")


def rendered(template: str, **content: object) -> str:
    """Return the page that this template makes of the content, with `style_sheet` beside it."""
    from markupsafe import Markup  # noqa: PLC0415 - as below

    return environment().get_template(template).render(style_sheet=Markup(style_sheet()), **content)  # noqa: S704 - ours


@cache
def environment() -> Environment:
    """Return the environment that all templates share."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - takes 50 ms

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in PACKAGES]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    # Markup is a string as well.
    return visible(value) if type(value) is str else value

"""Pictures of `tesched top` for the documents, dark and light, from a state store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from tesched_cli.common import configuration
from tesched_cli.top.app import DARK, LIGHT, Top
from tesched_cli.top.command import Store
from tesched_db.engine import open_store

THEMES = {"top-dark": DARK, "top-light": LIGHT}
#: columns and lines
SIZE = (100, 24)
#: Rich names a font of another host's, for which a reader's own does, and itself.
_ELSEWHERE = re.compile(r"@font-face \{.*?\}|<!--.*?-->", re.DOTALL)


def pictures_of_top(config: Path, folder: Path) -> Iterator[Path]:
    """Draw the queue's page as it is now; yield the paths."""
    read = configuration(config)
    engine = open_store(read.store.url, read_only=True)
    try:
        for name, theme in THEMES.items():
            path = folder / f"{name}.svg"
            path.write_text(_ELSEWHERE.sub("", asyncio.run(_drawn(Store(engine, read), theme))))
            yield path
    finally:
        engine.dispose()


async def _drawn(store: Store, theme: str) -> str:
    app = Top(store, every_s=60)
    app.theme = theme
    async with app.run_test(size=SIZE) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        return app.export_screenshot(title="tesched top", simplify=True)

"""Terminal view of `tesched top`, by Textual: three pages of tables, and one job's story above them.

Principle
    The state store is read in a thread, and the terminal goes on meanwhile. Countdowns and ages are shown anew each
    second without reading it. Rows keep their places under the cursor from one poll to the next. Users' text never
    reaches Textual as markup, and each character of it that is not plainly visible is shown as an escape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from rich.text import Text
from tesched_core.model.told_error import ToldError
from tesched_core.model.visible import visible
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, DataTable, Footer, Input, Static

from tesched_cli.top import poll as rows_of
from tesched_cli.top.poll import Poll, TableRow

DARK, LIGHT = "textual-dark", "textual-light"
#: lines of the orders' table at most, its heading among them: the queue below has the rest
_MOST_ORDER_LINES = 7


class StoreReader(Protocol):
    """What the state store is read by. Both raise ToldError."""

    def poll(self) -> Poll:
        """Read what is to be shown."""

    def story(self, job: str, width: int) -> list[str]:
        """Return the lines of one job's story."""


class Listing(DataTable[Text]):
    """A table whose rows are replaced as a whole, and whose cursor stays on its row."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Story")]

    def __init__(self, columns: Sequence[str], *, id: str) -> None:  # noqa: A002 - Textual's word
        """Take the columns' headings; the last one takes what is left of the line."""
        super().__init__(id=id, cursor_type="row", zebra_stripes=False)
        self._headings = columns
        self._shown: list[TableRow] = []

    def on_mount(self) -> None:
        """Make the columns."""
        for heading in self._headings:
            self.add_column(heading, key=heading)

    def show(self, rows: list[TableRow]) -> None:
        """Show these rows; of those that are there already only what has changed."""
        if rows == self._shown:
            return
        if [row.key for row in rows] == [row.key for row in self._shown]:
            for old, new in zip(self._shown, rows, strict=True):
                for heading, before, after in zip(self._headings, old.cells, new.cells, strict=True):
                    if before != after:
                        self.update_cell(new.key, heading, _plain(after), update_width=True)
        else:
            under = self.under_cursor
            top = self.scroll_y
            self.clear()
            for row in rows:
                self.add_row(*map(_plain, row.cells), key=row.key)
            place = next((at for at, row in enumerate(rows) if under and row.key == under.key), 0)
            self.move_cursor(row=place, animate=False, scroll=False)
            self.scroll_to(y=top, animate=False)
        self._shown = rows

    @property
    def under_cursor(self) -> TableRow | None:
        """Return the row under the cursor; None where there are no rows."""
        return self._shown[self.cursor_row] if 0 <= self.cursor_row < len(self._shown) else None


def _plain(text: str) -> Text:
    return Text(visible(text), no_wrap=True)


class StoryScreen(ModalScreen[None]):
    """One job's story, over the tables."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back", key_display="esc"),
        Binding("r", "read", "Read again"),
    ]

    def __init__(self, job: str, story: Callable[[str, int], list[str]]) -> None:
        """Take the job, as squeue writes it, and what reads its story."""
        super().__init__()
        self._job = job
        self._story = story

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        with VerticalScroll(id="story"):
            yield Static(id="text")
        yield Footer()

    def on_mount(self) -> None:
        """Read the story."""
        self.query_one("#text", Static).update(Text(f"job {self._job} …"))
        self.query_one("#story").focus()
        self.action_read()

    @work(thread=True, exclusive=True)
    def action_read(self) -> None:
        """Read it, in a thread."""
        try:
            lines = self._story(self._job, max(self.app.size.width - 4, 40))
        except ToldError as error:
            lines = [str(error)]
        text = Text("\n".join(map(visible, lines)))
        self.app.call_from_thread(self.query_one("#text", Static).update, text)


class Top(App[None]):
    """The view."""

    TITLE = "tesched"
    ENABLE_COMMAND_PALETTE = False
    CSS = f"""
    #head {{ height: auto; padding: 0 1; }}
    .trouble {{ color: $text-error; text-style: bold; }}
    #head Static {{ height: 1; text-wrap: nowrap; text-overflow: ellipsis; }}
    ContentSwitcher {{ height: 1fr; }}
    #orders {{ height: auto; max-height: {_MOST_ORDER_LINES}; }}
    #none {{ height: 1; padding: 0 1; color: $text-muted; }}
    #jobs, #nodes, #decisions {{ height: 1fr; }}
    Input {{ height: 1; border: none; padding: 0 1; }}
    Story {{ align: center middle; }}
    #story {{ height: 1fr; padding: 0 1; background: $surface; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "page('queue')", "Queue"),
        Binding("2", "page('nodes')", "Nodes"),
        Binding("3", "page('decisions')", "Decisions"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("t", "theme", "Light/dark"),
        Binding("q", "quit", "Quit"),
        Binding("escape", "all", "All", show=False),
    ]

    def __init__(self, store: StoreReader, *, every_s: float, clock: Callable[[], float] = time.time) -> None:
        """Show what the store has, read every so many seconds; `clock` is the time of ages and countdowns."""
        super().__init__()
        self._store = store
        self._every_s = every_s
        self._clock = clock
        self._poll: Poll | None = None
        self._trouble = ""
        self._words = ""
        self._reads = False

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        with Vertical(id="head"):
            for place in range(3):
                yield Static(id=f"head{place}")
        with ContentSwitcher(initial="queue"):
            with Vertical(id="queue"):
                yield Listing(rows_of.ORDER_COLUMNS, id="orders")
                yield Static("no order is under way", id="none")
                yield Listing(rows_of.JOB_COLUMNS, id="jobs")
            yield Listing(rows_of.NODE_COLUMNS, id="nodes")
            yield Listing(rows_of.DECISION_COLUMNS, id="decisions")
        yield Input(placeholder="words that a job's line has: user, name, node, TE, pending …", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one("#filter").display = False
        self.query_one("#jobs").focus()
        self.read()
        self.set_interval(self._every_s, self.read)
        self.set_interval(1.0, self.show)

    def read(self) -> None:
        """Read the store, unless that is under way: a slow store would have ever more threads wait for it."""
        if not self._reads:
            self._reads = True
            self._read()

    @work(thread=True, group="poll")
    def _read(self) -> None:
        try:
            found: Poll | None = self._store.poll()
            trouble = ""
        except ToldError as error:
            found, trouble = None, str(error)
        self.call_from_thread(self.take, found, trouble)

    def take(self, found: Poll | None, trouble: str) -> None:
        """Show what was read; after a failure the last good one stays."""
        self._reads = False
        self._poll = found or self._poll
        self._trouble = trouble
        self.show()

    def show(self) -> None:
        """Show the last poll as of now; nothing once the view is closing, where a timer may still tick."""
        if not self.is_running:
            return
        now = self._clock()
        lines = list(rows_of.head_lines(self._poll, now)) if self._poll else []
        if self._trouble:
            # How the daemon is now is not known, and what is shown below is of the last poll.
            since = f"; last read at {rows_of.time_of_day(self._poll.at)}" if self._poll else ""
            lines[:1] = [(f"the state store cannot be read: {self._trouble}{since}", True)]
        for place in range(3):
            text, is_trouble = lines[place] if place < len(lines) else ("", False)
            line = self.query_one(f"#head{place}", Static)
            line.update(_plain(text))
            line.set_class(is_trouble, "trouble")
            line.display = bool(text)
        if self._poll is None:
            return
        orders = rows_of.order_rows(self._poll, now)
        self.query_one("#orders", Listing).show(orders)
        self.query_one("#orders").display = bool(orders)
        self.query_one("#none").display = not orders
        self.query_one("#jobs", Listing).show(rows_of.job_rows(self._poll, now, self._words))
        self.query_one("#nodes", Listing).show(rows_of.node_rows(self._poll, self._words))
        self.query_one("#decisions", Listing).show(rows_of.decision_rows(self._poll))

    def action_page(self, page: str) -> None:
        """Show another page."""
        self.query_one(ContentSwitcher).current = page
        self.query_one("#jobs" if page == "queue" else f"#{page}").focus()

    @on(DataTable.RowSelected)
    def _story_of(self, event: DataTable.RowSelected) -> None:
        """Open the story of the row's job: Enter, or a click."""
        if isinstance(event.data_table, Listing) and (row := event.data_table.under_cursor) and row.job:
            self.push_screen(StoryScreen(row.job, self._store.story))

    def action_filter(self) -> None:
        """Take words to filter by."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self._words = event.value
        self.show()

    @on(Input.Submitted, "#filter")
    def _filtered(self) -> None:
        self.query_one("#filter").display = bool(self._words)
        self.action_page(self.query_one(ContentSwitcher).current or "queue")

    def action_all(self) -> None:
        """Filter by nothing any more."""
        box = self.query_one("#filter", Input)
        box.value = ""
        box.display = False
        self.action_page(self.query_one(ContentSwitcher).current or "queue")

    def action_theme(self) -> None:
        """Go from dark to light, or back."""
        self.theme = LIGHT if self.theme == DARK else DARK

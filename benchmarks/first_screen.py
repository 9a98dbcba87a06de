"""README's first screen from its records: `python -m benchmarks.first_screen` writes it anew, `--check` compares.

The recorded demo (docs/demo.json) has printed what stands between `<!-- samples ... -->` and `<!-- end -->`. The table
between `<!-- headline ... -->` and `<!-- end -->` is that of the recorded benchmark (docs/native.json). Both anew:

    make demo DEMO=local PICTURE=docs/demo.svg
    python -m benchmarks.native --json > docs/native.json
    python -m benchmarks.first_screen

`--check` ends with status 1 if README differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from tesched_testcluster import demo_record
from tesched_testcluster.demo_record import DemoRecord

from benchmarks.native_outcome import from_json, headline

ROOT = Path(__file__).parents[1]
#: lines of `tesched status` that are shown: how it is, what runs and waits, the orders
_STATUS = re.compile(r"(daemon|mode) |(QUEUE|TE|BE|ORDER)  |\d+ +\d+ ")


def samples(record: DemoRecord) -> str:
    """Return the box with what `tesched status`, in part, and `tesched explain` have printed."""
    te_job = min(job.job_id for job in record.jobs if job.kind == "te")
    status = [line.rstrip() for line in record.status.splitlines() if _STATUS.match(line)]
    # The candidates that were not selected come after an empty line of their own.
    explain = [line.rstrip() for line in record.explain.partition("\ncandidates ")[0].splitlines() if line.strip()]
    return "\n".join(["```", "$ tesched status", *status, f"$ tesched explain {te_job}", *explain, "```"])


def written(readme: str, parts: Mapping[str, str]) -> str:
    """Return README with these parts between their marks. ValueError if a mark is not there, or is there twice."""
    for name, text in parts.items():
        marks = rf"^(<!-- {name}\b[^\n]*-->\n)(.*?)(<!-- end -->)$"
        found = re.findall(marks, readme, re.MULTILINE | re.DOTALL)
        if len(found) != 1:
            raise ValueError(f"<!-- {name} ... --> and <!-- end --> stand there {len(found)} times; once is right")
        head, old, end = found[0]
        readme = readme.replace(f"{head}{old}{end}", f"{head}{text}\n{end}")
    return readme


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 if README says something else.")
@click.option(
    "--readme", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=ROOT / "README.md", help="Which."
)
def main(*, check: bool, readme: Path) -> None:
    """Write README's samples and its headline table from docs/demo.json and docs/native.json."""
    docs = ROOT / "docs"
    parts = {
        "samples": samples(demo_record.read(docs / "demo.json")),
        "headline": headline(*from_json((docs / "native.json").read_text())),
    }
    before = readme.read_text()
    try:
        after = written(before, parts)
    except ValueError as error:
        raise click.UsageError(f"{readme}: {error}") from None
    if not check:
        readme.write_text(after)
    elif before != after:
        print(
            f"{readme} does not show what docs/demo.json and docs/native.json hold: python -m benchmarks.first_screen"
        )
        sys.exit(1)


if __name__ == "__main__":
    main()

"""What users type, read back: jobs with hostile text in every field, and how many of them are read otherwise.

Held jobs are submitted, as an ordinary user, to a real Slurm, with random text in name, comment, network, mail user,
account, extra, paths and more, among them forged records, markup, escapes and newlines; and with a random request. Then
each client reads the queue, and what it says of each job is compared with what was submitted.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId

from tesched_testcluster.harness.slurm_clients import CLIENTS, connecting
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

#: what would be Slurm's own words, were it not a user's text
FORGED = (
    "x NodeList=n1 JobState=RUNNING Account=vip TimeLimit=00:10:00",
    "x NodeList=@x'$(touch {proof})'",
    "@x'$(touch {proof})'",
    "`touch {proof}` $(touch {proof}) ;touch {proof}; |touch {proof}",
    "x NodeList=n[1-",
    "x NodeList=n[1-99999999]",
    "x NumCPUs=abc Priority=x",
    "x TresPerJob=gres:gpu:0 TresPerNode=gres:gpu:8",
    "x UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=5 Nice=0 Account=a QOS=b JobState=RUNNING",
    "a\nJobId=1 JobName=wrap UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 Nice=0 Account=a QOS=b JobState=R",
    "a\nJobId=2 ArrayJobId=2 ArrayTaskId=0 JobName=b",
    "[/x][bold]", "\x1b[2J\x1b]0;owned\x07", "\u202egnp.exe", "a\tb\r\nc\n", "|#\n|#\n", "N/A", "None", "(null)x",
    "--all", "-t", "%A|%j", "x\udcff\udcfe", "é" * 60, "\u2028\u2029\u200b",
    "x   Nodes=n[1-4] CPU_IDs=0-31 Mem=64000 GRES=gpu:8(IDX:0-7)", "\N{GRINNING FACE}" * 9,
)  # fmt: skip
ALPHABET = " =:,;|#@!$%&*()[]{}<>'\"\\`~^+-_/.aZ09\n\t\rÄ漢\u202e\x1b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job as it was submitted."""

    options: tuple[str, ...]
    #: what must be read, by attribute of Job or of Request
    job: Mapping[str, object]
    request: Mapping[str, object]


def run(cluster: LocalCluster, cases: int, seed: int, say: Callable[[str], object] = str) -> list[str]:
    """Return every difference between what was submitted and what a client reads; `say` takes the figures as lines."""
    proof = cluster.shared / "proof"
    began = time.perf_counter()
    submitted, refused = submit(cluster, made(random.Random(seed), cases, proof))  # noqa: S311 - no secret
    took_s = time.perf_counter() - began
    say(f"{len(submitted)} jobs submitted in {took_s:.0f} s; refused: {sum(refused.values())} {dict(refused)}")
    found: list[str] = []
    for choice in CLIENTS:
        client = connecting(choice)(cluster, timeout_s=60)
        began = time.perf_counter()
        before = sum(client.calls.values())
        seen = client.observer.observe()
        took_s = time.perf_counter() - began
        if isinstance(seen, Failure):
            found.append(f"{choice}: {seen.message}")
            continue
        wrong = list(differences(submitted, seen.jobs))
        found += [f"{choice}: {each}" for each in wrong]
        doubtful = sum(bool(job.doubt or job.partly_read) for job in seen.jobs.values())
        rpcs = sum(client.calls.values()) - before
        say(
            f"{choice:<9} {len(seen.jobs)} jobs read in {took_s:.2f} s with {rpcs} RPCs:"
            f" {len(wrong)} differences, {doubtful} in doubt"
        )
    if proof.exists():
        found.append("a user's text was run as a command")
    return found


def made(rng: random.Random, cases: int, proof: Path) -> Iterator[Case]:
    """Yield jobs with random requests and hostile text."""
    for _ in range(cases):
        name, comment = text(rng, proof) or "x", text(rng, proof)
        nodes, cpus, gpus, minutes = rng.randint(1, 2), rng.randint(1, 8), rng.randint(0, 4), rng.randint(1, 3000)
        excluded = tuple(rng.sample(("n1", "n2", "n3", "n4"), rng.randint(0, 2)))
        memory = rng.choice(("cpu", "node"))
        options = [
            "--hold", f"--job-name={name}", f"--comment={comment}", f"--network={text(rng, proof)}",
            f"--mail-user={text(rng, proof)}", f"--account={text(rng, proof)}", f"--wckey={text(rng, proof)}",
            f"--cluster-constraint={text(rng, proof)}",
            f"--output=/{text(rng, proof)}", f"--error=/{text(rng, proof)}", f"--input=/{text(rng, proof)}",
            f"--time={minutes}", f"--nodes={nodes}", f"--ntasks={nodes}", f"--cpus-per-task={cpus}",
            f"--mem-per-cpu={cpus}00" if memory == "cpu" else f"--mem={cpus}00",
            *([f"--exclude={','.join(sorted(excluded))}"] if excluded else []),
            *([f"--gres=gpu:{gpus}"] if gpus else []),
            *([f"--extra={text(rng, proof)}", f"--chdir=/{text(rng, proof)}"] if rng.random() < 0.5 else []),
        ]  # fmt: skip
        job: dict[str, object] = {"name": name, "state": JobState.PENDING, "held": True, "time_limit_s": minutes * 60}
        if comment != "(null)":
            job["comment"] = comment.strip()
        yield Case(
            options=tuple(options),
            job=job,
            request={
                "min_nodes": nodes,
                "cpus": nodes * cpus,
                "gres_per_node": (("gpu", gpus),) if gpus else (),
                "excluded_nodes": tuple(sorted(excluded)),
                "mem_per_cpu_mib": cpus * 100 if memory == "cpu" else None,
                "mem_per_node_mib": cpus * 100 if memory == "node" else None,
            },
        )


def text(rng: random.Random, proof: Path) -> str:
    """Return a text that a user may type."""
    kind = rng.random()
    if kind < 0.6:
        said = rng.choice(FORGED).replace("{proof}", str(proof))
        return said if kind < 0.4 else f"{said} {rng.choice(FORGED).replace('{proof}', str(proof))}"
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 120)))


def submit(cluster: LocalCluster, cases: Iterable[Case]) -> tuple[dict[JobId, Case], Counter[str]]:
    """Return the jobs by id, and how many sbatch refused, by what it said."""
    user = ordinary_user()
    submitted: dict[JobId, Case] = {}
    refused: Counter[str] = Counter()

    def one(case: Case) -> tuple[Case, subprocess.CompletedProcess[bytes]]:
        # "--extra" is 26.05's.
        known = [option for option in case.options if not option.startswith("--extra=") or cluster.release >= (23, 2)]
        argv = ["sbatch", "--parsable", *known, "--wrap=exec sleep 1"]
        environment = {**cluster.env, "LC_ALL": "C.UTF-8"}
        raw = [os.fsencode(word) for word in argv]
        return case, subprocess.run(
            raw, env=environment, cwd=cluster.shared, capture_output=True, user=user, check=False
        )

    with ThreadPoolExecutor(4) as pool:
        for case, done in pool.map(one, cases):
            if done.returncode:
                refused[done.stderr.decode(errors="replace").strip().rpartition(": ")[2][:60]] += 1
            else:
                submitted[JobId(int(done.stdout.split(b";")[0]))] = case
    return submitted, refused


def differences(submitted: Mapping[JobId, Case], jobs: Mapping[JobId, Job]) -> Iterator[str]:
    """Yield each difference in words."""
    user = ordinary_user()
    for job_id, case in submitted.items():
        job = jobs.get(job_id)
        if job is None:
            yield f"job {job_id} is not seen: {case.options}"
            continue
        # A doubt means that a record of its own could not be known from a forged one: it is left alone, and queried
        # again in the next poll.
        told: Sequence[tuple[object, Mapping[str, object]]] = (
            (job, {**case.job, "user": user}),
            (job.request, {} if job.partly_read else case.request),
        )
        for what, expected in told:
            for name, value in expected.items():
                if getattr(what, name) != value:
                    yield f"job {job_id}: {name} is read as {getattr(what, name)!r}; submitted was {value!r}"

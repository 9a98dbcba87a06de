#!/usr/bin/env python3
"""Mails the user of a preempted job: an example for `command` in `[tell]` of tesched.toml.

    command = ["/usr/local/bin/tell_by_mail.py", "mail.example.org:25", "example.org", "tesched@example.org"]

The arguments are the site's mail server, the domain of its users, and the sender. What happened comes as one JSON
object on standard input (docs/howto/preempted.md). The Python standard library alone; SMTP, since a daemon without
privileges may run no setgid sendmail.
"""

from __future__ import annotations

import json
import smtplib
import sys
import time
from email.headerregistry import Address
from email.message import EmailMessage


def main() -> None:
    """Send the mail; a traceback and exit status 1 tell tesched that it could not be."""
    server, domain, sender = sys.argv[1:]
    host, _, port = server.partition(":")
    told = json.load(sys.stdin)
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(told["preempted_at"]))
    now = "could NOT be put back in the queue: please submit it again" if told["lost"] else "is back in the queue"
    if told["left"] == "ended":
        now = "is not put back in the queue, as its owner said"
    # One for a trial-and-error job of its own user is not counted, and has no number.
    count = f"That was preemption {told['times']} of at most {told['most']}.\n" if told["times"] else ""
    mail = EmailMessage()
    mail["From"] = sender
    # Quoted as an address must be, and refused if it holds a line feed.
    mail["To"] = Address(username=told["user"], domain=domain)
    mail["Subject"] = f"Slurm job {told['job']} was preempted and {now}"
    # The name is the user's own text: in the body alone, where it means nothing.
    mail.set_content(
        f"Job {told['job']} ({told['name']}) was preempted at {at} for {told['for']}, and {now}.\n"
        f"{count}\nsqueue -j {told['job']} shows it; docs/howto/preempted.md says what to do.\n"
    )
    with smtplib.SMTP(host, int(port or 25), timeout=8) as smtp:
        smtp.send_message(mail)


if __name__ == "__main__":
    main()

"""Users of this machine without any right in Slurm, for jobs of test clusters."""

from __future__ import annotations

import pwd

#: the image's own, then those of Debian
_NAMES = ("alice", "bob", "nobody", "daemon", "bin", "games", "mail", "news", "sys")


def ordinary_users(count: int) -> list[str]:
    """Find so many of them. LookupError if there are fewer."""
    known = {account.pw_name for account in pwd.getpwall() if account.pw_uid}
    found = [name for name in _NAMES if name in known][:count]
    if len(found) < count:
        raise LookupError(f"this machine has fewer than {count} of the users {', '.join(_NAMES)}")
    return found


def ordinary_user() -> str:
    """Find one of them. LookupError if there is none."""
    return ordinary_users(1)[0]

"""What all tests share: the repository's root is on the path, so that a test can import `tests.builders`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

"""Optional packages: what pip installs only on request (the extras of pyproject.toml)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """A package that a part of tesched needs, and that is not installed with it."""

    #: as people write it: "SciPy"
    package: str
    #: the module that is imported: "scipy.optimize"
    module: str
    #: as an argument of pip install: ".[gavel]"
    install: str

    def lacking(self) -> str:
        """Import the module. Return the package, why it cannot be used and what to do, to stand after "needs".

        Empty if it can be used.
        """
        top = self.module.partition(".")[0]
        try:
            import_module(top)
            import_module(self.module)
        except ModuleNotFoundError as error:
            why = "is not installed" if error.name == top else f"cannot be imported: {error}"
        except Exception as error:  # noqa: BLE001 - a build for another NumPy or libc raises anything
            why = f"cannot be imported: {type(error).__name__}: {error}"
        else:
            return ""
        return f"{self.package}, which {why}; pip install '{self.install}'"

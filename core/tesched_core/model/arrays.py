"""NumPy, imported where an array is first touched: commands that read the configuration or the store need none.

`from tesched_core.model.arrays import NDArray, np` stands in the modules that the command line imports for their names;
all others import NumPy itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _OnUse:
        """Stands for NumPy, and keeps each of its names that was used."""

        def __getattr__(self, name: str) -> Any:
            """Attribute of NumPy under this name."""
            import numpy  # noqa: ICN001, PLC0415 - its names are passed on

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    class NDArray:
        """Stands in annotations, which nothing reads at run time."""

        def __class_getitem__(cls, _of: object) -> type[NDArray]:
            return cls

    np = _OnUse()

__all__ = ["NDArray", "np"]

"""What is declared about a parameter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What there is to say about a parameter.

    Parameters
    ----------
    help
        What it means, in sentences; methods and other parameters are in backquotes.
    check
        Rejects invalid values; None leaves that to whoever uses them.
    when_none
        What happens if it is left at None.
    flag
        Its name on the command line; None if it cannot be given there.
    """

    name: str
    default: Any
    kind: Any
    group: str
    help: str
    choices: tuple[str, ...] = ()
    check: Callable[..., None] | None = None
    when_none: str = ""
    flag: str | None

    @property
    def flags(self) -> str | None:
        """The flag, with its opposite where the value is yes or no."""
        return f"{self.flag}/--no-{self.flag.removeprefix('--')}" if self.flag and self.kind is bool else self.flag

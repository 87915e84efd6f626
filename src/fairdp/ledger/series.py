"""Certificates that come again and again and hold all together: which of how many the next one is."""

from collections.abc import Iterable

from fairdp._checks import DataError, ParameterError
from fairdp.ledger.entries import Entry, Series

# Instead of the number of certificates: there is no last one.
ENDLESS = 0


def next_in_series(entries: Iterable[Entry], model: str, of: int | None) -> Series | None:
    """The place of the next certificate of a model, of which so many hold together; None for one by itself.

    Whoever could begin another series would not be bound by the first: it is as long as it was said to be.
    """
    if of is None:
        return None
    if of < 0:
        raise ParameterError("of", of, "must be the number of certificates, or 0 for a series without end")
    earlier = [entry.series for entry in entries if model and entry.model == model and entry.series is not None]
    for series in earlier:
        if series.of != of:
            raise DataError(f"the certificates of this model are a series of {_length(series.of)}; repeat that `of`.")
    number = len(earlier) + 1
    if of != ENDLESS and number > of:
        raise DataError(f"all {of} certificates of the series are made; fit the model again for another series.")
    return Series(number=number, of=of)


def _length(of: int) -> str:
    return "certificates without end" if of == ENDLESS else str(of)

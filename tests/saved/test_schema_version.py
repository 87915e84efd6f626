"""Values that `verify` recomputes change only with the schema version: old models would seem forged."""

import hashlib
from dataclasses import fields
from types import ModuleType

from fairdp import config as defaults
from fairdp import config as reading
from fairdp import methods as fairdp_frontier
from fairdp import parameters
from fairdp import parameters as certificate
from fairdp.accounting import mechanisms as calibration
from fairdp.frontier import curve
from fairdp.frontier import curve as choice
from fairdp.saved import verify_checks as verified
from fairdp.saved import verify_checks as verified_scores
from fairdp.saved.folder import SCHEMA_VERSION, CertificateRecord

# The version, and the digest of everything that follows from the program and not from the folder.
VERSION, DIGEST = 16, "11ce8b320459dd13"


def _constants(module: ModuleType) -> list[str]:
    """Numbers at the top of a module: shares of the privacy, and how a frontier is read."""
    return sorted(name for name, value in vars(module).items() if name.isupper() and _is_plain(value))


def _is_plain(value: object) -> bool:
    """Numbers, and what holds nothing else but names for them: its repr is the same in every process."""
    if isinstance(value, dict):
        return all(_is_plain(own) for own in value.values())
    if isinstance(value, tuple | list):
        return bool(value) and all(_is_plain(own) for own in value)
    return isinstance(value, int | float)


def rates_of_metrics() -> dict[str, tuple[str, ...]]:
    return {metric: about.rates for metric, about in certificate.CERTIFIABLE.items()}


def digest() -> str:
    """Defaults that runs are planned with, and shares of the failure probability; words may change."""
    parts = (
        defaults.DEFAULTS,
        {name: (own.table_model, own.image_model, own.defaults) for name, own in fairdp_frontier.METHODS.items()},
        *(defaults.ROW_NORMS, parameters.DEFAULT_MAX_GAP, parameters.DEFAULT_PRICE, parameters.DEFAULT_EPSILON),
        *(getattr(module, name) for module in (fairdp_frontier, curve, choice) for name in _constants(module)),
        *(defaults.SMALLEST_BATCH, defaults.FEWEST_STEPS, calibration.SIZES_SHARE),
        *(getattr(reading, name) for name in _constants(reading)),
        *(rates_of_metrics(), certificate._SHARES, certificate.SMALLEST_EPSILON, certificate.SCORE_EDGES),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def test_what_is_planned_and_said_again_is_that_of_this_version():
    remedy = "raise SCHEMA_VERSION in saved/folder.py, and write it and the new digest here"
    assert (SCHEMA_VERSION, digest()) == (VERSION, DIGEST), remedy


def test_that_check_notices_another_default(monkeypatch):
    before = digest()
    monkeypatch.setattr(defaults, "FEWEST_STEPS", defaults.FEWEST_STEPS + 1)
    assert digest() != before


def test_every_metric_has_its_place_in_the_record_and_is_written_down_twice():
    metrics = set(certificate.METRICS)
    assert not metrics - {field.name for field in fields(CertificateRecord)}
    assert (rates_of_metrics(), certificate._SHARES) == (verified._RATES, verified._SHARES)


def test_the_bins_of_scores_are_written_down_twice():
    assert certificate.SCORE_EDGES == verified_scores._EDGES

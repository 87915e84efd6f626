"""What `verify` makes again from the program changes only with the schema version: old models would seem forged."""

import hashlib
from dataclasses import fields
from types import ModuleType

from fairdp.accounting import calibration
from fairdp.certify import statement
from fairdp.certify.record import CertificateRecord
from fairdp.config import certificate, defaults, parameters, reading
from fairdp.frontier import choice, curve
from fairdp.methods import fairdp_frontier
from fairdp.saved.folder import SCHEMA_VERSION
from fairdp.saved.verify import certificate as verified
from fairdp.saved.verify import scores as verified_scores

# The version, and the digest of everything that follows from the program and not from the folder.
VERSION, DIGEST = 15, "bd51a67f797d770f"


def _constants(module: ModuleType) -> list[str]:
    """Numbers at the top of a module: shares of the privacy, and how a frontier is read."""
    return sorted(name for name, value in vars(module).items() if name.isupper() and not isinstance(value, str))


def digest() -> str:
    """Defaults that runs are planned with, shares of the failure probability, and the words of a certificate."""
    parts = (
        *(defaults.DEFAULTS, defaults.METHOD_DEFAULTS, defaults.METHOD_MODELS, defaults.METHOD_IMAGES),
        *(defaults.ROW_NORMS, parameters.DEFAULT_MAX_GAP, parameters.DEFAULT_PRICE, parameters.DEFAULT_EPSILON),
        *(getattr(module, name) for module in (fairdp_frontier, curve, choice) for name in _constants(module)),
        *(defaults.SMALLEST_BATCH, defaults.FEWEST_STEPS, calibration.SIZES_SHARE),
        *(getattr(reading, name) for name in _constants(reading)),
        *(certificate.CERTIFIABLE, certificate._SHARES, certificate.SMALLEST_EPSILON, certificate.SCORE_EDGES),
        *(statement.DEFINITIONS, statement.NOT_PROMISED),
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
    rates = {metric: about.rates for metric, about in certificate.CERTIFIABLE.items()}
    assert (rates, certificate._SHARES) == (verified._RATES, verified._SHARES)


def test_the_bins_of_scores_are_written_down_twice():
    assert certificate.SCORE_EDGES == verified_scores._EDGES

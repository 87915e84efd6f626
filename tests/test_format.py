"""Notebook representations of privacy and certificates."""

import numpy as np
import pytest

from fairdp import FairDPClassifier


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X, groups = rng.random((1500, 3)), rng.choice(["<b>f</b>", "m"], 1500)

    def fit(**settings):
        chosen = {"n_steps": 20, "random_state": 0, **settings}
        return FairDPClassifier(**chosen).fit(X, (X[:, 0] > 0.5).astype(int), sensitive_features=groups)

    return fit


def test_privacy_is_a_table_with_what_was_spent_rounded_up_and_names_escaped(fitted):
    html = fitted(epsilon=2.0).privacy_._repr_html_()
    assert "<caption>Privacy spent</caption>" in html
    assert "&lt;b&gt;f&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "Not private" in fitted(method="clean").privacy_._repr_html_()


def test_certificates_show_their_bounds_or_why_there_are_none(fitted):
    certified = fitted().certificate_
    html = certified._repr_html_()
    for metric in ("demographic parity", "equal opportunity", "equalized odds"):
        assert f"{metric} gap" in html
    shown = float(html.split("demographic parity gap</th><td>≤ ")[1].split("<")[0])
    assert certified["demographic_parity"]["tau"] <= shown <= certified["demographic_parity"]["tau"] + 1e-4
    assert "no records were held out" in fitted(certify_fraction=0.0).certificate_._repr_html_()

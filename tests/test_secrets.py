"""Printed output holds no secret: whoever has a run's key can subtract its noise."""

import numpy as np

from fairdp import FairDPClassifier, GroupedData
from fairdp.ledger.ledger import Spending
from fairdp.run.checkpoint import read_checkpoint
from fairdp.run.fit import Progress, begin
from fairdp.run.plan import checked

SEED = 918_273_645
SETTINGS = {"method": "dpsgd", "predictor": "gibbs", "n_steps": 3, "sample_rate": 0.3, "random_state": SEED}
SETTINGS["certify_metrics"] = ("demographic_parity",)


def people() -> GroupedData:
    rng = np.random.default_rng(0)
    X = rng.random((300, 3)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0.5).astype(np.int64), np.arange(300) % 2, ("f", "m"))


def test_a_prepared_run_prints_no_key_and_no_seed():
    chosen = checked(**FairDPClassifier(**SETTINGS).get_params(deep=False))
    prepared = begin(chosen, people(), Spending(None, command="fit"), Progress())
    shown = repr(prepared) + repr(chosen)
    assert prepared.predictor.key
    keys = (prepared.generators.steps.present, prepared.generators.lasting_key)
    for secret in (*map(repr, keys), prepared.predictor.key, str(SEED)):
        assert secret not in shown


def test_a_checkpoint_prints_no_key_and_no_state_of_the_noise(tmp_path):
    FairDPClassifier(**SETTINGS).fit_grouped(people(), progress=Progress(checkpoint=tmp_path / "c"))
    checkpoint = read_checkpoint(tmp_path / "c")
    shown = repr(checkpoint)
    for key in (checkpoint.lasting_key, checkpoint.present_key):
        assert repr(key) not in shown
        assert key.hex() not in shown

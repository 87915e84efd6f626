"""Folders that contradict themselves although every number follows from the others, hashes included."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load, save_file
from scipy import stats

from classifier_cases import SHORT, people
from fairdp import FairDPClassifier, GroupedData
from fairdp.accounting.mechanisms import PrivacyBudget, reading_epsilon, reading_for
from fairdp.accounting.spent import READ_FROM_TABLE
from fairdp.certify.certificate import HeldOutRecords
from fairdp.randomness import discrete_laplace, keyed_below
from fairdp.saved.verify_checks import FALSE_REFUSAL, counts_check, laplace_reach, split_reach
from forgeries import failed, forge, recompute, reword, sha256, sum_up, tie

COLUMN = {"type": "numeric", "name": "a", "low": 0, "high": 1, "missing": "error", "transform": "linear"}
SCHEMA = {
    **{"label": "y", "positive": "1", "negative": "0"},
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [{**COLUMN, "name": name} for name in "abc"],
}


@pytest.mark.parametrize(
    "change",
    [
        lambda counts: 40 * counts,
        lambda counts: counts * np.array([40, 1])[:, None, None],
        lambda counts: counts + np.array([[[-90, 90], [0, 0]]] * 2),
    ],
    ids=["more records than there were", "in one group", "fewer than none in a cell"],
)
def test_counts_that_no_split_of_the_sizes_explains_are_noticed(saved_as, change):
    """All else, tau first, follows from the counts; so many more records make it look far more certain."""
    folder = saved_as("parity alone")

    def forged(files):
        files.certificate["counts"] = change(np.array(files.certificate["counts"])).tolist()
        recompute(files.certificate)

    forge(folder, forged)
    assert "certificate's counts" in failed(folder)


def test_counts_of_a_fresh_table_that_its_size_does_not_explain_are_noticed(saved_as):
    folder = saved_as("parity alone")

    def forged(files):
        certificate = files.certificate
        first = {"confidence": certificate["confidence"], "epsilon": certificate["epsilon"], "tau": {}}
        certificate["about"]["records"] = {
            **{"group_sizes": files.privacy["group_sizes"], "sizes_epsilon": 0.0, "kind": "fresh"},
            **{"assumed": ["unused_unchecked"], "earlier": [first]},
        }
        certificate["counts"] = (3 * np.array(certificate["counts"])).tolist()
        certificate["expected_sizes"] = [float(np.sum(group)) / 3 for group in certificate["counts"]]
        recompute(certificate)

    forge(folder, forged)
    assert "certificate's counts" in failed(folder)


def folder_of(rng, draw, *, size, fraction, epsilon, noise):
    """The records of a true folder about one group, as `counts_check` reads it, and its counts."""
    trained = rng.binomial(size, 1 - fraction)
    held_out = size - trained
    epsilon_of_sizes, std = noise
    if epsilon_of_sizes:
        planned = max(1.0, float(trained + discrete_laplace(epsilon_of_sizes, draw)))
    else:
        planned = max(1.0, float(trained + round(rng.normal(0, std)))) if std else (1 - fraction) * size
    cells = rng.multinomial(held_out, rng.dirichlet(np.ones(4)))
    counts = [int(cell) + discrete_laplace(epsilon, draw) for cell in cells]
    mechanism = SimpleNamespace(counts_std=std)
    privacy = SimpleNamespace(
        group_sizes="public",
        planned_sizes={"f": planned},
        counts_epsilon=epsilon_of_sizes,
        certify_fraction=fraction,
        mechanisms={"f": mechanism},
    )
    certificate = SimpleNamespace(
        n_looks=1,
        expected_trials=1.0,
        score_share=0.0,
        group_names=("f",),
        epsilon_by_group={"f": epsilon},
        counts=[[counts[:2], counts[2:]]],
        expected_sizes=(planned * fraction / (1 - fraction),),
        about=SimpleNamespace(records=HeldOutRecords(fraction=fraction, look=1)),
    )
    return SimpleNamespace(privacy=privacy, cells_of=lambda name: [name]), certificate


CASES = [
    {"size": size, "fraction": fraction, "epsilon": epsilon, "noise": noise}
    for size in (0, 3, 60, 2000)
    for fraction in (0.05, 0.2, 0.7)
    for epsilon in (0.05, 1.0)
    for noise in ((0.0, 0.0), (0.05, 0.0), (0.0, 37.0))
]


def test_true_folders_are_not_refused():
    """Of 7,200 draws none may be: the chance of one is at most 7e-6."""
    rng, draw = np.random.default_rng(0), keyed_below(bytes(32), "true folders")
    for case in CASES * 100:
        recorded, certificate = folder_of(rng, draw, **case)
        assert counts_check(recorded, certificate).passed, (case, certificate.counts)


@pytest.mark.parametrize("noise", [(0.0, 0.0), (0.05, 0.0), (0.0, 37.0)], ids=["exact", "Laplace", "Gaussian"])
def test_that_check_notices_half_and_twice_as_many(noise):
    """Of a group of 5,000, with a fifth held out."""
    rng, draw = np.random.default_rng(0), keyed_below(bytes(32), "forged folders")
    case = {"size": 5000, "fraction": 0.2, "epsilon": 1.0, "noise": noise}
    for factor in (0.5, 2.0):
        recorded, certificate = folder_of(rng, draw, **case)
        certificate.counts = [[[int(factor * count) for count in row] for row in certificate.counts[0]]]
        assert not counts_check(recorded, certificate).passed


@pytest.mark.parametrize(("group_sizes", "passed"), [("declared", True), ("public", False)])
def test_sizes_that_were_declared_may_be_wrong(group_sizes, passed):
    rng, draw = np.random.default_rng(0), keyed_below(bytes(32), "declared")
    recorded, certificate = folder_of(rng, draw, size=5000, fraction=0.2, epsilon=1.0, noise=(0.0, 0.0))
    recorded.privacy.planned_sizes, recorded.privacy.group_sizes = {"f": 50_000.0}, group_sizes
    assert counts_check(recorded, certificate).passed is passed


def test_the_intervals_are_as_wide_as_they_say():
    """Against the exact tails: at most the stated chance, and no more than twice as wide as need be."""
    log = math.log(2 / FALSE_REFUSAL)
    for n_records, fraction in ((50, 0.2), (5000, 0.2), (100_000, 0.05)):
        reach, law = split_reach(n_records, fraction, log), stats.binom(n_records, fraction)
        mean = n_records * fraction
        assert law.sf(math.floor(mean + reach)) + law.cdf(math.ceil(mean - reach) - 1) <= FALSE_REFUSAL
        assert law.sf(math.floor(mean + reach / 2)) > FALSE_REFUSAL / 2
    for epsilon in (0.05, 1.0):
        reach, law = laplace_reach(epsilon, 1, log), stats.dlaplace(epsilon)
        assert 2 * law.sf(math.floor(reach)) <= FALSE_REFUSAL
        assert 2 * law.sf(math.floor(reach / 2)) > FALSE_REFUSAL
        four = law.pmf(np.arange(-4000, 4001))
        four = np.convolve(np.convolve(four, four), np.convolve(four, four))
        tail = four[16_000 + math.floor(laplace_reach(epsilon, 4, log)) + 1 :].sum()
        assert 2 * tail <= FALSE_REFUSAL


def test_a_schema_that_nobody_declared_is_among_the_assumptions(tmp_path):
    X, y, sex = people()
    data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
    for declared, assumed in ((False, (READ_FROM_TABLE,)), (True, ()), (False, ())):
        model = FairDPClassifier(**SHORT, random_state=0)
        model.fit_grouped(data, feature_schema={**SCHEMA, "declared": declared}, public_assumptions=assumed)
        model.save(tmp_path / "model", overwrite=True)
        assert (READ_FROM_TABLE in model.privacy_.public_assumptions) != declared
        assert failed(tmp_path / "model") == set()


def test_an_assumption_about_the_schema_that_was_dropped_is_noticed(tmp_path):
    X, y, sex = people()
    data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
    model = FairDPClassifier(**SHORT, random_state=0)
    model.fit_grouped(data, feature_schema={**SCHEMA, "declared": False}, public_assumptions=(READ_FROM_TABLE,))
    model.save(tmp_path / "model")
    forge(tmp_path / "model", lambda files: files.privacy["public_assumptions"].clear())
    assert failed(tmp_path / "model") == {"assumptions"}


def read_with_noise(folder, method="dpsgd"):
    X, y, sex = people()
    data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
    settings = SHORT | {"method": method, "epsilon": 2.0}
    model = FairDPClassifier(**settings, random_state=0)
    reading = reading_for(PrivacyBudget(epsilon=2.0, delta=model.delta), 5)
    model.fit_grouped(data, feature_schema={**SCHEMA, "declared": False}, reading=reading)
    model.save(folder)
    return model


@pytest.mark.parametrize("method", ["dpsgd", "fairfm", "fairdp_frontier"])
def test_a_schema_that_was_paid_for_is_verified_and_no_assumption(tmp_path, method):
    model = read_with_noise(tmp_path / "model", method)
    assert failed(tmp_path / "model") == set()
    assert model.privacy_.public_assumptions == ()
    assert model.privacy_.epsilon <= 2.0
    assert "(2, 1e-05)-differentially private" in model.privacy_statement()
    alone = reading_epsilon(model.privacy_.reading, model.delta)
    for spent in model.privacy_.certify_epsilons.values():
        assert spent + alone <= model.privacy_.epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (lambda reading: None, {"assumptions", "epsilon", "plan"}),
        (lambda reading: {**reading, "n_columns": 2}, {"assumptions", "plan"}),
        (lambda reading: {**reading, "std": 2 * reading["std"]}, {"plan"}),
        (lambda reading: {**reading, "threshold": 900}, {"plan"}),
    ],
    ids=["left out", "fewer columns than are named", "more noise", "a higher threshold"],
)
def test_a_reading_that_was_made_cheaper_is_noticed(tmp_path, change, noticed):
    folder = tmp_path / "model"
    read_with_noise(folder)

    def forged(files):
        files.privacy["reading"] = changed = change(files.privacy["reading"])
        for mechanism in files.privacy["mechanisms"].values():
            mechanism["reading"] = changed

    forge(folder, forged)
    assert failed(folder) >= noticed


@pytest.mark.parametrize(("factor", "wrong"), [(1.01, {"heads"}), (0.5, set())])
def test_heads_beyond_the_bound_are_noticed(saved_as, factor, wrong):
    """Each is brought to a norm of this many times the bound, and the certificate speaks of the new parameters."""
    folder = saved_as("parity alone")
    model = json.loads((folder / "model.json").read_text())
    n_heads, width = model["heads"]
    tensors = load((folder / "model.safetensors").read_bytes())
    heads = tensors["params"][-n_heads * width :].reshape(n_heads, width)
    heads *= factor * model["parameters"]["weight_bound"] / np.linalg.norm(heads, axis=1, keepdims=True)
    save_file(tensors, folder / "model.safetensors")

    def about_this_model(files):
        files.certificate["about"]["model_sha256"] = sha256(folder / "model.safetensors")
        reword(files.certificate)

    forge(folder, about_this_model)
    tie(folder)
    sum_up(folder)
    assert failed(folder) == wrong


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("description", lambda files: files.model.update(classes=["x", "y", "z"])),
        ("description", lambda files: files.model.update(notes={"epsilon": 0.01})),
        ("description", lambda files: files.model.update(feature_names=["a"])),
    ],
    ids=["three labels", "notes of its own", "too few names"],
)
def test_a_description_that_is_not_the_models_is_noticed(saved_as, name, change):
    folder = saved_as("parity alone")
    forge(folder, change)
    assert name in failed(folder)


def test_sizes_that_nobody_can_have_counted_are_noticed():
    from fairdp.saved.verify import _sizes

    for n, passed in ((74.6128, True), (200.0, True), (20.5, False), (200.4, False)):
        privacy = SimpleNamespace(
            group_sizes="noisy", counts_epsilon=0.0, counts_std=37.3064, planned_sizes={"f": n, "m": 300.0}
        )
        assert _sizes(privacy).passed == passed

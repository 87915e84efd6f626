"""Privacy defects, each put back by a small patch, and what the replay must find of it.

Some were in fairdp and were mended; the others are what programs of this kind have got wrong.
"""

import copy
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairdp.config import Preregistration
from fairdp.data import tables
from fairdp.data.columns import Numeric
from fairdp.frontier import curve as sketch
from fairdp.networks import gradients as backprop
from fairdp.networks import model as building
from fairdp.networks import model as models
from fairdp.randomness import KEY_BYTES, Stream
from fairdp.releases import release
from fairdp.run import certifying, fit, plan
from fairdp.run import fit as running
from fairdp.training import loop, noise, sums
from fairdp.training import sums as surveys
from fairdp.training.noise import MARGIN, PoissonSampler, gradient_norms
from fairdp.training.sums import Sums
from fairdp_lab.audit.replay import ReplayReport, replay_route
from fairdp_lab.audit.routes import N_FEATURES, OwnForward, fit_file, route_of

Patch = Callable[[], AbstractContextManager[Any]]

SEED = 3
TYPICAL = ("typical f", "typical m", "typical x", "one label", "the other label", "equal to another")


@dataclass(frozen=True, kw_only=True)
class Defect:
    """One defect, the route on which it shows, and words of what is found.

    ``refused`` says that the program refuses, in one line, what would bring it about; ``chosen``, that users may choose
    it themselves, and are then told so.
    """

    name: str
    patch: Patch
    found: str
    mended: bool = False
    refused: bool = False
    chosen: bool = False
    method: str = "dpsgd"
    route: str = "file"
    kinds: tuple[str, ...] = TYPICAL
    settings: dict[str, Any] = field(default_factory=dict)

    def replayed(self) -> ReplayReport:
        """The route of this defect as the program is now."""
        route = route_of(self.method, self.route, fit_file, quick=True, **copy.deepcopy(self.settings))
        return replay_route(self.method, route, seed=SEED, kinds=("the same table", *self.kinds))

    def put_back(self) -> ReplayReport:
        """The same with the defect."""
        with self.patch():
            return self.replayed()


def _instead(owner: Any, name: str, change: Callable[[Any], Any]) -> Patch:
    """A patch that puts a changed form of a function in its place."""
    return lambda: patch.object(owner, name, change(getattr(owner, name)))


# The old reader: a column's type, and with it what a code is, came from the whole file.


def typed_by_the_whole_file(path: Any, schema: Any, **options: Any) -> Any:
    frame = pd.read_csv(path, encoding="utf-8-sig", skipinitialspace=True, index_col=False, low_memory=False)
    codes = next(column for column in schema.columns if column.name == "code")
    texts = frame["code"].map(lambda value: str(int(value)) if isinstance(value, float) else str(value))
    frame["code"] = texts.where(texts.isin(codes.categories), codes.other)
    return tables.encode_table(frame, schema)


def bounds_from_the_rows(read: Any) -> Any:
    def encoded(self: Numeric, values: pd.Series) -> Any:
        numbers = pd.to_numeric(values, errors="coerce").astype(float)
        return read(replace(self, high=max(self.low + 1, float(numbers[np.isfinite(numbers)].max()))), values)

    return encoded


# Modules that bring along what an earlier run has learnt, or that let records meet.


@dataclass(eq=False)
class UsedAgain:
    """A builder that returns the same module every time."""

    net: nn.Module = field(default_factory=OwnForward)

    def __call__(self) -> nn.Module:
        return self.net


class Centred(nn.Module):
    """Takes off every batch its own mean."""

    def forward(self, records: Tensor) -> Tensor:
        return records - records.mean(0)


def mixing() -> nn.Module:
    return nn.Sequential(nn.Linear(N_FEATURES, 3), Centred(), nn.Tanh(), nn.Linear(3, 2))


@contextmanager
def without_checks_of_layers() -> Iterator[None]:
    with (
        patch.object(backprop, "check_records_stay_apart", lambda model: None),
        patch.object(models, "keeps_records_apart", lambda extractor: True),
        patch.object(backprop, "_agree", lambda *routes: True),
    ):
        yield


@contextmanager
def without_checks_of_freshness() -> Iterator[None]:
    with ExitStack() as stack:
        for name in ("check_untrained", "check_fresh_weights"):
            if hasattr(building, name):
                stack.enter_context(patch.object(building, name, lambda *modules: None))
        yield


# Which records go where.


def shuffled_split(_: Any) -> Any:
    def split(data: Any, *, seed: int, share: float) -> Any:
        order = np.random.default_rng(seed).permutation(data.n_samples)
        n_second = round(share * data.n_samples)
        return data.take(np.sort(order[n_second:])), data.take(np.sort(order[:n_second]))

    return split


def trained_on_everybody(original: Any) -> Any:
    def parts(settings: Any, data: Any, *args: Any, **more: Any) -> Any:
        return replace(original(settings, data, *args, **more), train=data)

    return parts


def planned_with_exact_sizes(original: Any) -> Any:
    def parts(*args: Any, **more: Any) -> Any:
        found = original(*args, **more)
        return replace(found, sizes=tuple(float(size) for size in found.train.group_sizes))

    return parts


# The step.


def everybody_sampled(original: Any) -> Any:
    def sampler(groups: Any, sample_rates: Any, **more: Any) -> PoissonSampler:
        return original(groups, (1.0,) * len(sample_rates), **more)

    return staticmethod(sampler)


@torch.inference_mode()
def scaled_to_the_longest(terms: Any, weights: Tensor, *, clip_norm: Any, total: Tensor, norms: Any = None) -> None:
    norms = gradient_norms(terms)
    coefficients = weights * (clip_norm * MARGIN / norms[norms.isfinite()].max()).clamp(max=1.0)
    for term in terms:
        term.add_weighted_sum(coefficients, total)


@torch.inference_mode()
def not_clipped(terms: Any, weights: Tensor, *, clip_norm: Any, total: Tensor, norms: Any = None) -> None:
    for term in terms:
        term.add_weighted_sum(weights, total)


def divided_by_the_batch(original: Any) -> Any:
    def clipped(self: Sums, batch: Any, memory: Any, n_members: int = 1) -> Any:
        found = original(self, batch, memory, n_members)
        size = max(1, sum(len(block.chosen) for block in batch))
        return replace(found, total=found.total * (float(self.recipe.expected_batch_sizes.sum()) / size))

    return clipped


def rows_as_they_are(rows: Tensor, counts: Tensor) -> Tensor:
    return (2 * rows.double() * counts[:, None]).sum(0)


def noise_from_the_records(original: Any) -> Any:
    def noisy(bounded: Any, noise_std: float, **more: Any) -> Tensor:
        return original(bounded, noise_std * (1 + float(bounded.total.abs().max())), **more)

    return noisy


def the_same_noise(original: Any) -> Any:
    def noisy(*args: Any, stream: Stream, **more: Any) -> Tensor:
        return original(*args, stream=Stream(bytes(KEY_BYTES)), **more)

    return noisy


def every_other_steps_noise(original: Any) -> Any:
    n_releases = 0

    def noisy(*args: Any, stream: Stream, **more: Any) -> Tensor:
        nonlocal n_releases
        n_releases += 1
        return original(*args, stream=Stream(bytes([n_releases % 2]) * KEY_BYTES), **more)

    return noisy


def half_the_draws(original: Any) -> Any:
    def noisy(exact: Any, noise_std: float, stream: Stream) -> Any:
        drawn = original(np.zeros(-(-len(exact) // 2)), noise_std, stream)
        return exact + np.concatenate([drawn, drawn])[: len(exact)]

    return noisy


def released_twice(original: Any) -> Any:
    def noisy(*args: Any, stream: Stream, **more: Any) -> Tensor:
        return (original(*args, stream=stream, **more) + original(*args, stream=stream.beside(1), **more)) / 2

    return noisy


def less_noise_than_said(original: Any) -> Any:
    def noisy(exact: Any, noise_std: float, stream: Stream) -> Any:
        return original(exact, noise_std / 2, stream)

    return noisy


# Queries.


def left_as_it_is(bounded: Any, noise_std: float, **more: Any) -> Tensor:
    return bounded.total.float()


def bounded_by_one_column(original: Any) -> Any:
    def found(n_points: int) -> Any:
        root, _ = original(n_points)
        return root, float(np.linalg.norm(root, axis=0).max())

    return found


# Counts and what is written.


def counts_at_twice_the_epsilon(original: Any) -> Any:
    def counts(exact: Any, *, epsilon: Any, **more: Any) -> Any:
        doubled = tuple(2 * each for each in epsilon) if isinstance(epsilon, tuple) else 2 * epsilon
        return original(exact, epsilon=doubled, **more)

    return counts


def without_the_share_of_scores(_: Any) -> Any:
    return lambda self, epsilons: tuple(epsilon / self.n_looks for epsilon in epsilons)


def scores_of_the_trained(original: Any) -> Any:
    def scored(run: Any, certificate: Any) -> Any:
        return original(replace(run, parts=replace(run.parts, held_out=run.parts.train)), certificate)

    return scored


def accounted_as_if_with_more_noise(original: Any) -> Any:
    def spent(*args: Any, **more: Any) -> Any:
        found = original(*args, **more)
        claimed = {
            name: replace(mechanism, noise_multiplier=1.5 * mechanism.noise_multiplier)
            for name, mechanism in found.mechanisms.items()
        }
        return replace(found, mechanisms=claimed)

    return spent


def stopped_by_exact_counts(original: Any) -> Any:
    def breached(run: Any, trainer: Any) -> bool:
        odd = run.parts.held_out.n_samples % 2 and trainer.state.step > 5
        return bool(original(run, trainer) or odd)

    return breached


def without_the_heads_of_looks(original: Any) -> Any:
    """An account of the steps that are trained on, and of no others."""

    def spent(planned: Any, *names: Any, **options: Any) -> Any:
        found = original(planned, *names, **options)
        trained = {name: replace(one, n_steps=planned.n_steps) for name, one in found.mechanisms.items()}
        return replace(found, mechanisms=trained, n_steps=planned.n_steps, look_steps=0)

    return spent


def noted(note: Callable[[Any], list[float]]) -> Callable[[Any], Any]:
    """A run that writes something about its records into its notes, which are saved."""

    def change(original: Any) -> Any:
        return lambda run, *given, **named: replace(
            original(run, *given, **named), notes={"note": note(run.parts.train)}
        )

    return change


def counted_besides(original: Any) -> Any:
    def run(*given: Any, **named: Any) -> Any:
        begun = original(*given, **named)
        sizes = begun.parts.train.group_sizes
        drawn = np.random.default_rng(0).laplace(size=len(sizes))
        release(sizes + drawn, purpose="sizes", law="laplace", scale=1.0, exact=sizes.astype(float))
        return begun

    return run


def _hash(data: Any) -> list[float]:
    return [float(int.from_bytes(hashlib.sha256(data.X.tobytes()).digest()[:6], "little"))]


DEFECTS = (
    Defect(
        name="a column's type comes from the whole file",
        mended=True,
        patch=lambda: patch.object(tables, "encode_file", typed_by_the_whole_file),
        kinds=("a word among codes",),
        found="one record moves it by",
    ),
    Defect(
        name="a module that is used again",
        mended=True,
        patch=without_checks_of_freshness,
        route="own forward",
        settings={"module": UsedAgain()},
        refused=True,
        found="in place of",
    ),
    Defect(
        name="group sizes that are counted exactly and said to be public",
        mended=True,
        patch=ExitStack,
        chosen=True,
        settings={"group_sizes": "public"},
        found="noise depends on the records",
    ),
    Defect(
        name="plans and files with exact sizes beside noisy ones",
        mended=True,
        patch=_instead(running, "hold_out", planned_with_exact_sizes),
        method="fairfm",
        found="$.planned_sizes",
    ),
    Defect(
        name="an exact count of the records in a file",
        mended=True,
        patch=_instead(running, "finish", noted(lambda data: [float(data.n_samples)])),
        found="$.notes.note[0]",
    ),
    Defect(
        name="a hash of the records in a file",
        mended=True,
        patch=_instead(running, "finish", noted(_hash)),
        found="$.notes.note[0]",
    ),
    Defect(
        name="an exact mean of the records in a file",
        patch=_instead(running, "finish", noted(lambda data: [float(data.X.mean())])),
        found="$.notes.note[0]",
    ),
    Defect(
        name="bounds of a column read from the rows",
        patch=_instead(Numeric, "read", bounds_from_the_rows),
        kinds=("numbers beyond the bounds", "largest numbers", "huge numbers"),
        found="one record moves it by",
    ),
    Defect(
        name="a split by a shuffle",
        patch=_instead(running, "split_by_own_coin", shuffled_split),
        found="one record moves it by",
    ),
    Defect(
        name="held-out records that are trained on too",
        patch=_instead(running, "hold_out", trained_on_everybody),
        found="held out and trained on",
    ),
    Defect(
        name="batches with everybody, accounted at the rate",
        patch=_instead(PoissonSampler, "of_groups", everybody_sampled),
        settings={"n_steps": 60},
        found="which a rate of",
    ),
    Defect(
        name="gradients that are not clipped",
        patch=lambda: patch.object(sums, "clip_and_add", not_clipped),
        settings={"model": "logistic", "clip_norm": 0.1},
        found="one record moves it by",
    ),
    Defect(
        name="one factor for the whole batch, by its longest gradient",
        patch=lambda: patch.object(sums, "clip_and_add", scaled_to_the_longest),
        route="arrays",
        kinds=("largest numbers", "numbers beyond the bounds", "huge numbers"),
        found="one record moves it by",
    ),
    Defect(
        name="a sum divided by the size of the batch",
        patch=_instead(Sums, "clipped_gradients", divided_by_the_batch),
        settings={"clip_norm": 0.02, "n_steps": 60},
        found="one record moves it by",
    ),
    Defect(
        name="statistics that are not bounded",
        patch=lambda: patch.object(sums, "bounded_rows", rows_as_they_are),
        method="raco_dp",
        found="one record moves it by",
    ),
    Defect(
        name="layers that let records meet",
        patch=without_checks_of_layers,
        route="own forward",
        settings={"module": mixing},
        kinds=("largest numbers", "numbers beyond the bounds", "huge numbers"),
        refused=True,
        found="one record moves it by",
    ),
    Defect(
        name="noise whose scale depends on the records",
        patch=_instead(loop, "add_gaussian_noise", noise_from_the_records),
        found="noise depends on the records",
    ),
    Defect(
        name="the same noise in every step",
        patch=_instead(loop, "add_gaussian_noise", the_same_noise),
        found="repeats the noise",
    ),
    Defect(
        name="the noise of the step before last",
        patch=_instead(loop, "add_gaussian_noise", every_other_steps_noise),
        found="repeats the noise",
    ),
    Defect(
        name="the same noise in both halves of a vector",
        patch=_instead(noise, "round_with_gaussian", half_the_draws),
        found="repeats its own noise",
    ),
    Defect(
        name="half the noise that is stated",
        patch=_instead(noise, "round_with_gaussian", less_noise_than_said),
        found="not of the stated law and scale",
    ),
    Defect(
        name="a gradient that is released twice",
        patch=_instead(loop, "add_gaussian_noise", released_twice),
        found="one step more than",
    ),
    Defect(
        name="looks at twice the ε that is accounted",
        patch=_instead(certifying, "release_counts", counts_at_twice_the_epsilon),
        # Looks and scores are paid for together, so that the last of them is named.
        found="(scores): one record moves it by",
    ),
    Defect(
        name="a histogram at twice the ε that is accounted",
        patch=_instead(certifying, "release_counts", counts_at_twice_the_epsilon),
        method="dp_postprocess",
        found="(histogram)",
    ),
    Defect(
        name="scores counted on top of looks that spend everything",
        patch=_instead(Preregistration, "per_look", without_the_share_of_scores),
        found="(scores): one record moves it by",
    ),
    Defect(
        name="scores of the records that were trained on",
        patch=_instead(certifying, "_with_scores", scores_of_the_trained),
        found="held out and trained on",
    ),
    Defect(
        name="more noise accounted than added",
        patch=_instead(plan, "privacy_spent", accounted_as_if_with_more_noise),
        settings={"clip_norm": 0.1},
        found="one record moves it by",
    ),
    Defect(
        name="surveys without noise",
        patch=lambda: patch.object(surveys, "add_gaussian_noise", left_as_it_is),
        method="fairdp_frontier",
        found="$.frontier.cell_sizes",
    ),
    Defect(
        name="a sketch with the sensitivity of a single column",
        patch=_instead(sketch, "prefix_root", bounded_by_one_column),
        method="fairdp_frontier",
        route="arrays, two groups",
        found="(frontier)",
    ),
    Defect(
        name="training that ends by an exact count",
        patch=_instead(fit, "breached", stopped_by_exact_counts),
        method="fairdp",
        found="in place of",
    ),
    Defect(
        name="heads of looks that nobody accounts for",
        patch=_instead(plan, "privacy_spent", without_the_heads_of_looks),
        method="fairdp",
        route="looks",
        found="one step more than the 20 that are accounted",
    ),
    Defect(
        name="a noisy count that nobody accounts for",
        patch=_instead(running, "begin", counted_besides),
        found="(sizes)",
    ),
)

# Mended defects that no replay can show, each with the test that fails when it is put back.
FOUND_BY_TESTS = {
    "the same person gets another decision in another file": (
        "tests/data/test_rows_alone.py::test_a_person_gets_the_same_decision_whoever_else_is_in_the_file"
    ),
    "rows that are encoded together differ from rows encoded alone": (
        "tests/data/test_rows_alone.py::test_that_check_notices_columns_that_are_typed_as_a_whole"
    ),
    "trials of a search that share a module": (
        "tests/networks/test_models.py::test_no_trial_of_a_search_shares_a_module"
    ),
    "noisy sizes that are not paid for": (
        "tests/methods/test_independent_accounting.py::test_that_check_notices_sizes_that_are_not_paid_for"
    ),
    "a folder with counts that no split explains": (
        "tests/saved/verify/test_contradictions.py::test_counts_that_no_split_of_the_sizes_explains_are_noticed"
    ),
    "a folder that does not say that its schema was inferred": (
        "tests/saved/verify/test_contradictions.py::test_an_assumption_about_the_schema_that_was_dropped_is_noticed"
    ),
    "a folder with heads beyond their bound": (
        "tests/saved/verify/test_contradictions.py::test_heads_beyond_the_bound_are_noticed"
    ),
    "weights that another thread draws": "tests/test_threads.py::test_that_check_notices_the_global_generator",
    "test records chosen by a key that everybody knows": (
        "tests/cli/test_split_keys.py::test_rows_that_were_chosen_by_a_known_key_are_tested_no_more_often_than_others"
    ),
    "ε by PLD at a δ too small for it": (
        "tests/accounting/test_spent.py::test_at_a_tiny_delta_the_moments_accountant_is_stated"
    ),
    'a schema whose declared: "false" is true': (
        "tests/data/test_schema.py::test_only_truth_values_say_whether_a_schema_is_declared"
    ),
    "tied layers that are refused after they have been paid for": (
        "tests/networks/test_models.py::test_tied_layers_are_refused_before_anything_is_released"
    ),
    "norms of long tensors in single precision": (
        "tests/networks/test_backprop.py::test_that_check_notices_a_norm_in_single_precision"
    ),
    "used records that pass as fresh": "tests/test_honesty.py::test_not_one_used_record_passes_as_fresh",
    "a comparison folder that identifies a user's records": (
        "tests/lab/test_compare.py::test_nothing_in_the_folder_identifies_a_users_records_without_the_key"
    ),
    "a checkpoint that reveals noise already added": (
        "tests/test_streams.py::test_that_check_notices_a_generator_that_runs_backwards"
    ),
}

"""Everything that is decided before the first step of a run."""

from dataclasses import dataclass, field, replace

from fairdp._checks import ParameterError
from fairdp.accounting.plan import Plan
from fairdp.accounting.reading import Reading
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import PrivacySpent
from fairdp.config.certificate import SMALLEST_EPSILON
from fairdp.config.model import ModelConfig
from fairdp.config.training import TrainConfig
from fairdp.data.encoded_columns import EncodedColumns
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.building import build_model
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.run.agreement import agree_on_run
from fairdp.run.checkpoint import Checkpoint, fingerprint_of, network_digest, resumed_checkpoint
from fairdp.run.hold_out import Parts, hold_out
from fairdp.run.plan import PlannedRun, plan_of_parts
from fairdp.run.predictor import Predictor
from fairdp.run.progress import Progress
from fairdp.run.resuming import check_resumable, check_sizes
from fairdp.run.settings import RunSettings
from fairdp.streams import Chain
from fairdp.team import the_team


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Marks a run as one of several, of which the best will be kept.

    Parameters
    ----------
    split_key
        Secret of the coins that hold records out, the same for all trials.
    sizes
        Sizes of the groups that all trials are planned with, counted once.
    selection
        What the choice spends.
    """

    split_key: bytes = field(repr=False)
    sizes: tuple[float, ...]
    selection: Selection


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRun:
    """A run before its first step: which records it trains on, how, with what noise, and what will be promised.

    The model is trained in place. The predictor is the rule that will decide, before any certificate changes it. The
    fingerprint is that of its checkpoints; empty if none are written.
    """

    settings: RunSettings
    parts: Parts
    generators: Generators
    config: TrainConfig
    plan: Plan
    privacy: PrivacySpent
    model_config: ModelConfig
    model: ScoreModel
    predictor: Predictor
    resumed: Checkpoint | None
    fingerprint: str


def prepare_run(
    settings: RunSettings,
    data: GroupedData,
    progress: Progress,
    *,
    public_assumptions: tuple[str, ...] = (),
    columns: EncodedColumns | None = None,
    reading: Reading | None = None,
    trial: Trial | None = None,
) -> PreparedRun:
    """Hold records out, plan for the rest, and build the model; the columns may have been read with noise before."""
    if trial is not None:
        settings = settings.as_trial(trial.selection.expected_trials)
    settings.check_weighted(data.weights is not None)
    agree_on_run(settings, data)
    settings = settings.with_budget(settings.kind(data.X.shape[1:]), data.n_groups)
    generators, resumed = _start(settings, progress)
    # Sizes that were released before must not be counted a second time.
    known = _sizes_of(resumed, settings, data) if resumed is not None else trial.sizes if trial is not None else None
    parts = hold_out(settings, data, generators, split_key=trial.split_key if trial else None, sizes=known)
    progress.observe_parts(parts.train, parts.held_out)
    shape = data.X.shape[1:]
    planned = plan_of_parts(
        settings,
        parts,
        shape,
        seeded=generators.seeded,
        public_assumptions=public_assumptions,
        reading=reading,
        selection=trial.selection if trial else None,
    )
    model_config = settings.model_config(shape, columns, data.n_groups)
    check_certifiable(planned.privacy, n_looks=settings.certification.registration.n_looks)
    model = build_model(model_config, shape, settings.module, generators.start_seed)
    model.smoothing = settings.smoothing(planned.config, generators)
    the_team().agree(bytes.fromhex(network_digest(model)), "another network")
    fingerprint = _fingerprint(settings, parts, planned, model) if progress.checkpoint is not None else ""
    if resumed is not None:
        check_resumable(
            resumed,
            model,
            planned.plan,
            planned.config,
            fingerprint=fingerprint,
            n_groups=data.n_groups,
            n_looks=settings.certification.registration.n_looks if parts.fraction else 1,
        )
    # After all that may be refused.
    progress.observe_plan(replace(planned, run=generators.key("run").hex()))
    return PreparedRun(
        settings=settings,
        parts=parts,
        generators=generators,
        config=planned.config,
        plan=planned.plan,
        privacy=planned.privacy,
        model_config=model_config,
        model=model,
        predictor=_predictor(settings, generators),
        resumed=resumed,
        fingerprint=fingerprint,
    )


def _sizes_of(resumed: Checkpoint, settings: RunSettings, data: GroupedData) -> tuple[float, ...]:
    """The sizes that a checkpoint's run was planned with."""
    check_sizes(resumed, data.n_groups * (1 if settings.training["grouping"] == "attribute" else 2))
    return resumed.record.group_sizes


def _fingerprint(settings: RunSettings, parts: Parts, planned: PlannedRun, model: ScoreModel) -> str:
    fixed = (settings.method, settings.certification, settings.predictor)
    return fingerprint_of([parts.train, parts.held_out], planned.plan, planned.config, model, fixed=fixed)


def _start(settings: RunSettings, progress: Progress) -> tuple[Generators, Checkpoint | None]:
    """Sources of randomness, and the checkpoint to continue from, whose secret key is used again."""
    if progress.checkpoint is not None and not METHODS[settings.method].is_one_run:
        raise ParameterError("method", settings.method, "writes no checkpoints", "leave out `checkpoint`")
    generators, resumed = Generators.of(settings.seed), resumed_checkpoint(progress)
    if resumed is not None:
        seeded = generators.seeded or resumed.record.seeded
        generators = Generators(lasting_key=resumed.lasting_key, steps=Chain(resumed.present_key), seeded=seeded)
    return generators, resumed


def _predictor(settings: RunSettings, generators: Generators) -> Predictor:
    """The decision rule, with a key if it tosses coins or may come to do so."""
    tosses = settings.predictor.tosses_coins or settings.certification.target_tau is not None
    if not tosses and not METHODS[settings.method].post_processes:
        return settings.predictor
    return replace(settings.predictor, key=generators.key("people").hex())


def check_certifiable(privacy: PrivacySpent, *, n_looks: int) -> None:
    """Before training, refuse a group whose certification records may spend next to nothing on a look."""
    for name, epsilon in privacy.certify_epsilons.items():
        if epsilon / n_looks < SMALLEST_EPSILON:
            raise ParameterError(
                "epsilon",
                float(f"{epsilon:.2g}"),
                f"is all that group {name!r} has, too small to certify",
                "use `noise_allocation`='per_group', or `certify_fraction`=0 for no certificate",
            )

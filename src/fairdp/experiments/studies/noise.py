"""Where a step's noise goes: groups weighted by their size or equally, sampled alike or equally often."""

from itertools import product

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config.training import TrainConfig
from fairdp.experiments.studies.results import Findings, Run, table
from fairdp.methods.dp_is_sgd import dp_is_sgd
from fairdp.methods.dpsgd import dpsgd
from fairdp.methods.fairdp import fairdp

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
N_STEPS = 300
GROUPS = {
    "Adult, 2 groups": (10_771, 21_790),
    "Adult, 4 groups": (2_129, 8_642, 2_616, 19_174),
    "Default-CCC": (9_510, 14_490),
    "90 : 10": (27_000, 3_000),
    "50 : 30 : 15 : 5": (15_000, 9_000, 4_500, 1_500),
    "8 equal groups": (3_750,) * 8,
}
RATES = (0.02, 0.1, 0.3)
ALLOCATIONS = {
    "pooled": (dpsgd, "average"),
    "balanced, one draw": (fairdp, "average"),
    "balanced, a draw for every group": (fairdp, "per_group"),
    "sampled equally often": (dp_is_sgd, "average"),
}


def noise_study(run: Run) -> Findings:
    """Standard deviation of the noise on the gradient, over the clip norm, at one budget."""
    rows, lines = [], []
    for sample_rate, (name, sizes) in product(RATES[1:2] if run.quick else RATES, GROUPS.items()):
        noise = noise_of(sizes, sample_rate)
        rows.append({"groups": name, "sample_rate": sample_rate, "sizes": list(sizes), **noise})
        shown = {allocation: f"{std:.5f}" for allocation, std in noise.items()}
        lines.append({"groups": name, "q": f"{sample_rate:g}", **shown})
    text = (
        f"ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:g}, {N_STEPS} steps. Pooled: every record weighs alike (`dpsgd`, "
        "`fairdp_parity`). Balanced: every group weighs alike (`fairdp`), with either `noise_allocation`. "
        f"Sampled equally often: a rate for every group (`dp_is_sgd`).\n\n{table(lines)}"
    )
    return Findings({"epsilon": BUDGET.epsilon, "n_steps": N_STEPS, "rows": rows}, text)


def noise_of(sizes: tuple[int, ...], sample_rate: float) -> dict[str, float]:
    """The standard deviation by allocation."""
    found = {}
    for name, (recipe, allocation) in ALLOCATIONS.items():
        config = TrainConfig(
            sample_rate=sample_rate, n_steps=N_STEPS, clip_norm=1.0, learning_rates=(1.0,), noise_allocation=allocation
        )
        plan = make_plan(recipe(config, tuple(float(size) for size in sizes)), BUDGET, n_steps=N_STEPS)
        found[name] = plan.noise_std
    return found

"""Whatever `fit` accepts, `predict` accepts on the same table, whatever its columns are called and hold."""

import datetime
import random
import shutil
from pathlib import Path

import pandas as pd
import pytest

from fairdp.data.infer import proposed_schema
from fairdp.data.tables import read_table
from fairdp.errors import InputError
from faults.trials import complaints, run_command

N_ROWS = 80
NAMES = (
    *("age", "", " ", "a b", " before", "after ", "é ü", "姓", "1", "1.0", "01", "True", "null", "nan", "~", "a,b"),
    *('a"b', "a=b", "a: b", "- a", "a#b", "#", "{}", "[a]", "&a", "*a", "!a", "'", "%", "@", "?", "Unnamed: 0"),
    *("x" * 300, "\t", "\u202e", "level_0", "index", "__index_level_0__", "score", "decision", "type", "name"),
    *("0x10", "1e5", "2020-01-05", "yes", "a & b"),
)
WORDS = (
    "clerk",
    "nurse",
    "1",
    "01",
    "1.0",
    "True",
    "a,b",
    "é",
    "null",
    "2020-01-05",
    "yes",
    " a",
    "b ",
    "x=y",
    "?",
    "~",
)


def whole(rng):
    return rng.randint(-3, 90)


def beyond_doubles(rng):
    return rng.choice((2**53 + 1, 2**62, -(2**60), rng.getrandbits(55)))


def beyond_words(rng):
    return rng.choice((str(2**64 + rng.randrange(5)), str(10**30), "0"))


def halves(rng):
    return rng.choice((0.5, -1e300, 1e-300, 3.25, 1e15))


def dates(rng):
    return datetime.date(1950 + rng.randrange(60), 1 + rng.randrange(12), 1 + rng.randrange(28))


def truths(rng):
    return rng.random() < 0.5


def words(rng):
    return rng.choice(WORDS)


def mixed(rng):
    return str(rng.choice((1, 1.5, "x", "2020-01-05", True)))


def some_missing(rng):
    return rng.choice((1.0, 2.0, None))


def none(rng):
    return None


CELLS = (whole, whole, beyond_doubles, beyond_words, halves, dates, truths, words, words, mixed, some_missing, none)


def table(rng):
    """A table with columns of any name and kind; the label and the group too have any name."""
    names = rng.sample(NAMES, rng.randint(3, 6))
    columns = {
        name: [cell(rng) for _ in range(N_ROWS)] for name, cell in zip(names[2:], rng.choices(CELLS, k=9), strict=False)
    }
    groups = rng.sample(WORDS[:8], 2)
    columns[names[1]] = [groups[i % 2] for i in range(N_ROWS)]
    labels = rng.choice(((0, 1), ("no", "yes"), (True, False), ("a b", "c")))
    columns[names[0]] = [rng.choice(labels) for _ in range(N_ROWS)]
    return pd.DataFrame(columns), names[0], names[1]


def fitted(path, label, group):
    """A model of the table by the schema that is proposed for it: how the command ended, or what was refused before."""
    try:
        rows = read_table(path)
        Path("schema.yaml").write_text(
            proposed_schema(rows, table=path, label=label, sensitive=(group,), positive=None), encoding="utf-8"
        )
    except InputError as error:
        return 2, f"fairdp: {error}"
    fit = ("fit", path, "--schema", "schema.yaml", "--method", "dpsgd", "--n-steps", "1", "--epsilon", "5")
    return run_command(*fit, "--certify-fraction", "0", "--no-ledger", "--out", "model")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 40), marks=pytest.mark.more)], ids=["few", "more"])
def test_what_fit_accepts_predict_accepts(tmp_path, monkeypatch, seeds):
    monkeypatch.chdir(tmp_path)
    refused = []
    for seed in seeds:
        rng = random.Random(seed)
        frame, label, group = table(rng)
        path = f"{seed}.{rng.choice(('csv', 'parquet'))}"
        frame.to_csv(path, index=False) if path.endswith("csv") else frame.to_parquet(path, index=False)
        code, said = fitted(path, label, group)
        assert complaints(code, said) == [], seed
        if code:
            refused.append((seed, said))
            continue
        code, said = run_command("predict", "model", path, "--out", "decisions.csv")
        assert code == 0, (seed, said)
        # Nothing is said but what became of cells that are not as the schema proposes.
        assert all(line.startswith("column ") for line in said.splitlines()), (seed, said)
        assert len(pd.read_csv("decisions.csv")) == N_ROWS
        assert run_command("verify", "model") == (0, "")
        shutil.rmtree("model")
    # Else this would say little.
    assert len(refused) < len(seeds) / 2, refused

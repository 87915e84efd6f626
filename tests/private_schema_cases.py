"""A table that names people: what must never leave it, and what may."""

import numpy as np
import pandas as pd

N_ROWS = 6000
CITIES = ("Lowtown", "Hightown")
STRANGE_NUMBER = 731_954_268
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu")
_SYLLABLES += ("na", "pe", "qui", "ro", "su", "ta", "ve", "wi", "xo", "zu")


def _word(number: int) -> str:
    parts = []
    for _ in range(4):
        number, syllable = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[syllable])
    return "".join(parts)


def naming_table(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    """Names, numbers of cases, free text, an id with gaps, rare cities, jobs and groups, and one extreme number."""
    rng = np.random.default_rng(seed)
    words = [_word(int(i)).capitalize() for i in rng.permutation(20**4)[: 2 * n_rows]]
    age = rng.integers(18, 80, n_rows)
    city = rng.choice(CITIES, n_rows).astype(object)
    rare_city = rng.choice(n_rows, 120, replace=False)
    city[rare_city] = [f"Village-{i % 40:02d}-{words[i]}"[:18] for i in range(120)]
    sex = rng.choice(["woman", "man"], n_rows).astype(object)
    sex[rng.choice(n_rows, 12, replace=False)] = [f"self-described-{i}" for i in range(12)]
    income = np.round(rng.lognormal(10, 0.5, n_rows), 2).astype(object)
    income[7] = STRANGE_NUMBER
    return pd.DataFrame(
        {
            "name": [f"{a} {b}" for a, b in zip(words[:n_rows], words[n_rows:], strict=True)],
            "case": [f"K/{i:05d}-{words[i][:3]}" for i in rng.permutation(n_rows)],
            "remark": [f"{words[i]} called on day {i} about {words[-i]}" for i in range(n_rows)],
            "person": np.sort(rng.choice(10**7, n_rows, replace=False)) + 10**6,
            "income": income,
            "age": age,
            "city": city,
            "since": (np.datetime64("1990-01-01") + rng.integers(0, 12_000, n_rows)).astype(str),
            "version": "v1",
            "sex": sex,
            "paid": np.where(age + rng.normal(0, 12, n_rows) > 50, "yes", "no"),
        }
    )


def rare_values(frame: pd.DataFrame, *, fewer_than: int = 20) -> set[str]:
    """Texts that fewer people share and that are long enough to be told from chance."""
    found: set[str] = set()
    for name in frame.columns:
        counts = frame[name].astype(str).value_counts()
        found |= {str(text) for text in counts.index[counts < fewer_than] if len(str(text)) > 2}
    return found

"""Write docs/figure-1.svg and docs/figure-2.svg: figures 1 and 2 of the paper, drawn anew, with what is different here.

`python docs/paper_figures.py`
"""

from pathlib import Path

HERE = Path(__file__).parent / "lab"
FILL, HELD_OUT, EDGE, INK, QUIET, RED = "#eef3fa", "#eaf5ea", "#7a94b8", "#222", "#555", "#b3261e"


def picture(width: int, height: int, shapes: list[str]) -> str:
    """A whole picture."""
    tips = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
        for name, colour in (("tip", QUIET), ("red", RED))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="13"><defs>{tips}</defs><rect width="{width}" height="{height}" fill="#fff"/>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def words(x: float, y: float, *lines: str, colour: str = INK, anchor: str = "middle", size: int = 13) -> str:
    """Lines of text, the first at this height."""
    look = f'text-anchor="{anchor}" fill="{colour}" font-size="{size}"'
    return "".join(f'<text x="{x:g}" y="{y + 16 * place:g}" {look}>{line}</text>' for place, line in enumerate(lines))


def node(x: float, y: float, name: str) -> str:
    """A random variable."""
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="26" fill="{FILL}" stroke="{EDGE}"/>'
        f'<text x="{x:g}" y="{y + 5:g}" text-anchor="middle" font-style="italic" font-size="16">{name}</text>'
    )


def box(x: float, y: float, width: float, *lines: str, fill: str = FILL) -> str:
    """A step; the first line is its name."""
    height = 14 + 16 * len(lines)
    frame = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="5" fill="{fill}" stroke="{EDGE}"/>'
    name = f'<text x="{x + 10:g}" y="{y + 20:g}" font-weight="bold" fill="{INK}">{lines[0]}</text>'
    return frame + name + words(x + 10, y + 36, *lines[1:], anchor="start", colour="#444")


def arrow(path: str, *, red: bool = False) -> str:
    """A line with a tip; red and broken for what the assumption leaves out."""
    dashes, colour, tip = (' stroke-dasharray="6 4"', RED, "red") if red else ("", QUIET, "tip")
    return f'<path d="{path}" fill="none" stroke="{colour}"{dashes} stroke-width="1.4" marker-end="url(#{tip})"/>'


def bayesian_network() -> str:
    """Figure 1: the decision depends on group and label through x alone, and where that is not so."""
    return picture(
        780,
        330,
        [
            arrow("M122,128 L228,177"),
            arrow("M122,252 L228,203"),
            arrow("M276,190 L364,190"),
            arrow("M416,190 L504,190"),
            arrow("M556,190 L644,190"),
            arrow("M390,61 L390,160"),
            arrow("M480,61 C510,90 526,125 529,160"),
            arrow("M120,106 C180,40 260,40 336,52", red=True),
            arrow("M88,238 C20,160 40,20 120,20 C220,14 280,24 336,38", red=True),
            arrow("M110,141 C150,330 560,330 653,214", red=True),
            node(98, 117, "a"),
            node(98, 263, "e"),
            node(250, 190, "x"),
            node(390, 190, "ξ"),
            node(530, 190, "z"),
            node(670, 190, "ŷ"),
            box(340, 30, 190, "θ = (φ, w), trained"),
            words(82, 161, "group", colour=QUIET),
            words(98, 307, "event: all, y = 1 or 0", colour=QUIET),
            words(250, 234, "inputs", colour=QUIET),
            words(390, 234, "v_φ(x)", colour=QUIET),
            words(530, 234, "⟨w, ξ⟩", colour=QUIET),
            words(670, 234, "z ≥ 0", colour=QUIET),
            words(545, 44, "if this record was trained on:", "its group and label moved θ", colour=RED, anchor="start"),
            words(330, 318, "if the rule looks at the group (dp_postprocess)", colour=RED, anchor="start"),
        ],
    )


def overview() -> str:
    """Figure 2: training, the ensemble of the last step, and what is certified from which records."""
    return picture(
        860,
        470,
        [
            box(20, 20, 190, "records of each group", "D_1, …, D_K"),
            box(250, 20, 270, "steps 1 to T − 1, for each group k", *_STEP),
            box(560, 20, 280, "update", "a step by Adam, averaged over groups,", "project the head to norm M *"),
            box(
                250,
                150,
                270,
                "step T: DP-MC",
                "each record draws one of N heads *,",
                "every head gets its own noisy step",
            ),
            box(560, 150, 280, "deployed model", "φ, w_1, …, w_N: the mean score decides"),
            box(20, 150, 190, "held out *", "never trained on", fill=HELD_OUT),
            box(250, 290, 270, "the paper's certificates", *_PAPER),
            box(560, 290, 280, "certificate *", *_CERTIFICATE, fill=HELD_OUT),
            box(560, 396, 280, "accountant", "q, σ, T → ε of every group:", "RDP in the paper, PLD beside it *"),
            words(385, 388, "diagnostics: no bound for the model", colour=RED),
            words(642, 124, "again", colour=QUIET),
            words(20, 456, "* not in the paper, or not so: see its errata", colour=QUIET, anchor="start", size=12),
            arrow("M210,43 L246,43"),
            arrow("M520,52 L556,52"),
            arrow("M700,82 C700,112 570,116 526,92"),
            arrow("M385,98 L385,146"),
            arrow("M520,176 L556,176"),
            arrow("M115,66 L115,146"),
            arrow("M200,66 C240,100 228,200 228,260 C228,300 232,320 246,326"),
            arrow("M600,196 C600,240 470,250 420,286"),
            arrow("M720,196 L720,286"),
            arrow("M115,196 C115,440 500,490 556,358"),
        ],
    )


_STEP = (
    "sample each record with probability q,",
    "clip its gradient to norm C, add up,",
    "add noise σ C, divide by q n_k *",
)
_PAPER = ("τ_emp: rates of training records,", "expected over the noise of step T;", "Theorem 2: any two inputs")
_CERTIFICATE = (
    "decisions about held-out records,",
    "counted with noise: every gap is at",
    "most τ, with confidence 95 %",
)

FIGURES = {"figure-1.svg": bayesian_network, "figure-2.svg": overview}

if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (HERE / name).write_text(draw(), encoding="utf-8")

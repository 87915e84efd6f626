"""`fairdp report`: one self-contained page about a saved model or a comparison, for readers who run no code.

Pages come from templates: every value is escaped, and a name that a template misspells is an error.
"""

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairdp._io import write_out
from fairdp.accounting.spent import sizes_deviation
from fairdp.certify.certificate import NotCertified
from fairdp.errors import InputError, ParameterError, bound_above, bound_below, rounded_up
from fairdp.parameters import RATES, WITH_RATIO
from fairdp.report.cards import answers, cautions, checklists, data_card, features, headline, model_card, status_lines
from fairdp.report.charts import (
    GAPS,
    UTILITIES,
    ComparisonReport,
    attack_chart,
    conclusions,
    frontier_chart,
    frontier_data,
    is_comparison,
    rate_chart,
    read_comparison,
)
from fairdp.report.model import (
    FALSE_POSITIVE_RATES,
    MARK,
    NO_CARD,
    SMALL,
    ModelReport,
    OwnersCard,
    Profile,
    ll144,
    read_appendix,
    read_audit,
    read_card,
    read_model_report,
)
from fairdp.statements.certificate import (
    ALSO_NOT_PROMISED,
    DEFINITIONS,
    NAMES,
    NOT_PROMISED,
    four_fifths_verdict,
    lines_beside_bounds,
)
from fairdp.statements.privacy import (
    ALSO_NOT_COVERED,
    STATISTICS,
    assumption_in_words,
    not_covered,
    privacy_level,
    spent_in_all,
)
from fairdp.statements.verdict import verdict_in_words

# The formats of a report with the endings of their files and templates.
FORMATS = {"html": ".html", "markdown": ".md"}

# Ends every page, in HTML and in Markdown alike: what it ends can be written again, and nothing else is replaced.
STAMP = b"\n<!-- written by fairdp report -->\n"

# What Markdown would read as more than text.
_SPECIAL = re.compile(r"([\\`*_\[\]#|~]|^[-+])")

_FACTS = {
    "names": NAMES,
    "definitions": DEFINITIONS,
    "gaps": GAPS,
    "with_ratio": WITH_RATIO,
    "utilities": UTILITIES,
    "rate_names": {rate.name: rate.title for rate in RATES.values()},
    "small_category": SMALL,
    "false_positive_rates": FALSE_POSITIVE_RATES,
    "not_promised": (*NOT_PROMISED, ALSO_NOT_PROMISED),
    "frontier_data": frontier_data,
    "assumption_in_words": assumption_in_words,
    "sizes_deviation": sizes_deviation,
    "statistics": STATISTICS,
}


def run_report(
    folder: Path,
    *,
    out: Path | None = None,
    format: str | None = None,
    comparison: Path | None = None,
    audit: Path | None = None,
    card: Path | None = None,
    profile: str | None = None,
    appendix: Path | None = None,
) -> dict[str, Any]:
    """Write the report of a saved model, or of a comparison; returns what was written, as the command prints it.

    Parameters
    ----------
    out
        The file; by default named like the folder and beside it, because the folder itself is covered by checksums.
    format
        One of ``FORMATS``; by default that of the file's ending, else HTML.
    comparison
        A folder of `fairdp compare` to show beside the model.
    audit
        A file of `fairdp audit` to show beside the model.
    card
        A file with what only the owner can say.
    profile
        The rules whose figures to show too, such as ``"ll144"``.
    appendix
        A file of `fairdp evaluate --json`: its exact figures are written to a file of their own, for the data holder.
    """
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is not a folder; name the folder of a saved model or of a comparison.")
    format = format or ("markdown" if out is not None and out.suffix.lower() == ".md" else "html")
    known = folder if folder.name not in ("", "..") else folder.resolve()
    out = out or known.with_name(f"{known.name}-report{FORMATS[format]}")
    if out.resolve().parent == folder.resolve():
        raise ParameterError("out", str(out), "lies in the folder that it reports on", "choose a file outside of it")
    _refuse_foreign(out)
    if is_comparison(folder):
        _refuse_beside_comparison(
            folder, comparison=comparison, audit=audit, card=card, profile=profile, appendix=appendix
        )
        content = _render(f"comparison{FORMATS[format]}.jinja", read_comparison(folder))
        write_out(out, content)
        return {"out": str(out), "format": format, "verified": None, "bytes": len(content), "appendix": None}
    own = out.with_name(f"{out.stem}-appendix{out.suffix}") if appendix is not None else None
    if own is not None:
        _refuse_foreign(own)
    said = NO_CARD if card is None else read_card(card)
    compared = None if comparison is None else read_comparison(comparison)
    report = read_model_report(folder)
    content = render_model(
        report,
        format=format,
        card=said,
        compared=compared,
        audit=None if audit is None else read_audit(audit, report.method_name),
        profile=None if profile is None else ll144(report, profile),
    )
    exact = None
    if appendix is not None:
        figures = read_appendix(appendix, report)
        exact = _render(f"appendix{FORMATS[format]}.jinja", None, report=report, appendix=figures, mark=MARK)
    write_out(out, content)
    if exact is not None and own is not None:
        write_out(own, exact)
    return {
        "out": str(out),
        "format": format,
        "verified": report.verified,
        "bytes": len(content),
        "appendix": None if own is None else str(own),
    }


def _refuse_beside_comparison(folder: Path, *, comparison: Path | None, **others: Path | str | None) -> None:
    """Refuse to show beside a comparison of many models what is about one."""
    if comparison is not None:
        raise InputError(f"{str(folder)!r} is itself a comparison; leave out `comparison` or name a saved model.")
    for name, value in others.items():
        if value is not None:
            raise ParameterError(name, str(value), "is about one model", "leave it out, or name a saved model")


def _refuse_foreign(out: Path) -> None:
    """Refuse to replace a file that is no page of ours."""
    if out.is_file() and out.stat().st_size and not out.read_bytes().endswith(STAMP):
        raise ParameterError("out", str(out), "exists and was not written by fairdp report", "choose another file")


def render_model(
    report: ModelReport,
    *,
    format: str,
    card: OwnersCard = NO_CARD,
    profile: Profile | None = None,
    compared: ComparisonReport | None = None,
    audit: Mapping[str, Any] | None = None,
) -> bytes:
    """The page of a saved model, with what else was given."""
    frontier = None
    if report.chosen is not None and len(report.frontier) > 1:
        aimed = report.about.target
        target = aimed.max_gap if aimed and aimed.max_gap < 1 else None
        frontier = frontier_chart(report.frontier, report.chosen, target=target)
    return _render(
        f"model{FORMATS[format]}.jinja",
        compared,
        report=report,
        audit=audit,
        profile=profile,
        headline=headline(report),
        status_lines=status_lines(report),
        answers=answers(report, card),
        risk=report.risk,
        spent_in_all=spent_in_all(report.privacy),
        level=privacy_level(report.privacy),
        cautions=cautions(report),
        not_covered=[*not_covered(report.privacy), *ALSO_NOT_COVERED],
        further=[] if isinstance(report.certificate, NotCertified) else lines_beside_bounds(report.certificate),
        four_fifths=four_fifths_verdict(report.certificate, report.estimates),
        model_card=model_card(report, card),
        data_card=data_card(report, card),
        features=features(report.schema),
        checklists=checklists(report, card),
        attack=attack_chart(report.exposures),
        rates=rate_chart(report.groups["rows"], report.four_fifths) if report.groups else None,
        verdict=verdict_in_words(report.verdict),
        frontier=frontier,
        front_matter=_front_matter(report),
    )


def _render(template: str, compared: ComparisonReport | None, **values: Any) -> bytes:
    # Only a comparison needs a script; the policy of the page names it by its hash, and allows nothing else.
    script = _text_of("frontier.js") if compared else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() if script else ""
    environment = _environment(markdown=template.endswith("md.jinja"))
    page = environment.get_template(template).render(
        compared=compared,
        conclusions=conclusions(compared.rows) if compared else [],
        script=Markup(script),
        script_digest=digest,
        css=Markup(_text_of("page.css")),
        **values,
    )
    return page.encode() + STAMP


@lru_cache(maxsize=2)
def _environment(*, markdown: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("fairdp.report"),
        autoescape=not markdown,
        finalize=_markdown if markdown else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "up": lambda value: "infinite" if math.isinf(value) else rounded_up(value),
        "above": bound_above,
        "below": bound_below,
        "share": lambda value: "no evidence" if math.isnan(value) else f"{value:.4f}",
        "percent_above": _percent_above,
        "floor3": lambda value: math.floor(1e3 * value + 1e-9) / 1e3,
        "ceil3": lambda value: math.ceil(1e3 * value - 1e-9) / 1e3,
        # In an indented block Markdown shows text as it stands; only a new line would end it.
        "verbatim": lambda text: Markup(" ".join(text.split())),
    }
    environment.globals |= _FACTS
    return environment


def _text_of(name: str) -> str:
    return (resources.files("fairdp.report") / "templates" / name).read_text(encoding="utf-8")


def _percent_above(value: float) -> str:
    """Two decimals of an upper bound on a share, in percent.

    >>> _percent_above(0.155281)
    '15.53 %'
    """
    return f"{min(100.0, math.ceil(1e4 * value - 1e-9) / 100):.2f} %"


def _markdown(value: Any) -> Any:
    """Text as Markdown shows it: one line, and no character that would be read as a mark or a tag."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _SPECIAL.sub(r"\\\1", html.escape(" ".join(value.split()), quote=False))


def _front_matter(report: ModelReport) -> Markup:
    """Fields that model hubs read; JSON strings are YAML strings."""
    kind = "tabular" if len(report.about.shape) == 1 else "image"
    tags = [f"{kind}-classification", "differential-privacy", "fairness", report.method_name]
    lines = ["license: unknown", "library_name: fairdp", f"tags: {json.dumps(tags)}"]
    lines.append(f"model_name: {json.dumps(report.name)}")
    return Markup("\n".join(lines))

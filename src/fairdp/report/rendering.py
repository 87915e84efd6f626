"""Pages from templates: every value is escaped, and a name that a template misspells is an error."""

import base64
import hashlib
import html
import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.accounting.spent import sizes_deviation
from fairdp.accounting.words import assumption_in_words, statistics_in_words
from fairdp.certify.certificate import NotCertified
from fairdp.certify.statement import DEFINITIONS, NAMES, lines_beside_bounds
from fairdp.report import comparison, words
from fairdp.report.answers import answers, spent_in_all
from fairdp.report.appendix import MARK, Appendix
from fairdp.report.audit import AuditSection
from fairdp.report.cards import data_card, features, model_card
from fairdp.report.charts import FrontierChart, attack_chart, frontier_chart, rate_chart
from fairdp.report.checklist import checklists
from fairdp.report.comparison import ComparisonReport
from fairdp.report.conclusion import conclusions
from fairdp.report.exposure import risk_in_a_sentence
from fairdp.report.groups import RATES
from fairdp.report.ll144 import SMALL, Profile
from fairdp.report.model import ModelReport
from fairdp.report.owner import NO_CARD, OwnersCard
from fairdp.report.risk import FALSE_POSITIVE_RATES
from fairdp.report.standing import standings
from fairdp.report.style import GAPS, UTILITIES

# The formats of a report with the endings of their files and templates.
FORMATS = {"html": ".html", "markdown": ".md"}

# What Markdown would read as more than text.
_SPECIAL = re.compile(r"([\\`*_\[\]#|~]|^[-+])")

_FACTS = {
    "names": NAMES,
    "definitions": DEFINITIONS,
    "gaps": GAPS,
    "utilities": UTILITIES,
    "rate_names": RATES,
    "small_category": SMALL,
    "false_positive_rates": FALSE_POSITIVE_RATES,
    "not_promised": words.NOT_PROMISED,
    "frontier_data": comparison.frontier_data,
    "assumption_in_words": assumption_in_words,
    "sizes_deviation": sizes_deviation,
    "statistics_in_words": statistics_in_words,
}


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What a page shows beside the model itself, as far as it was given."""

    card: OwnersCard = NO_CARD
    profile: Profile | None = None
    compared: ComparisonReport | None = None
    audit: AuditSection | None = None


def render_model(report: ModelReport, beside: Beside, *, format: str) -> bytes:
    """The page of a saved model, with what else was given."""
    card = beside.card
    return _render(
        f"model{FORMATS[format]}.jinja",
        beside.compared,
        report=report,
        audit=beside.audit,
        profile=beside.profile,
        headline=words.headline(report),
        standings=standings(report),
        answers=answers(report, card),
        risk=risk_in_a_sentence(report.exposures) if report.exposures else "",
        spent_in_all=spent_in_all(report),
        level=words.level(report),
        cautions=words.cautions(report),
        not_covered=words.not_covered(report),
        further=[] if isinstance(report.certificate, NotCertified) else lines_beside_bounds(report.certificate),
        four_fifths=words.four_fifths_verdict(report),
        model_card=model_card(report, card),
        data_card=data_card(report, card),
        features=features(report.schema),
        checklists=checklists(report, card),
        attack=attack_chart(report.exposures),
        rates=rate_chart(report.groups.rows, report.four_fifths) if report.groups else None,
        verdict=words.verdict_in_words(report),
        frontier=_frontier_chart(report),
        front_matter=_front_matter(report),
    )


def _frontier_chart(report: ModelReport) -> FrontierChart | None:
    if report.chosen is None or len(report.frontier) < 2:
        return None
    aimed = report.about.target
    return frontier_chart(report.frontier, report.chosen, target=aimed.max_gap if aimed and aimed.max_gap < 1 else None)


def render_appendix(report: ModelReport, appendix: Appendix, *, format: str) -> bytes:
    """The data holder's appendix to the page of a model, in a file of its own."""
    return _render(f"appendix{FORMATS[format]}.jinja", None, report=report, appendix=appendix, mark=MARK)


def render_comparison(compared: ComparisonReport, *, format: str) -> bytes:
    """The page of a comparison alone."""
    return _render(f"comparison{FORMATS[format]}.jinja", compared)


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
    return page.encode()


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

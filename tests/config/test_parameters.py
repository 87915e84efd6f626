"""Declared parameters are those that the estimator takes, a run uses and the help describes."""

import inspect
import re
from dataclasses import replace

import pytest

from fairdp import METHODS, FairDPClassifier
from fairdp.defaults import BY_METHOD, default_by_method, default_text, of_group, shown
from fairdp.parameters import DECLARED, GROUPS, check_parameters
from fairdp.run.plan import checked, kind_of, network_for, registration_of, train_config

TABLE, IMAGES = (5,), (3, 16, 16)
# Large enough for the usual numbers, and not so large that steps sample.
SIZES = (4e4, 4e4)


def numbers_of_a_run(method: str, shape: tuple[int, ...]) -> dict[str, object]:
    """The configuration of a run with only the method chosen, on groups that are not small."""
    chosen = checked(method=method)
    config, model = train_config(chosen, kind_of(chosen, shape), SIZES), network_for(chosen, shape, None, 2)
    names = {name: "learning_rates" if name == "learning_rate" else name for name in BY_METHOD}
    return {name: getattr(model if name == "activation" else config, own) for name, own in names.items()}


def test_the_estimator_takes_what_is_declared():
    signature = inspect.signature(FairDPClassifier).parameters
    assert {name: own.default for name, own in signature.items()} == {n: d.default for n, d in DECLARED.items()}
    assert all(own.kind is own.KEYWORD_ONLY for own in signature.values())
    assert list(FairDPClassifier().get_params()) == sorted(DECLARED)


@pytest.mark.parametrize("name", DECLARED)
def test_a_parameter_is_explained_in_sentences_and_mentions_only_what_there_is(name):
    declared = DECLARED[name]
    assert declared.group in GROUPS
    assert declared.help.endswith(".")
    choices = {choice for own in DECLARED.values() for choice in own.choices}
    known = {*DECLARED, *METHODS, *choices, "fit", "sample_weight"}
    assert set(re.findall(r"`(\w+)`", declared.help + default_text(name))) <= known


@pytest.mark.parametrize("name", DECLARED)
def test_a_default_passes_the_check(name):
    check_parameters(**{name: DECLARED[name].default})


def test_a_value_that_is_not_declared_is_refused_by_name():
    for wrong in ({"confidence": 0.3}, {"parity": "fairness"}, {"max_gap": 2}, {"certify_metrics": ()}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must "):
            check_parameters(**wrong)


def test_the_groups_hold_every_parameter_once():
    assert [own.name for group in GROUPS for own in of_group(group)] == list(DECLARED)


@pytest.mark.parametrize("name", BY_METHOD)
@pytest.mark.parametrize("method", METHODS)
def test_defaults_in_words_are_those_of_a_run(method, name):
    tables, images = default_by_method(name)
    assert numbers_of_a_run(method, TABLE)[name] == tables.get(method, tables["others"])
    words = default_text(name)
    said = f"`{method}` {shown(tables[method])}" if method in tables else shown(tables["others"])
    assert said in words.split("; images: ")[0]
    assert numbers_of_a_run(method, IMAGES)[name] == images.get(method, images["others"])
    said = f"`{method}` {shown(images[method])}" if method in images else shown(images["others"])
    assert said in words.split("; images: ")[-1]


@pytest.mark.parametrize("method", METHODS)
def test_the_model_in_words_is_that_of_a_run(method):
    images, tables = default_text("model").split("; tables: ")
    kind = kind_of(checked(method=method), TABLE)
    assert (f"`{method}`" in tables) == (kind == "logistic")
    assert kind in ("logistic", "mlp")
    kind = kind_of(checked(method=method), IMAGES) if "fairfm" not in method else "cnn"
    assert (f"`{method}`" in images) == (kind == "oriented_gradients")
    assert kind in ("oriented_gradients", "cnn")


def test_the_words_follow_the_table_of_defaults(monkeypatch):
    """Negative control: other numbers, other words."""
    changed = replace(METHODS["raco_dp"].defaults["logistic"], sample_rate=0.25)
    assert "0.25" not in default_text("sample_rate")
    monkeypatch.setitem(METHODS["raco_dp"].defaults, "logistic", changed)
    assert "`raco_dp` 0.25" in default_text("sample_rate")
    assert numbers_of_a_run("raco_dp", TABLE)["sample_rate"] == 0.25


def test_what_is_not_chosen_is_as_the_words_say():
    config = train_config(checked(), "logistic", SIZES)
    assert default_text("max_gap").startswith(f"{config.max_gap:g};")
    assert train_config(checked(min_ratio=0.8), "logistic", SIZES).max_gap == 1
    assert len(registration_of(checked()).metrics) == 3


def test_the_docstring_has_every_parameter_in_its_group():
    text = inspect.getdoc(FairDPClassifier)
    section = text.partition("Parameters\n----------\n")[2].partition("\nAttributes\n")[0]
    assert re.findall(r"^(\w+)$", section, flags=re.MULTILINE) == list(DECLARED)
    for group in GROUPS:
        names = text.partition(f"*{group}:*")[2].partition("\n\n")[0]
        assert re.findall(r"``(\w+)``", names) == [own.name for own in of_group(group)]
    assert "{parameters}" not in text

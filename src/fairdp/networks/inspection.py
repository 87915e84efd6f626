"""What a user's module is made of, and whether it keeps records apart: found out without any private record."""

import torch
from torch import Tensor, nn

from fairdp._checks import InputError
from fairdp.networks.layers import has_bookkeeping
from fairdp.networks.models import ScoreModel


def check_records_stay_apart(model: ScoreModel) -> None:
    """Refuse a module that lets one record's embedding depend on another, or that remembers what it saw.

    The probe is public noise; no private record is needed to find out.
    """
    probe = public_probe(model)
    dropouts = [m for m in model.extractor.modules() if isinstance(m, nn.modules.dropout._DropoutNd) and m.training]
    for layer in dropouts:
        layer.eval()
    before = [value.clone() for value in model.extractor.state_dict().values()]
    with torch.no_grad():
        together = model.extractor(probe).flatten(1)
        apart = torch.cat([model.extractor(record[None]).flatten(1) for record in probe])
    for layer in dropouts:
        layer.train()
    if any(not torch.equal(a, b) for a, b in zip(before, model.extractor.state_dict().values(), strict=True)):
        raise InputError(
            "the module changes its own state in forward, so it would remember private records; remove that buffer, or "
            "use nn.GroupNorm in place of a batch norm."
        )
    if together.shape != apart.shape or not torch.allclose(together, apart, rtol=1e-3, atol=1e-4):
        raise InputError(
            "the module lets the records of a batch influence each other; every record must be embedded on its own: "
            "look for a mean, a maximum or a softmax over the first axis."
        )


def public_probe(model: ScoreModel) -> Tensor:
    """A few records of noise, the same for everybody."""
    return torch.rand(4, *model.shape, generator=torch.Generator().manual_seed(0))


def sequence_of(extractor: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers in the order in which they run, repeated ones as often as they do."""
    return list(extractor._modules.items()) if isinstance(extractor, nn.Sequential) else [("", extractor)]


def slices_of(model: ScoreModel, name: str, layer: nn.Module) -> dict[str, slice]:
    """Where the trained parameters of one layer stand in the vector."""
    names = {
        parameter: f"{name}.{parameter}" if name else parameter
        for parameter, _ in layer.named_parameters(recurse=False)
    }
    return {parameter: model.slices[full] for parameter, full in names.items() if full in model.slices}


def is_trained(model: ScoreModel, name: str, layer: nn.Module) -> bool:
    """Whether a layer has own parameters that are trained."""
    return bool(slices_of(model, name, layer))


def each_trained_once(model: ScoreModel) -> bool:
    """Whether every parameter is trained and belongs to one layer that stands at one place."""
    return len(_uses_of_parameters(model)) == len(model.slices)


def all_bookkept(model: ScoreModel) -> bool:
    """Whether every trained layer is known, trained whole, and shares no parameter."""
    if not model.keeps_records_apart:
        return False
    tied = len(_uses_of_parameters(model)) != len(list(model.extractor.parameters()))
    trained = [(name, m) for name, m in model.extractor.named_modules() if is_trained(model, name, m)]
    whole = all(len(slices_of(model, name, m)) == len(list(m.parameters(recurse=False))) for name, m in trained)
    named = all(set(slices_of(model, name, m)) <= {"weight", "bias"} for name, m in trained)
    return not tied and whole and named and all(has_bookkeeping(m) for _, m in trained)


def _uses_of_parameters(model: ScoreModel) -> list[str]:
    """Names of parameters, one for each place where one stands."""
    return [name for name, _ in model.extractor.named_parameters(remove_duplicate=False)]


def draws_at_random(model: ScoreModel) -> bool:
    """Whether a forward pass may toss coins of its own: dropout, or anything in a user's own code."""
    return not model.keeps_records_apart

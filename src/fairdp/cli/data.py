"""`fairdp data`: the named data sets, where they come from, and how to get them."""

from pathlib import Path

import click

from fairdp.cli.options import json_option
from fairdp.commands.progress import say


@click.group(epilog="Example: fairdp data get adult")
def data() -> None:
    """List and fetch the named data sets."""


@data.command("list", epilog="\b\nExample:\n  fairdp data list\n")
@json_option
def list_(as_json: bool) -> None:
    """Show the named data sets, their licences and whether they are on this machine."""
    from fairdp.cli.printing import print_cards
    from fairdp.data import sources
    from fairdp.data.catalog import DATASETS

    cards = [
        {
            "name": card.name,
            "what": card.title,
            "rows": card.rows,
            "features": card.features,
            "groups": ", ".join(card.groups),
            "sensitive": ", ".join(card.sensitive),
            "positive": card.label,
            "licence": card.licence,
            "source": card.source,
            "on this machine": not card.checksums or sources.find(card.name) is not None,
            "sha256": dict(card.checksums),
        }
        for card in DATASETS.values()
    ]
    print_cards("datasets", cards, as_json=as_json)


@data.command("get", epilog="\b\nExample:\n  fairdp data get adult\n")
@click.argument("name")
@click.option("--from", "source", type=click.Path(path_type=Path), help="A file or folder you already have.")
@json_option
def get(name: str, source: Path | None, as_json: bool) -> None:
    """Fetch a data set into the cache and check it by SHA-256."""
    from fairdp.cli.printing import print_pairs
    from fairdp.data import sources
    from fairdp.data.catalog import DATASETS

    if name not in DATASETS:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(DATASETS)}.", param_hint="NAME")
    if not DATASETS[name].checksums:
        raise click.BadParameter(f"{name!r} is built in; there is nothing to get.", param_hint="NAME")
    folder = sources.fetch(name, source=source, say=say)
    print_pairs({"dataset": name, "folder": str(folder), "licence": DATASETS[name].licence}, as_json=as_json)

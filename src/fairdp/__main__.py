"""Lets `python -m fairdp` do what `fairdp` does."""

from fairdp.cli import main

main()

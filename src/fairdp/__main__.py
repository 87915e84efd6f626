"""The program `fairdp`, also as `python -m fairdp`."""

import sys


def main() -> None:
    """Run a command; Ctrl-C ends it with one line even while its modules are loaded."""
    try:
        from fairdp.cli import main as run
    except KeyboardInterrupt:
        print("fairdp: interrupted.", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()

"""The command line: parse, call one function, print. Heavy imports happen inside the commands."""

import os
import sys
import warnings
from pathlib import Path

import click

from fairdp._checks import InputError
from fairdp.cli.audit import audit
from fairdp.cli.bench import bench
from fairdp.cli.certify import certify
from fairdp.cli.compare import compare
from fairdp.cli.data import data
from fairdp.cli.demo import demo
from fairdp.cli.exits import BAD_INPUT, DONE, INTERNAL, to_any_reader
from fairdp.cli.export import export
from fairdp.cli.fit import fit
from fairdp.cli.flags import in_flags
from fairdp.cli.interruption import (
    INTERRUPTED,
    TERMINATED,
    Terminated,
    end_workers,
    ended_in_words,
    ending_in_order,
)
from fairdp.cli.ledger import ledger
from fairdp.cli.methods import methods
from fairdp.cli.paper_bounds import paper_bounds
from fairdp.cli.plan import plan
from fairdp.cli.predict import evaluate, predict
from fairdp.cli.report import report
from fairdp.cli.reproduce import reproduce
from fairdp.cli.retarget import retarget
from fairdp.cli.schema import schema
from fairdp.cli.sections import OrderedGroup
from fairdp.cli.shift import shift
from fairdp.cli.sign import sign
from fairdp.cli.tune import tune
from fairdp.cli.verify import verify
from fairdp.cli.workers import among_workers, ending_at_once, may_speak
from fairdp.commands.progress import say
from fairdp.team import WorkerLost

_LONGEST_LINE = 1600


@click.group(
    cls=OrderedGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A first run, on data that is built in: fairdp fit --dataset synthetic --epsilon 1",
)
@click.version_option(package_name="fairdp")
def fairdp() -> None:
    """Train classifiers that are differentially private and fair to groups, and see what that costs."""


_COMMANDS: dict[str, dict[click.Command, str]] = {
    "Train": {
        schema: "Propose a schema for TABLE, for you to go through.",
        fit: "Train, certify, test and save a private classifier.",
        tune: "The same with settings chosen by a search that is paid for.",
        retarget: "Move a saved model to another fairness target.",
    },
    "Use": {
        predict: "Decide about new rows, with reasons if asked.",
        export: "Write a saved model as an ONNX file.",
    },
    "Check": {
        report: "Write a page about a saved model, for a reviewer.",
        verify: "Compute epsilon and the bounds of a saved model again.",
        evaluate: "Measure a saved model on labelled rows, for your eyes only.",
        certify: "Certify a saved model on people it has never seen.",
        shift: "Bound the gaps if the mix of groups and labels changes.",
        sign: "Sign a saved model.",
        ledger: "Show what was spent on your tables, and set limits.",
        audit: "Attack the methods: does the stated epsilon hold?",
    },
    "Choose": {
        demo: "Train the paper's method and the default side by side.",
        plan: "How many records, or which epsilon? Needs no data.",
        compare: "Train methods at several budgets and show the trade-offs.",
        methods: "List the training methods.",
        data: "List and fetch the named data sets.",
    },
    "Research": {
        paper_bounds: "Show the paper's own certificates of a saved model.",
        reproduce: "Repeat a table or figure of the paper.",
        bench: "Measure the speed beside plain training and Opacus.",
    },
}
for heading, commands in _COMMANDS.items():
    fairdp.add_commands(heading, commands)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends with one clear line and exit code 2, never with a traceback."""
    with ending_at_once():
        _exit_after(list(sys.argv[1:] if arguments is None else arguments))


def _exit_after(arguments: list[str]) -> None:
    how = os.environ.get("_FAIRDP_COMPLETE")
    if how:
        # The shell asks for completions; click's own `main`, which would answer, is not used here.
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(fairdp, {}, "fairdp", "_FAIRDP_COMPLETE", how))
    # Before torch is loaded: threads that wait for one without a core sleep instead of spinning.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    warnings.showwarning = lambda message, *_: say(f"warning: {message}")
    try:
        with ending_in_order():
            _run(arguments)
        sys.exit(DONE)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt) as stop:
        end_workers()
        _fail(str(stop) or ended_in_words(stop), TERMINATED if isinstance(stop, Terminated) else INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        sys.exit(BAD_INPUT)
    except click.UsageError as error:
        hint = f" (see: {error.ctx.command_path} --help)" if error.ctx else ""
        _fail(f"{error.format_message()}{hint}", BAD_INPUT)
    except click.ClickException as error:
        _fail(error.format_message(), BAD_INPUT, error.__cause__)
    except Exception as error:
        if os.environ.get("FAIRDP_DEBUG"):
            raise
        kind = type(error).__name__
        _fail(f"internal error, {kind}: {error}; FAIRDP_DEBUG=1 shows where. Please report it.", INTERNAL)


def _run(arguments: list[str]) -> None:
    """Run a command; errors of the library name flags instead of parameters."""
    # Not click's own `main`, which calls a closed pipe a failure.
    with among_workers(arguments), fairdp.make_context("fairdp", arguments) as context:
        try:
            with to_any_reader():
                fairdp.invoke(context)
        except MemoryError:
            # Of a table, a schema or a model that is too large: nothing that the program could mend.
            raise click.ClickException("there is not enough memory for this table, schema or model.") from None
        except (InputError, OSError, WorkerLost) as error:
            if os.environ.get("FAIRDP_DEBUG"):
                raise
            command = _invoked(arguments)
            message = in_flags(error, command) if isinstance(error, InputError) else str(error)
            raise click.ClickException(message) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            damaged = None if os.environ.get("FAIRDP_DEBUG") else _damaged_model(arguments)
            if damaged is None:
                raise
            raise click.ClickException(damaged) from error


def _damaged_model(arguments: list[str]) -> str | None:
    """What is wrong with a model folder that a command was given, if anything is: then the command is not to blame."""
    from fairdp.saved.folder import MARKER
    from fairdp.saved.verify.folder import verify_folder

    for folder in (Path(argument) for argument in arguments if os.path.exists(os.path.join(argument, MARKER))):
        failed = next((check for check in verify_folder(folder) if not check.passed), None)
        if failed is not None:
            return f"saved model {str(folder)!r} is damaged: fairdp verify says of its {failed.name}: {failed.found}"
    return None


def _invoked(arguments: list[str]) -> click.Command:
    """The command that was typed, or the one below it."""
    command: click.Command = fairdp
    for argument in arguments:
        if not isinstance(command, click.Group) or argument not in command.commands:
            break
        command = command.commands[argument]
    return command


def _fail(message: str, code: int, error: BaseException | None = None) -> None:
    line = " ".join(message.split())
    # A message may quote what it refuses, of any length; the remedy stands at its end.
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
    if may_speak(error):
        say(f"fairdp: {line}")
    sys.exit(code)

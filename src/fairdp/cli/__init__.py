"""The command `fairdp`: its list of commands, how they end, and which process prints when several run the same command.

Heavy imports happen inside the commands.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import click

from fairdp.cli.check import certify, ledger, report, shift, sign, verify
from fairdp.cli.options import OrderedGroup
from fairdp.cli.terminal import (
    BAD_INPUT,
    DONE,
    INTERNAL,
    INTERRUPTED,
    TERMINATED,
    Terminated,
    end_workers,
    ended_in_words,
    graceful_shutdown,
    ignore_broken_pipe,
    in_flags,
    is_ending,
    say,
)
from fairdp.cli.train import fit, retarget, schema, tune
from fairdp.cli.use import data, evaluate, export, methods, plan, predict
from fairdp.distributed import ALONE, Disagreement, ProcessGroup, WorkerLost, note, noted, process_group, world_size
from fairdp.errors import InputError

# What only the laboratory imports, and the extra `lab` installs.
_LABORATORY = {"interpret", "joblib", "matplotlib", "opacus"}

# What several processes do together; everything else they would do several times.
_TOGETHER = ("fit",)

# A message may quote what it refuses, of any length; the remedy stands at its end.
_LONGEST_LINE = 1600

# What a launch notes when a command has ended, and its exit code where that is not known yet.
_ENDED, _FAILED = "ended", BAD_INPUT


@click.group(
    cls=OrderedGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A first run, on data that is built in: fairdp fit --dataset synthetic --epsilon 1",
)
@click.version_option(package_name="fairdp")
def fairdp() -> None:
    """Train classifiers with differential privacy and certified group-fairness bounds."""


_SUMMARIES: dict[str, dict[click.Command | str, str]] = {
    "Train": {
        schema: "Propose a schema for TABLE, for you to go through.",
        fit: "Train, certify, test and save a private classifier.",
        tune: "Like fit, with a hyper-parameter search included in epsilon.",
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
        "fairdp_lab.cli:audit": "Attack the methods: does the stated epsilon hold?",
    },
    "Choose": {
        "fairdp_lab.cli:demo": "Train the paper's method and the default side by side.",
        plan: "How many records, or which epsilon? Needs no data.",
        "fairdp_lab.cli:compare": "Train methods at several budgets and show the trade-offs.",
        methods: "List the training methods.",
        data: "List and fetch the named data sets.",
    },
    "Research": {
        "fairdp_lab.cli:paper_bounds": "Show the paper's own certificates of a saved model.",
        "fairdp_lab.cli:reproduce": "Repeat a table or figure of the paper.",
        "fairdp_lab.cli:bench": "Measure the speed beside plain training and Opacus.",
    },
}

for heading, summaries in _SUMMARIES.items():
    fairdp.add_commands(heading, summaries)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """End one of several processes as soon as its command has: torch, taking connections down, was seen to abort."""
    try:
        yield
    except SystemExit as stop:
        if _is_launched():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(stop.code if isinstance(stop.code, int) else 0)
        raise


@ending_at_once()
def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends with one clear line and exit code 2, never with a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    how = os.environ.get("_FAIRDP_COMPLETE")
    if how:
        # The shell asks for completions; click's own `main`, which would answer, is not used here.
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(fairdp, {}, "fairdp", "_FAIRDP_COMPLETE", how))
    # Before torch is loaded: threads that wait for one without a core sleep instead of spinning.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    warnings.showwarning = lambda message, *_: say(f"warning: {message}")
    try:
        with graceful_shutdown():
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
        if isinstance(error, OSError):
            # Help that could not be printed, say.
            _fail(str(error), BAD_INPUT)
        kind = type(error).__name__
        _fail(f"internal error, {kind}: {error}; FAIRDP_DEBUG=1 shows where. Please report it.", INTERNAL)


def _run(arguments: list[str]) -> None:
    """Run a command; errors of the library name flags instead of parameters."""
    # Not click's own `main`, which calls a closed pipe a failure.
    with among_workers(arguments), fairdp.make_context("fairdp", arguments) as context:
        try:
            with ignore_broken_pipe():
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
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _LABORATORY:
                raise
            needs = f"fairdp {arguments[0]} needs {error.name}, which is missing; run pip install 'fairdp[lab]'."
            raise click.ClickException(needs) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            damaged = None if os.environ.get("FAIRDP_DEBUG") else _damaged_model(arguments)
            if damaged is None:
                raise
            raise click.ClickException(damaged) from error


def _damaged_model(arguments: list[str]) -> str | None:
    """The failed check of a model folder that a command was given, if any: then the command is not to blame."""
    from fairdp.saved.folder import MARKER
    from fairdp.saved.verify import verify_folder

    for folder in (Path(argument) for argument in arguments if os.path.exists(os.path.join(argument, MARKER))):
        failed = next((check for check in verify_folder(folder) if not check.passed), None)
        if failed is not None:
            return f"saved model {str(folder)!r} is damaged: fairdp verify says of its {failed.name}: {failed.found}"
    return None


def _invoked(arguments: list[str]) -> click.Command:
    """The command that was typed, or the one below it."""
    command: click.Command = fairdp
    for argument in arguments:
        below = command.get_command(click.Context(command), argument) if isinstance(command, click.Group) else None
        if below is None:
            break
        command = below
    return command


def _fail(message: str, code: int, error: BaseException | None = None) -> None:
    line = " ".join(message.split())
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
    if may_speak(error):
        say(f"fairdp: {line}")
    sys.exit(code)


@contextmanager
def among_workers(arguments: list[str]) -> Iterator[None]:
    """Run as one of the processes that a launcher has started; those that are not the first print nothing."""
    # Otherwise torch prints stack frames of its own beside our line when the store is gone.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    try:
        processes = process_group()
    except (InputError, WorkerLost) as error:
        raise click.ClickException(str(error)) from None
    ended = noted(_ENDED)
    if ended is not None:
        # It was said then, and would be the same again.
        raise click.exceptions.Exit(int(ended))
    with _noting_the_end(processes), _in_its_place(processes, arguments):
        yield


@contextmanager
def _noting_the_end(processes: ProcessGroup) -> Iterator[None]:
    """To a launcher, whatever fails looks like a worker that was lost: what has ended by itself is not begun again."""
    try:
        yield
    except Exception as error:
        code = error.exit_code if isinstance(error, click.exceptions.Exit) else _FAILED
        if not is_ending() and not isinstance(error.__cause__ or error, WorkerLost):
            note(_ENDED, str(code))
        raise
    if processes.is_rank_zero:
        note(_ENDED, str(DONE))


@contextmanager
def _in_its_place(processes: ProcessGroup, arguments: list[str]) -> Iterator[None]:
    """Refuse a command that is not for several processes, and silence all processes but the first."""
    if processes.size == 1:
        yield
        return
    named = next((argument for argument in arguments if not argument.startswith("-")), "")
    if named and named not in _TOGETHER:
        raise click.UsageError(f"fairdp {named} is one process: torchrun is for fit, and sweeps take --scheduler.")
    if processes.is_rank_zero:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def may_speak(error: BaseException | None = None) -> bool:
    """True if this process says why the command ends: of several, the first that has a reason."""
    processes = _known_processes()
    # With the first process the store may go: whoever knows that it knows the same need not ask.
    return processes.is_rank_zero if isinstance(error, Disagreement) else processes.speaks()


def _known_processes() -> ProcessGroup:
    """The process group that this process has joined; alone, where it could not."""
    distributed = sys.modules.get("torch.distributed")
    return process_group() if _is_launched() and distributed is not None and distributed.is_initialized() else ALONE


def _is_launched() -> bool:
    """True if there are several processes, as far as the environment makes sense."""
    with suppress(InputError):
        return world_size() > 1
    return False

"""Real processes that work together: started by torchrun, or by hand with the same variables."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
# What torchrun itself says of a process that ended, in place of which one line of ours counts.
LINE = "fairdp: "


@dataclass(frozen=True)
class Ended:
    """The end of a launch: exit code, output, and duration in seconds."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """The reason for the end that fairdp printed."""
        return [line for line in self.err.splitlines() if line.startswith(LINE)]


def environment(**more: str) -> dict[str, str]:
    """One thread for each process, and none of the variables of another launch."""
    launcher = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    kept = {name: value for name, value in os.environ.items() if name not in launcher and "ELASTIC" not in name}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def by_torchrun(
    n_workers: int,
    program: Sequence[str],
    *,
    restarts: int = 0,
    static: bool = False,
    cwd: Path | None = None,
    seconds: float = 600,
) -> Ended:
    """Start so many processes with torchrun, as a user does; or with the static rendezvous of several hosts."""
    options = ["--nproc-per-node", str(n_workers), "--max-restarts", str(restarts)]
    options += ["--master-port", str(free_port())] if static else []
    start = time.monotonic()
    done = subprocess.run(
        [TORCHRUN, *options, *program],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def by_hand(programs: Sequence[Sequence[str]], *, cwd: Path | None = None, seconds: float = 600) -> list[Ended]:
    """Start a process for each of these programs, as hosts without torchrun would; nobody ends one but itself."""
    port, start = str(free_port()), time.monotonic()
    common = {"WORLD_SIZE": str(len(programs)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            [sys.executable, *program],
            cwd=cwd,
            env=environment(**common, RANK=str(rank)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, program in enumerate(programs)
    ]
    found = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=seconds)
            found.append(Ended(process.returncode, out, err, time.monotonic() - start))
    finally:
        for process in processes:
            process.kill()
    return found


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

"""Joining the other processes of a run: told by hand, or by Slurm, Open MPI, a TPU slice or Kubernetes."""

import contextlib
import dataclasses
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping

from vitzoo import literals, streams
from vitzoo.errors import RunError, UserError
from vitzoo.parallel.claim import claim

JOIN_SECONDS = 300
"""How long to wait for the others."""
SAY_SECONDS = 15
"""After how long to say that."""
HOST_PORT = "must be HOST:PORT, an address of process 0's machine and a port from 1 to 65535"
_left = threading.Event()  # the others, for good


@dataclasses.dataclass(frozen=True)
class Cluster:
    """How the processes find each other.

    Attributes:
        coordinator: address and port on which process 0 listens; None: JAX asks the environment.
        count: processes.
        index: of this one.
    """

    coordinator: str | None = None
    count: int | None = None
    index: int | None = None


def cluster_of(
    coordinator: str | None, count: int | None, index: int | None, distributed: bool | None, environment: Mapping
) -> Cluster | None:
    """The processes that flags or environment speak of; None for a single one.

    Args:
        coordinator: `--coordinator`, `HOST:PORT`.
        count: `--num-processes`.
        index: `--process-id`.
        distributed: `--distributed`; None: by the environment.
        environment: of this process.

    Raises:
        UserError: some of the three are missing, or they contradict each other.
    """
    given = {"--coordinator": coordinator, "--num-processes": count, "--process-id": index}
    missing = [flag for flag, value in given.items() if value is None]
    if len(missing) == len(given):
        wanted = is_one_of_several(environment) if distributed is None else distributed
        return Cluster() if wanted else None
    if missing:
        flag = next(flag for flag, value in given.items() if value is not None)
        raise UserError(flag, given[flag], f"needs {' and '.join(missing)} too, or none of the three")
    assert coordinator is not None
    assert count is not None
    assert index is not None
    if distributed is False:
        raise UserError("--no-distributed", None, "contradicts --coordinator")
    address = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:]+):([0-9]{1,5})", coordinator)
    if not address or not 0 < int(address[2]) < 2**16:
        raise UserError("--coordinator", coordinator or "''", HOST_PORT)
    if index >= count:
        raise UserError("--process-id", index, f"must be from 0 to {count - 1}, as --num-processes = {count}")
    return Cluster(coordinator, count, index) if count > 1 else None


def is_one_of_several(environment: Mapping[str, str]) -> bool:
    """Whether the environment says that this is one of several tasks: of `srun`, of `mpirun`, or of a TPU slice on
    Kubernetes. A TPU VM has to be asked over its network: there `--distributed` says it.
    """
    slurm = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_LOCALID")
    if all(name in environment for name in slurm) and (literals.counted(environment.get("SLURM_NTASKS", "1")) or 1) > 1:
        return True
    if (
        "OMPI_MCA_orte_hnp_uri" in environment
        and (literals.counted(environment.get("OMPI_COMM_WORLD_SIZE", "1")) or 1) > 1
    ):
        return True
    return "," in environment.get("TPU_WORKER_HOSTNAMES", "") and "TPU_WORKER_ID" in environment


@contextlib.contextmanager
def joined(cluster: Cluster, *, preemption: bool) -> Iterator[None]:
    """The block as one of several processes: only process 0 prints, and none is left waiting when one ends badly.

    Args:
        cluster: how they find each other.
        preemption: SIGTERM asks the loop for a checkpoint; else it ends the process.

    Raises:
        UserError, RunError: in process 0, what any process raised in the block; in all, that one is gone.
        SystemExit: in the other processes, with the same exit code: process 0 prints the line.
    """
    _join(cluster, preemption)
    from vitzoo.parallel import processes
    from vitzoo.parallel.watch import Watch

    watch = Watch()
    watch.start()
    _print_in_first()
    try:
        yield
    except BaseException as error:
        verdict = watch.reason() if _may_follow_from_another(error) else None
        ours = verdict is None
        verdict = verdict or watch.tell(_line(error), _exit_code(error))
        processes.flush()
        watch.leave()
        _left.set()
        if ours and watch.is_first:
            raise
        if not watch.prints(verdict):
            raise SystemExit(verdict.exit_code) from error
        failed = RunError(verdict.message)
        failed.exit_code = verdict.exit_code
        raise failed from error
    processes.flush()
    watch.leave()
    _left.set()


def end(code: int) -> None:
    """Ends this process if it was one of several; else does nothing. Python's own end would abort it where a thread
    still waits for an answer of the runtime.
    """
    if _left.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _join(cluster: Cluster, preemption: bool) -> None:
    # the address alone, where it is stated: not every network that the machine is in
    listens_at = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS") or cluster.coordinator
    if cluster.coordinator is not None and cluster.index is not None:
        claim(cluster.coordinator, cluster.index, listens_at or "")
    # before jax is imported: what its runtime says of heartbeats and barriers is said by us, in one line
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import jax

    from vitzoo.parallel.watch import HEARTBEAT

    jax.config.update("jax_enable_recoverability", True)  # a lost process is an error, not the end of all others
    jax.config.update("jax_enable_preemption_service", preemption)
    try:
        with _waiting(cluster):
            jax.distributed.initialize(
                cluster.coordinator,
                cluster.count,
                cluster.index,
                coordinator_bind_address=listens_at,
                initialization_timeout=JOIN_SECONDS + 60,  # `_waiting` ends it before
                heartbeat_timeout_seconds=HEARTBEAT,
            )
    except (RuntimeError, ValueError) as error:
        raise _not_joined(cluster, error) from error
    _check_only_one()


@contextlib.contextmanager
def _waiting(cluster: Cluster) -> Iterator[None]:
    """While the block waits for the others: says so, ends the process in time, and lets Ctrl-C end it at once.

    The runtime waits in code that Python's signals don't reach, and aborts with a page of its own when it is over.
    """
    joined_all = threading.Event()

    def watch() -> None:
        where = f" at {cluster.coordinator}" if cluster.coordinator else ""
        who = f"process {cluster.index}" if cluster.index is not None else "this process"
        if joined_all.wait(SAY_SECONDS):
            return
        text = f"{who} waits for the others{where}, {JOIN_SECONDS} s at most{_unknown_host(cluster)}"
        print(f"vitzoo: {text}", file=sys.stderr, flush=True)
        if not joined_all.wait(JOIN_SECONDS - SAY_SECONDS):
            missing = f"{who}{where}: the others did not all come within {JOIN_SECONDS} s{_unknown_host(cluster)}"
            print(f"vitzoo: {missing}", file=sys.stderr, flush=True)
            os._exit(RunError.exit_code)

    threading.Thread(target=watch, name="vitzoo-join", daemon=True).start()
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_DFL) if in_main else None
    try:
        yield
    finally:
        joined_all.set()
        if in_main:  # None: it was installed by no Python code, which can't bring it back
            signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _check_only_one() -> None:
    """Refuses a process whose number another one has, on whatever machine that is."""
    import jax

    from vitzoo.parallel import processes

    own = f"{socket.gethostname()}, pid {os.getpid()}"
    name = f"vitzoo/joined/{processes.index()}"
    try:
        processes.client().key_value_set_bytes(name, own.encode())
    except jax.errors.JaxRuntimeError as error:
        _left.set()  # Python's own end would wait for the others
        other = (processes.look_up(name) or b"gone").decode()
        message = f"another process of this run has it too ({other}); give each a number of its own"
        raise UserError("--process-id", processes.index(), message) from error


def _unknown_host(cluster: Cluster) -> str:
    """What is wrong with the coordinator's name, if that is all there is; it may become known later."""
    if cluster.coordinator is None:
        return ""
    host = cluster.coordinator.rpartition(":")[0].strip("[]")
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        return f" ({host}: {error.strerror})"
    return ""


def _not_joined(cluster: Cluster, error: Exception) -> Exception:
    text = " ".join(str(error).split())
    if cluster.coordinator is None:
        return UserError("--distributed", None, f"the environment names no other processes ({text[:200]})")
    return UserError("--coordinator", cluster.coordinator, f"process {cluster.index} can't use it ({text[:200]})")


def _may_follow_from_another(error: BaseException | None) -> bool:
    """Whether an error may be what is seen of another process's end."""
    while error is not None:
        if "os_error_code" in str(error):  # a file's, by TensorStore
            return False
        if type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError", "BarrierTimeoutError"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    return 130 if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, UserError | RunError) else f"{type(error).__name__}: {text}"


def _print_in_first() -> None:
    """From here on only process 0 has a standard output, and what libraries write to it beside Python has none."""
    from vitzoo.parallel import processes

    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # a notebook's, or a test's
        return
    sys.stdout.flush()
    kept = os.dup(number)
    os.dup2(nowhere, number)
    stream = os.fdopen(kept if processes.is_first() else nowhere, "w", buffering=1, errors="backslashreplace")
    sys.stdout = streams.over(stream)

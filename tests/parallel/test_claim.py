"""A port that is in use, and a number that another process has, are refused in one line before JAX's runtime starts."""

import socket
import sys

import jax
import pytest

from vitzoo.cli import main
from vitzoo.errors import UserError
from vitzoo.parallel import claim as claims
from vitzoo.parallel import cluster, processes
from vitzoo.parallel.claim import claim

COMMANDS = [["train", "--config=quickstart", "--workdir=w"], ["eval", "--checkpoint=none"]]


@pytest.fixture(autouse=True)
def released(monkeypatch):
    """What a test holds is let go at its end."""
    held: list[socket.socket] = []
    monkeypatch.setattr(claims, "_held", held)
    yield
    for one in held:
        one.close()


@pytest.fixture
def in_use():
    """A port at which some program listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use_is_refused_in_one_line(command, host, in_use, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = [f"--coordinator={host}:{in_use}", "--num-processes=2", "--process-id=0"]
    assert main([*command, *flags]) == 2
    expected = (
        f"vitzoo: --coordinator = {host}:{in_use}: is in use by another program; give all processes another port\n"
    )
    assert capsys.readouterr().err == expected
    assert not list(tmp_path.iterdir())


def test_the_address_at_which_process_0_is_to_listen_is_the_one_that_is_looked_at(in_use):
    with pytest.raises(UserError, match="is in use"):
        claim("somewhere.invalid:1", 0, f"127.0.0.1:{in_use}")
    with pytest.raises(UserError, match="is no address of this machine"):
        claim(f"192.0.2.1:{in_use}", 0)  # of the network that RFC 5737 keeps for examples
    claim(f"192.0.2.1:{in_use}", 1)  # where it lies is no matter to the others
    claim("somewhere.invalid:1", 0)  # may become known


@pytest.mark.skipif(sys.platform != "linux", reason="no such names of sockets elsewhere")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("index", [0, 1])
def test_a_number_that_a_process_of_this_machine_has_is_refused_in_one_line(
    command, index, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    claim(address, index)
    assert main([*command, f"--coordinator={address}", "--num-processes=2", f"--process-id={index}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"vitzoo: --process-id = {index}: another process of this machine is that one for {address}")
    assert said.count("\n") == 1
    claim(address, 1 - index)
    claim(f"127.0.0.1:{free_port()}", index)


def test_a_number_that_a_process_of_another_machine_has_is_refused(monkeypatch):
    class Store(dict):
        def key_value_set_bytes(self, name, value):
            if name in self:
                raise jax.errors.JaxRuntimeError(f"ALREADY_EXISTS: key {name} already exists.")
            self[name] = value

        def key_value_try_get_bytes(self, name):
            return self.get(name)

    store = Store()
    monkeypatch.setattr(processes, "client", lambda: store)
    monkeypatch.setattr(cluster._left, "set", lambda: None)
    for index in (0, 1, 2):
        monkeypatch.setattr(processes, "index", lambda index=index: index)
        cluster._check_only_one()
    with pytest.raises(UserError, match=r"--process-id = 2: another process of this run has it too \(.*pid"):
        cluster._check_only_one()


@pytest.mark.parametrize("count", ["", "x", "1_0", "٣", "1"])
def test_what_no_scheduler_writes_is_no_several_tasks(count):
    slurm = dict.fromkeys(("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_LOCALID"), "0")
    assert not cluster.is_one_of_several({**slurm, "SLURM_NTASKS": count})
    assert not cluster.is_one_of_several({"OMPI_MCA_orte_hnp_uri": "x", "OMPI_COMM_WORLD_SIZE": count})

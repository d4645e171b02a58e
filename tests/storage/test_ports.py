"""Ports for the servers of the tests: what comes back after a stop must find its own port free."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headwater.testing import ports
from headwater.testing.ports import PORTS, free_port

OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_port_is_given_twice_or_while_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_given", set())
    mine = [free_port() for _ in range(20)]
    assert len(set(mine)) == 20 and all(port in PORTS for port in mine)
    with socket.socket() as listening:
        listening.bind(("", mine[0]))
        listening.listen()
        monkeypatch.setattr(ports, "_given", set())
        left = iter([mine[0], mine[0], mine[1]])
        monkeypatch.setattr(ports, "choice", lambda _: next(left))
        assert free_port() == mine[1]
        monkeypatch.setattr(ports, "choice", lambda _: mine[0])
        with pytest.raises(RuntimeError, match="none of 1000 ports"):
            free_port()


@pytest.mark.skipif(not OUTGOING.exists(), reason="only Linux says which ports it gives to outgoing connections")
def test_no_outgoing_connection_is_given_one_of_them() -> None:
    assert PORTS.stop <= int(OUTGOING.read_text("utf-8").split()[0])

"""What is written on a planned line is what its programs read there."""

import sys

import pytest

from ddl.launcher.commands import ElasticCommand, HostsCommand, OneHostCommand, RankCommand, TaskCommand

SCRIPT = ("/c/x.py", "a", "--threads", "9", "-np", "--timeout-s", "")
RANK = RankCommand(threads=2, command=SCRIPT)
RANKS = ("python", *RANK.words)


@pytest.mark.parametrize(
    "command",
    [
        RANK,
        RankCommand(threads=1, cluster="parameter_server", parameter_servers=3, command=SCRIPT),
        TaskCommand(controller="gloo", network_interface="ib0", timeout_s=1234567.5, command=RANKS),
        HostsCommand(hosts=2, rate_mbit=0, processes=4, command=RANKS),
        OneHostCommand(processes=8, timeout_s=7.5, command=RANKS),
        ElasticCommand(processes=8, discovery="/my hosts.sh", min_workers=2, command=RANKS),
    ],
)
def test_what_is_written_is_read(command):
    dash_m, module, *words = command.words
    assert (dash_m, module) == ("-m", command.module)
    assert type(command).parse(words) == command
    assert type(command).within(["srun", "python", *command.words]) == command
    assert (RANK.script, RANK.arguments) == (SCRIPT[0], SCRIPT[1:])


@pytest.mark.parametrize(
    "command, line, message",
    [
        (RankCommand, "--threads two x.py", "ddl.rank --threads 'two': a number is needed"),
        (TaskCommand, "--controler gloo x", "--controler is not an option of ddl.rank.task; there are: --controller,"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused(command, line, message, monkeypatch, capsys):
    with pytest.raises(ValueError, match=message):
        command.parse(line.split())
    monkeypatch.setattr(sys, "argv", ["program", *line.split()])
    with pytest.raises(SystemExit, match="2"):
        command.of_this_process()
    assert capsys.readouterr().err.startswith(message)

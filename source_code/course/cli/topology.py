"""The command for machines, `ddl topology`."""

from functools import partial

from ddl import arguments
from ddl.errors import InputError

add_command = partial(arguments.add_command, group="machines")


def add(commands):
    """Add the commands to the program's."""
    topology = add_command(
        commands,
        "topology",
        _topology,
        "show the topology of this machine or another one",
        "topology dgx-a100 --matrix",
    )
    topology.add_argument(
        "machine",
        nargs="?",
        metavar="NAME_OR_FILE",
        help="a recorded one, a .toml file or the text of nvidia-smi topo -m (default: this machine)",
    )
    topology.add_argument(
        "--matrix", action="store_true", help="distances between GPUs and network cards, as in nvidia-smi topo -m"
    )
    topology.add_argument("--figure", metavar="FILE", help="draw it, as .png, .svg or .pdf")


def _topology(arguments):
    from course import topology

    machine = topology.load(arguments.machine) if arguments.machine else topology.here()
    if arguments.matrix and not (machine.gpus or machine.nics):
        raise InputError(f"{machine.name} has neither GPUs nor network cards to compare")
    print(machine.matrix_text() if arguments.matrix else machine)
    if arguments.figure:
        from course.topology.plot_topology import plot_topology

        save(plot_topology(machine), arguments.figure, dpi=150)


def save(figure, path, **options):
    try:
        figure.savefig(path, **options)
    except ValueError as error:  # a file type that Matplotlib does not support
        raise InputError(f"--figure {path}: {error}") from None

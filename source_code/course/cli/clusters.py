"""Commands for machines and clusters: `ddl topology` and `ddl predict`."""

from functools import partial

from ddl import arguments
from ddl.errors import InputError
from ddl.text import plural

add_command = partial(arguments.add_command, group="machines")

# Options of `ddl predict`: type, default, metavar and help.
PREDICT = (
    ("--network", str, None, "CARDSxGBIT", "of a server, if the topology has none: 8x200 is 8 cards of 200 Gbit/s"),
    ("--link-gb-per-s", float, None, "X", "between neighboring GPUs, per direction, if not in the topology"),
    ("--nodes", int, 1, None, "maximal number of servers (default 1)"),
    ("--model", str, None, "NAME", "a published network, such as resnet50"),
    ("--batch", int, 64, None, "samples per GPU (default 64)"),
    ("--parameters", int, None, "N", "of your own network, instead of --model"),
    ("--images-per-s", float, None, "X", "of one GPU (default: published for the model)"),
    ("--gradient-bytes", int, 4, "N", "bytes per gradient value: 2 in half precision (default 4)"),
    ("--fusion-threshold-mb", float, 128, "MB", "maximal size of a message in MiB (default 128, as in Horovod)"),
    ("--baseline", int, 1, "N", "efficiency is relative to N GPUs (default 1)"),
    ("--figure", str, None, "FILE", "also draw it, as .png or .svg"),
)


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
        help="a recorded one, a .toml file, XML of lstopo or the text of nvidia-smi topo -m (default: this machine)",
    )
    topology.add_argument(
        "--matrix", action="store_true", help="distances between GPUs and network cards, as in nvidia-smi topo -m"
    )
    topology.add_argument("--figure", metavar="FILE", help="draw it, as .png, .svg or .pdf")
    _add_predict(commands)


def _add_predict(commands):
    predict = add_command(
        commands,
        "predict",
        _predict,
        "predict a training's scaling on a cluster of servers",
        "predict --topology dgx-a100 --nodes 4 --model resnet50",
    )
    predict.add_argument(
        "--topology", required=True, metavar="NAME_OR_FILE", help="of a server, as for `ddl topology`, with its network"
    )
    for name, kind, default, metavar, text in PREDICT:
        predict.add_argument(name, type=kind, default=default, metavar=metavar, help=text)


def _topology(arguments):
    from course import topology

    machine = topology.load(arguments.machine) if arguments.machine else topology.here()
    if arguments.matrix and not (machine.gpus or machine.nics):
        raise InputError(f"{machine.name} has neither GPUs nor network cards to compare")
    print(machine.matrix_text() if arguments.matrix else machine)
    if arguments.figure:
        from course.topology.plot_topology import plot_topology

        save(plot_topology(machine), arguments.figure, dpi=150)


def _predict(arguments):
    from course import topology
    from course.topology import clusters, prediction

    machine = topology.load(arguments.topology)
    links = {"network": arguments.network, "link_gb_per_s": arguments.link_gb_per_s}
    predictions = clusters.scaling(
        machine,
        arguments.nodes,
        arguments.model,
        arguments.batch,
        fusion_bytes=arguments.fusion_threshold_mb * 2**20,
        **{name: getattr(arguments, name) for name in ("parameters", "images_per_s", "gradient_bytes", "baseline")},
        **links,
    )
    what = arguments.model or f"{arguments.parameters:,} parameters"
    title = (
        f"{what} on {arguments.topology}, {arguments.batch} samples per GPU, gradients of "
        f"{arguments.gradient_bytes} bytes, efficiency against {plural(arguments.baseline, 'GPU')}. "
        f"{clusters.server(machine, **links).assumed}"
    ).strip()
    print(repr(prediction.table(predictions, title, clusters.MARGIN_POINTS)))
    if arguments.figure:
        from course.topology.plot_prediction import plot_prediction

        save(plot_prediction(predictions, margin_points=clusters.MARGIN_POINTS), arguments.figure)


def save(figure, path, **options):
    try:
        figure.savefig(path, **options)
    except ValueError as error:  # a file type that Matplotlib does not support
        raise InputError(f"--figure {path}: {error}") from None

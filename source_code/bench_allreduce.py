"""How long all-reduce, broadcast and all-gather take, over message sizes from 4 B to 256 MiB.

    ddl run --workers 2 bench_allreduce.py
    ddl run --workers 2 bench_allreduce.py --operations all_reduce --sizes 4 4096 4194304
    ddl run --workers 2 --cluster multi_worker bench_allreduce.py --implementation ring
    ddl run --workers 8 bench_allreduce.py --nccl NCCL_ALGO=Ring NCCL_P2P_LEVEL=PHB

Under Horovod it times Horovod's operations, with whatever carries them: Gloo, MPI, or NCCL on GPUs.
In a cluster of tf.distribute (--cluster multi_worker) it times that library's collectives.

Before each repetition all ranks wait for each other; its time is that of the slowest. The first
repetitions, which open connections and build graphs, are not kept. All sizes take turns, so that
what else the machine is doing hits all alike. A size is that of the result: each of N ranks brings
1/N of an all-gather's, as the nccl-tests count it.
"""

from ddl.training import bench
from ddl.training.options import Number, parser, run

OPERATIONS = ("all_reduce", "broadcast", "all_gather")
IMPLEMENTATIONS = ("auto", "ring", "nccl")


def parse(arguments=None):
    ours = parser(__doc__)
    ours.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    bench.add_options(ours)
    ours.add_argument("--nccl", nargs="+", metavar="NAME=VALUE", help="settings of NCCL, such as NCCL_ALGO=Ring")
    ours.add_argument(
        "--cycle-time-ms",
        type=Number(above=0),
        metavar="MS",
        help="how often Horovod looks what is ready (default: Horovod's own, 1)",
    )
    ours.add_argument(
        "--implementation",
        choices=IMPLEMENTATIONS,
        default="auto",
        help="of tf.distribute's collectives; Horovod's was chosen with its launch",
    )
    return bench.parse(ours, arguments)


if __name__ == "__main__":
    config = parse()  # before the slow imports: a wrong option is refused at once

import os
import time

import tensorflow as tf

from ddl.rank import cluster
from ddl.records.network import interface_of
from ddl.training.bench import BenchError, link, nccl_settings, refuse_what_does_not_fit, repeats, sizes, timing
from ddl.training.journal import Writer, provenance

TURNS = 3  # of each size; one repetition at the beginning of a turn is not kept


def main(config):
    to_measure = sizes(config)
    settings = nccl_settings(config.nccl)
    os.environ.update(settings)  # NCCL reads them when it is first used
    library = TFDistribute(config) if os.environ.get("TF_CONFIG") else Horovod(config)
    refuse_what_does_not_fit(max(to_measure), library.COPIES, library.local_ranks)
    messages = [
        Message(library, operation, size)
        for operation in config.operations
        for size in dict.fromkeys(whole(operation, size, library.ranks) for size in to_measure)
    ]

    writer = Writer(library.rank == 0)
    writer.event("start", steps=TURNS * len(messages), world=library.ranks)
    announce(writer, library, settings)
    for turn in range(TURNS):
        for step, message in enumerate(messages, start=1 + turn * len(messages)):
            message.take(turn, config)
            writer.event("step", step=step, operation=message.operation, size_bytes=message.size_bytes)
    points = [message.measured() for message in messages]
    for point in points:
        median = f"{1e6 * point['seconds']['median']:,.1f} µs, median of {point['repeats']}"
        writer.print(f"{point['operation']} {point['size_bytes']:,} bytes: {median}")
    writer.result(
        {
            **provenance(),
            "config": vars(config),
            "library": library.name,
            "backend": library.backend,
            "transport": library.transport,
            "hosts": library.hosts,
            "ranks": library.ranks,
            "settings": {
                name: value
                for name, value in sorted(os.environ.items())
                if name.startswith("NCCL_") or name in Horovod.SETTINGS
            },
            "points": points,
            "history": [],
        }
    )


def announce(writer, library, settings):
    """Say what is about to be measured, and what it cannot show."""
    if settings and library.backend != "nccl":
        writer.event("note", message=f"settings of NCCL change nothing here: {library.backend} carries the bytes")
    if library.ranks == 1:
        writer.event(
            "note",
            message="on one rank nothing travels: what is timed is what the library does with a message all the same",
        )
    writer.print(f"{library.name}, {library.backend}, {library.ranks} ranks: {library.transport}")


def whole(operation, size_bytes, ranks):
    """Return the size to measure: each rank brings whole numbers to an all-gather."""
    parts = ranks if operation == "all_gather" else 1
    return max(1, size_bytes // (4 * parts)) * 4 * parts


class Message:
    """One operation on messages of one size, and how long it took each time."""

    def __init__(self, library, operation, size_bytes):
        self.library, self.operation, self.size_bytes = library, operation, size_bytes
        self.own = size_bytes // 4 // (library.ranks if operation == "all_gather" else 1)
        self.act = library.operation(operation, self.own)
        self.seconds = []

    def take(self, turn, config):
        """Take one of the turns: a part of all repetitions."""
        # Rank k brings k + 1, so that a result says who took part in it.
        values = tf.fill([self.own], self.library.rank + 1.0)
        if turn == 0:
            self._check(self.act(values))  # builds the graph, too
        warm = self._once(values)
        if turn == 0:
            self.count = repeats(config, self.library.gather([warm]).max())
        for _ in range(turn, self.count, TURNS):
            self.seconds.append(self._once(values))

    def _once(self, values):
        self.library.barrier()
        start = time.perf_counter()
        self.library.finish(self.act(values))
        return time.perf_counter() - start

    def _check(self, result):
        ranks, numbers = self.library.ranks, self.size_bytes // 4
        ends = {"all_reduce": (ranks * (ranks + 1) / 2,) * 2, "broadcast": (1, 1), "all_gather": (1, ranks)}[
            self.operation
        ]
        found = float(result[0]), float(result[-1]), len(result)
        if found != (*ends, numbers):
            raise RuntimeError(
                f"{self.operation} of {self.size_bytes:,} bytes gave {found} on "
                f"rank {self.library.rank}, where {(*ends, numbers)} is right "
                "(first, last, how many)"
            )

    def measured(self):
        """Return what the record keeps: each repetition took as long as on its slowest rank."""
        slowest = self.library.gather(self.seconds).max(axis=0)
        return {
            "operation": self.operation,
            "size_bytes": self.size_bytes,
            "repeats": self.count,
            "seconds": timing(slowest.tolist()),
        }


class Horovod:
    """Horovod's operations, one process a rank."""

    name = "horovod"
    COPIES = 5  # of a message in a rank's memory at the most, its own and the result among them
    SETTINGS = ("HOROVOD_GLOO_IFACE", "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD")

    def __init__(self, config):
        import horovod.tensorflow as hvd

        if config.implementation != "auto":
            raise BenchError(
                f"--implementation {config.implementation} is for tf.distribute: "
                'launch with cluster="multi_worker" to time its collectives'
            )
        if config.cycle_time_ms is not None:
            os.environ["HOROVOD_CYCLE_TIME"] = str(config.cycle_time_ms)
        if config.interface:
            link(config.interface)  # refuses what isn't there
            os.environ.update(HOROVOD_GLOO_IFACE=config.interface, NCCL_SOCKET_IFNAME=config.interface)
        hvd.init()
        self.hvd, self.rank, self.ranks = hvd, hvd.rank(), hvd.size()
        self.hosts, self.local_ranks = hvd.cross_size(), hvd.local_size()
        gpus = tf.config.list_physical_devices("GPU")
        if gpus:
            tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
        on_cpus = "mpi" if hvd.mpi_enabled() else "gloo"
        self.backend = "nccl" if gpus and hvd.nccl_built() else on_cpus
        if config.interface and self.backend == "mpi":
            raise BenchError(
                "--interface: MPI chooses its interfaces before a script begins; "
                "Open MPI takes btl_tcp_if_include from its own configuration"
            )
        self.transport = transport(self.backend, self.ranks, self.hosts, os.environ.get("HOROVOD_GLOO_IFACE", ""))

    def barrier(self):
        self.hvd.allreduce(tf.zeros([1]), name="barrier")

    def finish(self, result):
        """Wait until the devices are done with what they were given."""
        tf.test.experimental.sync_devices()

    def operation(self, operation, numbers):
        """Return a function that does the operation with so many numbers of each rank."""
        hvd, name = self.hvd, f"{operation}.{numbers}"

        @tf.function
        def act(values):
            if operation == "all_reduce":
                return hvd.allreduce(values, op=hvd.Sum, name=name)
            if operation == "broadcast":
                return hvd.broadcast(values, root_rank=0, name=name)
            return hvd.allgather(values, name=name)

        return act

    def gather(self, values):
        """Return the values of all ranks: an array of ranks × values, float64."""
        return self.hvd.allgather(tf.constant([values], tf.float64), name="times").numpy()


class TFDistribute:
    """The collectives of tf.distribute's MultiWorkerMirroredStrategy, one replica a process.

    It has no broadcast to call by name: this is the operation with which it gives all replicas the
    first one's initial values.
    """

    name = "tf.distribute"
    COPIES = 9  # an all-gather pads what each brings, and puts the parts together in the end
    GROUP = 2020  # a number of our own for broadcasts: the strategy counts its groups from 1

    def __init__(self, config):
        for option in ("interface", "cycle_time_ms"):
            if getattr(config, option) is not None:
                raise BenchError(
                    f"--{option.replace('_', '-')} is for Horovod: tf.distribute uses "
                    "the addresses in TF_CONFIG, and has no cycles"
                )
        task = cluster.read()
        if task.chief or task.ps:
            raise BenchError('a chief and parameter servers have no collectives: launch with cluster="multi_worker"')
        cluster.await_all(task)
        tf_options = tf.distribute.experimental
        implementation = tf_options.CommunicationImplementation[config.implementation.upper()]
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf_options.CommunicationOptions(implementation=implementation)
        )
        self.rank, self.ranks = task.index, len(task.workers)
        if self.strategy.num_replicas_in_sync != self.ranks:
            raise BenchError(
                f"{self.strategy.num_replicas_in_sync} replicas on {self.ranks} "
                "workers: each worker needs one GPU (CUDA_VISIBLE_DEVICES) or none"
            )
        names = [host.rpartition(":")[0] for host in task.workers]
        self.hosts, self.local_ranks = len(set(names)), names.count(names[self.rank])
        gpus = tf.config.list_logical_devices("GPU")
        if config.implementation == "nccl" and not gpus:
            raise BenchError("--implementation nccl: NCCL needs GPUs, and TensorFlow sees none; ring works without")
        self.device = gpus[0].name if gpus else tf.config.list_logical_devices("CPU")[0].name
        self.backend = "nccl" if gpus and config.implementation != "ring" else "grpc ring"
        self.transport = transport(self.backend, self.ranks, self.hosts, interface_of(names[self.rank]))
        self.wait = self._replicated(
            lambda: tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.zeros([1]))
        )
        self.all = self._replicated(
            lambda own: tf.distribute.get_replica_context().all_gather(own, axis=0),
            input_signature=[tf.TensorSpec([1, None], tf.float64)],
        )
        self.broadcasts = 0

    def _replicated(self, act, **options):
        """Return a graph function that does `act` in this process' replica."""

        def in_replica(*values):
            return act(*map(tf.identity, values))  # which is on the replica's device

        return tf.function(lambda *values: self.strategy.run(in_replica, args=values), **options)

    def barrier(self):
        self.wait()

    def finish(self, result):
        """Wait for a GPU by fetching a number from it: sync_devices() fails in a cluster."""
        if "GPU" in self.device:
            result[0].numpy()

    def operation(self, operation, numbers):
        """Return a function that does the operation with so many numbers of each rank."""
        context = tf.distribute.get_replica_context
        acts = {
            "all_reduce": lambda own: context().all_reduce(tf.distribute.ReduceOp.SUM, own),
            "broadcast": self._broadcast,
            "all_gather": lambda own: context().all_gather(own, axis=0),
        }
        return self._replicated(acts[operation])

    def _broadcast(self, values):
        if self.ranks == 1:
            return tf.identity(values)
        self.broadcasts += 1  # each graph that is built needs an instance of its own
        how = {"group_size": self.ranks, "group_key": self.GROUP, "instance_key": self.broadcasts}
        with tf.device(self.device):
            if self.rank == 0:
                return tf.raw_ops.CollectiveBcastSend(input=values, shape=values.shape, **how)
            return tf.raw_ops.CollectiveBcastRecv(T=values.dtype, shape=values.shape, **how)

    def gather(self, values):
        """Return the values of all ranks: an array of ranks × values, float64."""
        return self.all(tf.constant([values], tf.float64)).numpy()


def transport(backend, ranks, hosts, interface):
    """Say in words where the bytes go, as far as a script can know."""
    if ranks == 1:
        return "nothing travels: there is one rank"
    if backend == "nccl":
        return (
            "NVLink, PCIe or host memory, and a network between hosts: NCCL chooses, and says what with NCCL_DEBUG=INFO"
        )
    if backend == "mpi":
        return "MPI chooses: " + (
            "shared memory as a rule, as there is one host"
            if hosts == 1
            else "shared memory inside a host, a network between hosts"
        )
    return link(interface, hosts)


if __name__ == "__main__":
    run(main, config)

"""Collectives of Horovod and tf.distribute, for `bench_allreduce.py`.

A rank holds at most COPIES of a message in memory, including input and result.
"""

import os

import tensorflow as tf

from course.shared.bench import BenchError, link
from ddl.records.network import interface_of


class Horovod:
    """Horovod's operations."""

    name, COPIES = "horovod", 5

    def __init__(self, config):
        import horovod.tensorflow as hvd

        from course.training.gpu import pin_gpu

        if config.interface:
            link(config.interface)  # raises an error on hosts without it
            os.environ.update(HOROVOD_GLOO_IFACE=config.interface, NCCL_SOCKET_IFNAME=config.interface)
        hvd.init()
        self.hvd, self.rank, self.ranks = hvd, hvd.rank(), hvd.size()
        self.hosts, self.local_ranks = hvd.cross_size(), hvd.local_size()
        on_cpus = "mpi" if hvd.mpi_enabled() else "gloo"
        self.backend = "nccl" if pin_gpu() and hvd.nccl_built() else on_cpus
        if config.interface and self.backend == "mpi":
            raise BenchError(
                "--interface: MPI chooses its interfaces before a script begins; "
                "Open MPI takes btl_tcp_if_include from its own configuration"
            )
        self.transport = transport(self.backend, self.ranks, self.hosts, os.environ.get("HOROVOD_GLOO_IFACE", ""))

    def barrier(self):
        self.hvd.allreduce(tf.zeros([1]), name="barrier")

    def finish(self, result):
        """Wait until the devices have finished."""
        tf.test.experimental.sync_devices()

    def operation(self, operation, numbers):
        """Return a function that runs the operation with `count` numbers per rank."""
        hvd, name = self.hvd, f"{operation}.{numbers}"
        acts = {
            "all_reduce": lambda values: hvd.allreduce(values, op=hvd.Sum, name=name),
            "broadcast": lambda values: hvd.broadcast(values, root_rank=0, name=name),
            "all_gather": lambda values: hvd.allgather(values, name=name),
        }
        return tf.function(acts[operation])

    def gather(self, values):
        """Return the values of all ranks: an array of ranks × values, float64."""
        return self.hvd.allgather(tf.constant([values], tf.float64), name="times").numpy()


class TFDistribute:
    """The collectives of tf.distribute's MultiWorkerMirroredStrategy, one replica per process.

    It has no public broadcast; this one uses the operation that distributes initial values. `task` identifies this
    process in a cluster whose workers have all started.
    """

    name, COPIES = "tf.distribute", 9  # an all-gather pads each input and concatenates at the end
    GROUP = 2020  # an unused group key for broadcasts: the strategy counts from 1

    def __init__(self, config, task):
        if config.interface is not None:
            raise BenchError("--interface is for Horovod: tf.distribute uses the addresses in TF_CONFIG")
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy()
        self.rank, self.ranks = task.index, len(task.workers)
        if self.strategy.num_replicas_in_sync != self.ranks:
            raise BenchError(
                f"{self.strategy.num_replicas_in_sync} replicas on {self.ranks} "
                "workers: each worker needs one GPU (CUDA_VISIBLE_DEVICES) or none"
            )
        names = [host.rpartition(":")[0] for host in task.workers]
        self.hosts, self.local_ranks = len(set(names)), names.count(names[self.rank])
        gpus = tf.config.list_logical_devices("GPU")
        self.device = gpus[0].name if gpus else tf.config.list_logical_devices("CPU")[0].name
        self.backend = "nccl" if gpus else "grpc ring"
        self.transport = transport(self.backend, self.ranks, self.hosts, interface_of(names[self.rank]))
        self.barrier = self._replicated(lambda: self._sum(tf.zeros([1])))
        self.all = self._replicated(self._all, input_signature=[tf.TensorSpec([1, None], tf.float64)])
        self.broadcasts = 0

    def _replicated(self, act, **options):
        """Return a graph function that runs `act` in this process's replica."""

        def in_replica(*values):
            return act(*map(tf.identity, values))  # on the replica's device

        return tf.function(lambda *values: self.strategy.run(in_replica, args=values), **options)

    def _sum(self, values):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _all(self, values):
        return tf.distribute.get_replica_context().all_gather(values, axis=0)

    def _broadcast(self, values):
        if self.ranks == 1:
            return tf.identity(values)
        self.broadcasts += 1  # each graph needs a unique instance key
        how = {"group_size": self.ranks, "group_key": self.GROUP, "instance_key": self.broadcasts}
        with tf.device(self.device):
            if self.rank == 0:
                return tf.raw_ops.CollectiveBcastSend(input=values, shape=values.shape, **how)
            return tf.raw_ops.CollectiveBcastRecv(T=values.dtype, shape=values.shape, **how)

    def finish(self, result):
        """Wait for a GPU by fetching a number from it, because sync_devices() fails in a cluster."""
        if "GPU" in self.device:
            result[0].numpy()

    def operation(self, operation, numbers):
        """Return a function that runs the operation with `count` numbers per rank."""
        acts = {"all_reduce": self._sum, "broadcast": self._broadcast, "all_gather": self._all}
        return self._replicated(acts[operation])

    def gather(self, values):
        """Return the values of all ranks: an array of ranks × values, float64."""
        return self.all(tf.constant([values], tf.float64)).numpy()


def transport(backend, ranks, hosts, interface):
    """Return a description of the transport, as far as a script can know."""
    if ranks == 1:
        return "none: there is one rank"
    if backend == "nccl":
        return "NVLink, PCIe or host memory, and a network between hosts, chosen by NCCL (see NCCL_DEBUG=INFO)"
    if backend == "mpi":
        inside = "as a rule, as there is one host" if hosts == 1 else "inside a host, a network between hosts"
        return f"MPI chooses: shared memory {inside}"
    return link(interface, hosts)

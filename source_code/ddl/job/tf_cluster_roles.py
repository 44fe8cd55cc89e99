"""Kinds of clusters, and the task of tf.distribute that each rank is."""

CLUSTERS = ("horovod", "multi_worker", "parameter_server", "torchrun")
Roles = tuple[tuple[str, int], ...]  # type and index of each rank's task


def task_name(type: str, index: int) -> str:
    """Name a task: "chief", "worker 1", "ps 0"."""
    return type if type == "chief" else f"{type} {index}"


def assign_roles(cluster: str, workers: int, parameter_servers: int = 0) -> Roles:
    """Return each rank's task, in the order of ranks; empty for Horovod and torchrun, where all ranks are equal."""
    computing = tuple(("worker", index) for index in range(workers))
    if cluster == "parameter_server":
        return (("chief", 0), *computing, *(("ps", index) for index in range(parameter_servers)))
    return computing if cluster == "multi_worker" else ()


def role_of(job: dict, rank: int) -> str:
    """Name a rank's task ("worker 1") from the run's ``job.json``; empty if all ranks are equal."""
    roles = assign_roles(job.get("cluster", ""), job.get("workers", 0), job.get("parameter_servers", 0))
    return task_name(*roles[rank]) if rank < len(roles) else ""

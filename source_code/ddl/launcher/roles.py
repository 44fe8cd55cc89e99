"""What the ranks of a run are to each other, and which task of tf.distribute each is."""

CLUSTERS = ("horovod", "multi_worker", "parameter_server", "torchrun")
TYPES = ("chief", "worker", "ps")
Roles = tuple[tuple[str, int], ...]  # type and index of each rank's task


def task_name(type: str, index: int) -> str:
    """Name a task: there is one chief, and the others are counted."""
    return type if type == "chief" else f"{type} {index}"


def assign_roles(cluster: str, workers: int, parameter_servers: int = 0) -> Roles:
    """Return each rank's task, in order; empty for Horovod and torchrun, whose ranks are all alike."""
    computing = tuple(("worker", index) for index in range(workers))
    if cluster == "parameter_server":
        return (("chief", 0), *computing, *(("ps", index) for index in range(parameter_servers)))
    return computing if cluster == "multi_worker" else ()


def roles_of(job: dict) -> Roles:
    """Return the roles of a run, from its ``job.json``."""
    return assign_roles(job.get("cluster", ""), job.get("workers", 0), job.get("parameter_servers", 0))


def role_of(job: dict, rank: int) -> str:
    """Name the task that a rank of a run is ("worker 1"), from its ``job.json``; empty where all are alike."""
    by_rank = roles_of(job)
    return task_name(*by_rank[rank]) if rank < len(by_rank) else ""

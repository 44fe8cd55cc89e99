"""Print a line from every rank and all-reduce one number: the smallest test of a launch.

ddl run --workers 2 hello.py
horovodrun --gloo -np 2 python source_code/ddl/scripts/hello.py
"""

from argparse import RawDescriptionHelpFormatter

from ddl.arguments import Parser

if __name__ == "__main__":
    # Before the slow imports: the script has no options and refuses any at once.
    Parser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()

import os

import horovod.tensorflow as hvd
import tensorflow as tf

from ddl.records.machine import host_name
from ddl.records.recorder import Recorder


def main():
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    device = pin_device()
    print(f"rank {rank} of {ranks} on {host_name()} ({device})", flush=True)

    total = int(hvd.allreduce(tf.constant(rank + 1), op=hvd.Sum))
    expected = ranks * (ranks + 1) // 2
    if total != expected:
        raise RuntimeError(f"the sum over {ranks} ranks must be {expected}, got {total}")
    places = hvd.allgather_object([host_name(), device])
    if rank == 0:
        Recorder().event("all_reduced", ranks=ranks, places=places)
        print(f"all-reduce over {ranks} ranks: {total}, as it should be", flush=True)


def pin_device():
    """Pin this rank to its GPU, if there is one; return the device's name."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "processor cores"
    mine = hvd.local_rank() % len(gpus)
    tf.config.set_visible_devices(gpus[mine], "GPU")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"GPU {visible.split(',')[mine] if visible else mine}"


if __name__ == "__main__":
    main()

"""Train the course's network in several processes with PyTorch's DistributedDataParallel (DDP).

    ddl run --workers 2 --cluster torchrun strategies/torch_ddp.py --epochs 2
    torchrun --nproc-per-node 2 source_code/strategies/torch_ddp.py --steps 20

Every process runs this file. DDP averages the ranks' gradients, so each rank uses the mean loss over its part of the
batch. The six steps are numbered as in horovod_loop.py.
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__, backend=True)  # before the slow imports, to refuse wrong options at once

import os

import torch
import torch.distributed as dist

from course.training.torch_strategy import MOMENTUM, Experiment, losses_and_hits


def main(config):
    # 1, initialize: from here on this process knows its rank and how many there are.
    dist.init_process_group(config.backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    # 2, pin: each rank to one GPU, if there are any.
    device = torch.device("cpu")
    if torch.cuda.is_available():  # a scheduler may show each rank only its own: hence the remainder
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    # Only rank 0 evaluates and writes.
    experiment = Experiment(config, rank=dist.get_rank(), ranks=dist.get_world_size())
    # 3, shard: each rank takes its part of every batch.
    dataset = experiment.dataset(dist.get_rank(), dist.get_world_size())

    # 5 and 6, wrap and broadcast: all ranks begin with rank 0's weights, and backward() averages
    # the gradients of all ranks.
    model = torch.nn.parallel.DistributedDataParallel(experiment.model().to(device))
    # 4, scale: the rate with the samples of all ranks.
    per_rank_batch = experiment.global_batch // dist.get_world_size()
    rate = experiment.rate(per_rank_batch * dist.get_world_size())
    optimizer = torch.optim.SGD(model.parameters(), rate, MOMENTUM)

    def train_step(images, labels):
        losses, hits = losses_and_hits(labels, model(images))
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # Metrics are averaged too: one rank's own would be of its part only.
        figures = torch.stack([loss.detach(), hits.mean()])
        dist.all_reduce(figures)
        return figures / dist.get_world_size()

    experiment.start()
    for images, labels in dataset:
        experiment.step(model, train_step(images.to(device), labels.to(device)))
    experiment.finish(model)


if __name__ == "__main__":
    main(config)
    dist.destroy_process_group()  # once no model holds it

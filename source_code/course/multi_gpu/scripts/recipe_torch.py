"""Train on several ranks, with PyTorch's DistributedDataParallel."""

import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from course.data import load

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")  # 1 initialize
device = torch.device("cpu")
if torch.cuda.is_available():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)  # 2 pin

data = load("auto", train_samples=4_000, test_samples=500)
x = torch.from_numpy(data.train_images / 255).float().permute(0, 3, 1, 2)
dataset = TensorDataset(x, torch.from_numpy(data.train_labels.copy()).long())
sampler = DistributedSampler(dataset)  # 3 shard
loader = DataLoader(dataset, batch_size=32, sampler=sampler, drop_last=True)

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, stride=2),
    torch.nn.ReLU(),
    torch.nn.BatchNorm2d(16),
    torch.nn.Flatten(),
    torch.nn.Linear(16 * 15 * 15, 10),
).to(device)
model = torch.nn.parallel.DistributedDataParallel(model)  # 5 wrap, 6 broadcast
optimizer = torch.optim.SGD(model.parameters(), 0.005 * dist.get_world_size(), 0.9)  # 4 scale

for epoch in range(3):
    sampler.set_epoch(epoch)  # another order in each epoch
    total = torch.zeros(())
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach().cpu()
    total = (total / len(loader)).to(device)
    dist.all_reduce(total)  # the sum of all ranks
    if dist.get_rank() == 0:  # one writer
        print(f"epoch {epoch + 1}: loss {total / dist.get_world_size():.3f}")
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), "model.weights.pt")
dist.destroy_process_group()

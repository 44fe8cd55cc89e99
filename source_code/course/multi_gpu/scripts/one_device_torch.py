"""Lesson 3's `one_device.py` in PyTorch: make it distributed with DDP instead, if that is what you write.

ddl run --workers 1 --cluster torchrun one_device_torch.py --data exercise.npz
"""

import argparse

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from course import initial_weights, report

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="exercise.npz")
parser.add_argument("--batch", type=int, default=480)  # samples in a step
parser.add_argument("--rate", type=float, default=0.02)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--out", default="model.weights.pt")
args = parser.parse_args()

with np.load(args.data) as data:
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
dataset = TensorDataset(x, y)
loader = DataLoader(dataset, batch_size=args.batch)

model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))
for weight, drawn in zip(model.parameters(), initial_weights(model.parameters())):
    weight.data = torch.from_numpy(drawn)
optimizer = torch.optim.SGD(model.parameters(), args.rate)

for _ in range(args.epochs):
    losses = []
    for some_x, some_y in loader:
        loss = torch.nn.functional.mse_loss(model(some_x), some_y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

report(model.parameters(), torch.stack(losses).mean(), len(dataset))
torch.save(model.state_dict(), args.out)

"""Lesson 3's `one_device.py` in PyTorch: a beginning for those who make it distributed there with DDP.

ddl run --workers 1 --cluster torchrun one_device_torch.py
"""

import torch

from course.training.torch_exercise import Network, Task

task, model = Task(), Network()
optimizer = torch.optim.SGD(model.parameters(), task.rate)

task.begin(model)  # right before the first step
for numbers in task.batches(task.batch):
    loss = model(task.samples(numbers))  # DDP averages what comes of calling the model, and nothing else
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    task.step(model, loss=loss, samples=len(numbers))
task.save(model)

"""Measurements of `tools/gpu_check.sh`, written as one JSON record.

    gpu_check.py FOLDER RECORD      run every step and write the record after each
    gpu_check.py --step NAME        run one measurement in this process and print its numbers as JSON
    gpu_check.py --rank KIND        one rank of a launch: "report", "allreduce" or "horovod"

Each step is a process with a time limit, so one failure does not affect the others. A step that fails is recorded with
the end of its output.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STRATEGIES = ROOT / "source_code/strategies"
SHARDED = ROOT / "source_code/course/sharding/scripts/torch_sharded.py"
LIMIT_S = 480
TAIL = 2500  # characters of output that the record keeps


def main(folder, record):
    """Run all steps; `record` is rewritten after each."""
    began, folder = time.monotonic(), Path(folder)
    found = {"date": time.strftime("%Y-%m-%d"), "hardware": hardware(), "steps": {}}

    def step(name, *command, limit_s=60, numbers=False):
        left = LIMIT_S - (time.monotonic() - began)
        start = time.monotonic()
        try:
            done = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, timeout=max(1, min(limit_s, left)), cwd=ROOT
            )
            status, output = done.returncode, done.stdout + done.stderr
            lines = done.stdout.splitlines()
        except subprocess.TimeoutExpired as late:
            status, lines = "timeout", []
            output = "".join((part or b"").decode(errors="replace") for part in (late.stdout, late.stderr))
        except OSError as error:
            status, output, lines = str(error), "", []
        entry = {"status": status, "seconds": round(time.monotonic() - start, 1)}
        if numbers and status == 0:
            entry |= json.loads(lines[-1])
        else:
            entry["output"] = _plain(output)[-TAIL:]
        found["steps"][name] = entry
        Path(record).write_text(json.dumps(found, indent=1) + "\n")
        print(f"{entry['seconds']:6.1f} s  {name}: {status if status != 0 else 'ok'}", flush=True)
        if status != 0:
            print(output[-700:], flush=True)

    def run(name, workers, script, *args, options=(), limit_s=60):
        run = ("run", "--cluster", "torchrun", "--workers", workers, "--timeout-s", limit_s, *options)
        step(name, sys.executable, "-m", "ddl.cli", *run, script, *args, limit_s=limit_s + 15)

    me = Path(__file__).resolve()
    if shutil.which("nvidia-smi"):
        step("nvidia-smi", "nvidia-smi")
        step("nvidia-smi topo -m", "nvidia-smi", "topo", "-m")
    step("ddl doctor", sys.executable, "-m", "ddl.cli", "doctor")
    topology = "from course.cli import add_commands; from ddl.cli import main; import ddl.plugins, sys, course.plugin;"
    topology += (
        "ddl.plugins.each = lambda name: [getattr(course.plugin, name)] if hasattr(course.plugin, name) else [];"
    )
    step("ddl topology", sys.executable, "-c", topology + "sys.exit(main(['topology']))")
    run("one rank: report", 1, me, "--rank", "report")
    run("two ranks, one GPU: refused", 2, me, "--rank", "report")
    shared = ("--oversubscribe",)
    run("two ranks sharing: report", 2, me, "--rank", "report", options=shared)
    small = ("--data-set", "synthetic", "--train-samples", 5000, "--test-samples", 1000, "--steps", 50)
    run("torch_ddp: one rank", 1, STRATEGIES / "torch_ddp.py", *small, limit_s=90)
    run("torch_ddp: two ranks sharing, NCCL", 2, STRATEGIES / "torch_ddp.py", *small, options=shared)
    run(
        "torch_ddp: two ranks sharing, Gloo",
        2,
        STRATEGIES / "torch_ddp.py",
        *small,
        "--backend",
        "gloo",
        options=shared,
    )
    for method in ("ddp", "zero1", "fsdp"):
        run(f"torch_sharded {method}: one rank", 1, SHARDED, "--method", method)
    for method in ("ddp", "fsdp"):
        args = (SHARDED, "--method", method, "--backend", "gloo")
        run(f"torch_sharded {method}: two ranks sharing, Gloo", 2, *args, options=shared)
    run("all-reduce, Gloo, two ranks sharing", 2, me, "--rank", "allreduce", options=shared)

    compiled = folder / "compiled"
    while not compiled.exists() and time.monotonic() - began < LIMIT_S - 180:
        time.sleep(1)
    found["horovod"] = {"compiled": compiled.read_text().strip() if compiled.exists() else "too late"}
    found["horovod"]["log"] = _plain((folder / "compile.log").read_text())[-300:]
    # After the compilation, which uses all cores.
    for name in ("bandwidth", "matmul", "roofline", "overlap", "memory", "images", "transformer", "compiled"):
        step(name, sys.executable, me, "--step", name, limit_s=90, numbers=True)
    if found["horovod"]["compiled"] == "yes":
        step("Horovod build as ddl doctor sees it", sys.executable, "-m", "ddl.cli", "doctor")
        horovod = ("--cluster", "horovod")
        run("Horovod: one rank", 1, me, "--rank", "horovod", options=horovod)
        run("Horovod: two ranks sharing", 2, me, "--rank", "horovod", options=(*horovod, *shared))
    found["seconds"] = round(time.monotonic() - began)
    Path(record).write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['seconds']} s in all: {record}")


def _plain(output):
    """Return a step's output without this machine's folders and a terminal's underlines."""
    for path, name in ((f"{ROOT}/", ""), (str(ROOT), "."), (f"{sys.prefix}/", "")):
        output = output.replace(path, name)
    return re.sub(r"\x1b\[\d*m", "", output)


def hardware():
    """Return a description of this machine: processor, cores, GPUs, driver and versions."""
    import psutil
    import torch

    from ddl.records.machine import processor_model

    facts = {"cpu": processor_model(), "cores": os.cpu_count()}
    facts |= {"memory_gib": round(psutil.virtual_memory().total / 2**30, 1), "python": platform.python_version()}
    facts |= {"torch": torch.__version__, "cuda": torch.version.cuda, "gpus": []}
    for number in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(number)
        facts["gpus"].append({"name": gpu.name, "memory_gib": round(gpu.total_memory / 2**30, 1)})
    if facts["gpus"]:
        facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        facts["driver"] = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    return facts


# ---------------------------------------------------------------- measurements in one process


def seconds(call, repeats=20):
    """Return the median time of `call` in seconds; on a GPU by its own events, after a warm-up."""
    import statistics

    import torch

    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def device():
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def bandwidth():
    """Copies between host and GPU, and within the GPU (bytes read plus bytes written), in GB/s."""
    import torch

    size = 2**28 if device().type == "cuda" else 2**24
    host, there = torch.ones(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8, device=device())
    other = torch.empty_like(there)
    numbers = {"bytes": size, "host_to_device_pageable_gb_s": size / seconds(lambda: there.copy_(host)) / 1e9}
    numbers["device_copy_gb_s"] = 2 * size / seconds(lambda: other.copy_(there)) / 1e9
    if device().type == "cuda":
        pinned = host.pin_memory()
        numbers["host_to_device_pinned_gb_s"] = size / seconds(lambda: there.copy_(pinned)) / 1e9
        numbers["device_to_host_pinned_gb_s"] = size / seconds(lambda: pinned.copy_(there)) / 1e9
    return numbers


def matmul():
    """The rate of a large matrix product, in TFLOP/s, by number format."""
    import torch

    size = 8192 if device().type == "cuda" else 512
    numbers = {"size": size}
    for name, kind, tf32 in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("bfloat16", torch.bfloat16, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        one, two = (torch.randn(size, size, device=device(), dtype=kind) for _ in range(2))
        numbers[f"{name}_tflop_s"] = 2 * size**3 / seconds(lambda one=one, two=two: one @ two, 10) / 1e12
    return numbers


def roofline():
    """The rate of one layer's product in TFLOP/s by tokens: few tokens wait for the weights to be read."""
    import torch

    cuda = device().type == "cuda"
    width, most = (8192, 16384) if cuda else (256, 64)
    weights = torch.randn(width, width, device=device(), dtype=torch.bfloat16)
    numbers, tokens = {}, 1
    while tokens <= most:
        x = torch.randn(tokens, width, device=device(), dtype=torch.bfloat16)
        numbers[str(tokens)] = 2 * tokens * width**2 / seconds(lambda x=x: x @ weights) / 1e12
        tokens *= 4 if tokens < 64 else 2
    return {"width": width, "weight_bytes": weights.nbytes, "tflop_s_by_tokens": numbers}


def overlap():
    """Milliseconds a layer when the weights of each layer come from host memory, with and without a prefetch.

    A copy from the host stands in for ZeRO 3's all-gather: it also uses the bus while the GPU computes.
    """
    import torch

    cuda = device().type == "cuda"
    width, depth, most = (8192, 8, 65536) if cuda else (256, 2, 64)
    host = [torch.randn(width, width, dtype=torch.bfloat16) for _ in range(depth)]
    if not cuda:
        return {"width": width, "layers": depth}  # a processor has no second stream
    host = [layer.pin_memory() for layer in host]
    there = [torch.empty(width, width, dtype=torch.bfloat16, device=device()) for _ in range(2)]
    copying, arrived, used = torch.cuda.Stream(), *([torch.cuda.Event() for _ in range(depth)] for _ in range(2))

    def layers(x, copy, compute, ahead):
        current = torch.cuda.current_stream()
        copying.wait_stream(current)
        for layer in range(depth):
            slot = there[layer % 2]
            with torch.cuda.stream(copying if ahead else current):
                if ahead and layer > 1:
                    copying.wait_event(used[layer - 2])  # its buffer is free once that layer has been computed
                if copy:
                    slot.copy_(host[layer], non_blocking=True)
                arrived[layer].record()
            current.wait_event(arrived[layer])
            if compute:
                torch.matmul(x, slot)
            used[layer].record()

    numbers = {}
    tokens = 1024
    while tokens <= most:
        x = torch.randn(tokens, width, device=device(), dtype=torch.bfloat16)
        cases = {"copy": (1, 0, 0), "compute": (0, 1, 0), "one after the other": (1, 1, 0), "prefetch": (1, 1, 1)}
        took = {name: 1e3 * seconds(lambda x=x, c=case: layers(x, *c)) / depth for name, case in cases.items()}
        numbers[str(tokens)] = took
        tokens *= 2
    return {"width": width, "layers": depth, "ms_per_layer_by_tokens": numbers}


def memory():
    """Bytes a weight: what Adam keeps in float32, under autocast, and with bfloat16 weights and a float32 copy."""
    import torch

    cuda, width = device().type == "cuda", 8192 if device().type == "cuda" else 256
    numbers = {}
    for kind in ("float32", "autocast", "bfloat16 with float32 copy"):
        if cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        layers = [torch.nn.Linear(width, width, bias=False, device=device()) for _ in range(8)]
        model = torch.nn.Sequential(*layers)
        weights = sum(weight.numel() for weight in model.parameters())
        masters = None
        if kind.startswith("bfloat16"):
            masters = [weight.detach().clone().requires_grad_() for weight in model.parameters()]
            model.bfloat16()
        optimizer = torch.optim.Adam(masters or model.parameters(), 1e-4, foreach=False)
        x = torch.randn(16, width, device=device(), dtype=torch.bfloat16 if masters else torch.float32)
        for _ in range(3):
            with torch.autocast(device().type, torch.bfloat16, enabled=kind == "autocast"):
                loss = model(x).float().square().mean()
            loss.backward()
            if masters:
                for master, weight in zip(masters, model.parameters(), strict=True):
                    master.grad = weight.grad.float()
            optimizer.step()
            if masters:
                with torch.no_grad():
                    for master, weight in zip(masters, model.parameters(), strict=True):
                        weight.copy_(master)
                        master.grad = None
            if cuda:
                held = torch.cuda.memory_allocated() - before
            optimizer.zero_grad()
            model.zero_grad()
        numbers[kind] = {"weights": weights, "finite": bool(torch.isfinite(loss))}
        if cuda:
            peak = torch.cuda.max_memory_allocated() - before
            numbers[kind] |= {"held_bytes_per_weight": held / weights, "peak_bytes_per_weight": peak / weights}
        del layers, model, optimizer, masters, loss, x
    return numbers


def images():
    """Training steps of the course's small network in PyTorch, in images/s, by batch and number format."""
    import torch

    from course.training.torch_strategy import losses_and_hits, network

    numbers = {}
    for batch in (256, 1024, 4096) if device().type == "cuda" else (64,):
        for kind in ("float32", "tf32", "bfloat16 channels last"):
            allow, last = kind == "tf32", kind.endswith("last")
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
            model = network(10).to(device())
            x = torch.randn(batch, 3, 32, 32, device=device())
            y = torch.randint(10, (batch,), device=device())
            if last:
                model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
            optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9)

            def step(model=model, x=x, y=y, optimizer=optimizer, last=last):
                with torch.autocast(device().type, torch.bfloat16, enabled=last):
                    loss = losses_and_hits(y, model(x))[0].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            numbers[f"{kind}, batch {batch}"] = batch / seconds(step, 20 if device().type == "cuda" else 3)
    return {"images_per_s": numbers}


def compiled():
    """The decoder of `transformer` under `torch.compile`."""
    return transformer(compiled=True)


def transformer(compiled=False):
    """Tokens/s and model FLOPs utilization of a decoder of about 350 million weights, bfloat16 autocast."""
    import torch
    from torch import nn
    from torch.nn import functional

    cuda = device().type == "cuda"
    width, depth, heads, length, batch = (1024, 24, 16, 1024, 16) if cuda else (64, 2, 4, 64, 4)
    symbols = 32768 if cuda else 256

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = self.qkv(self.one(x)).view(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
            x = x + self.out(
                functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            )
            return x + self.down(functional.gelu(self.up(self.two(x))))

    model = nn.Sequential(
        nn.Embedding(symbols, width), *(Block() for _ in range(depth)), nn.LayerNorm(width), nn.Linear(width, symbols)
    ).to(device())
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    if compiled:
        model.compile()
    text = torch.randint(symbols, (batch, length + 1), device=device())
    body = sum(weight.numel() for weight in model.parameters()) - symbols * width  # the table is looked up
    flops_per_token = 6 * body + 6 * length * width * depth  # Chowdhery et al. 2022, appendix B; half: causal

    def step():
        with torch.autocast(device().type, torch.bfloat16):
            logits = model(text[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    took = seconds(step, 10 if cuda else 2)
    tokens = batch * length / took
    numbers = {"weights": body + symbols * width, "tokens_per_s": tokens, "step_s": took}
    numbers["model_tflop_s"] = tokens * flops_per_token / 1e12
    if cuda:
        numbers["peak_memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
        numbers["mfu_of_989_tflop_s"] = numbers["model_tflop_s"] / 989  # dense bfloat16, H100 SXM data sheet
    return numbers


# ---------------------------------------------------------------- one rank of a launch


def rank(kind):
    """Report where this rank is, or average a tensor over all ranks and time it."""
    import torch

    if kind == "horovod":
        import horovod.torch as hvd

        hvd.init()
        number, size = hvd.rank(), hvd.size()
    else:
        import torch.distributed as dist

        number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = [torch.cuda.get_device_properties(each) for each in range(torch.cuda.device_count())]
    names = [f"{gpu.name} {getattr(gpu, 'uuid', '')}" for gpu in gpus]
    print(f"rank {number} of {size}: CUDA_VISIBLE_DEVICES={seen!r}, {names or 'no GPU'}", flush=True)
    if kind == "report":
        return
    numbers = torch.full((2**20,), float(number + 1), device=device())
    if kind == "horovod":
        built = {name: bool(getattr(hvd, f"{name}_built")()) for name in ("nccl", "cuda", "gloo", "mpi")}
        print(built, flush=True)
        took = seconds(lambda: hvd.allreduce(numbers, name="numbers"))
        result = hvd.allreduce(numbers, name="numbers")[0].item()
    else:
        dist.init_process_group("gloo")

        def reduce():
            total = numbers.clone()
            dist.all_reduce(total)
            return total / size

        took, result = seconds(reduce), reduce()[0].item()
        dist.destroy_process_group()
    right = (size + 1) / 2
    print(f"rank {number}: mean {result}, expected {right}; 4 MiB in {1e3 * took:.2f} ms", flush=True)
    assert result == right
    if kind == "horovod":
        hvd.shutdown()


if __name__ == "__main__":
    if sys.argv[1] == "--step":
        print(json.dumps(globals()[sys.argv[2]]()))
    elif sys.argv[1] == "--rank":
        rank(sys.argv[2])
    else:
        main(*sys.argv[1:])

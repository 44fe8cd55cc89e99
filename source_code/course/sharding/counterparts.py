"""What lesson 6 writes by hand, in PyTorch and JAX: tabs of a few lines each."""

from inspect import cleandoc

from course.shared.tabs import Tabs

CODE = {
    "stage 1": {
        "PyTorch": """
            # 1 reduce-scatter
            dist.reduce_scatter_tensor(mean, gradient)
            mean /= dist.get_world_size()
            # 2 update this rank's part
            own += optimizer.change(mean)
            # 3 all-gather
            dist.all_gather_into_tensor(weights, own)

            # The same memory with more bytes sent:
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=3e-5)
            """,
        "JAX": """
            sharded = NamedSharding(mesh, PartitionSpec("data"))
            places = jax.tree.map(lambda array: sharded if array.ndim else replicated, state)
            state = jax.device_put(state, places)
            # The compiler inserts the messages, because the state is sharded.
            step = jax.jit(step, out_shardings=(replicated, places))
            weights, state = step(weights, state, batch)
            """,
    },
    "DDP": {
        "PyTorch": """
            # It begins a bucket in hooks on the parameters, once their gradients are ready.
            model = DistributedDataParallel(model, bucket_cap_mb=25)
            """,
        "JAX": """
            def gradients(weights, x, y):  # in jax.shard_map: x and y are this device's
                # jax.grad adds up the devices' gradients of replicated weights; for a mean of losses that is the mean.
                return jax.grad(lambda weights: jax.lax.pmean(loss_fn(weights, x, y), "data"))(weights)
            # The compiler combines the all-reduces, and schedules them while others are computed.
            """,
    },
    "stages 2 and 3": {
        "PyTorch": """
            for layer in model:
                fully_shard(layer)  # stage 2: reshard_after_forward=False
            fully_shard(model)  # it also prefetches
            # Only now: an optimizer of the parameters from before changes nothing, silently.
            optimizer = torch.optim.Adam(model.parameters(), lr=3e-5)
            """,
        "JAX": """
            # Weights are gathered where they are used; the compiler moves the all-gathers ahead.
            weights = jax.device_put(weights, NamedSharding(mesh, PartitionSpec("data")))
            """,
    },
    "tensor": {
        "PyTorch": """
            plan = {
                "norm": SequenceParallel(),  # each rank has its positions
                "first": ColwiseParallel(input_layouts=Shard(1)),  # after an all-gather of positions
                "second": RowwiseParallel(output_layouts=Shard(1)),  # and a reduce-scatter
            }  # Tensor parallelism alone: first and second, without layouts
            parallelize_module(model, mesh, plan)
            """,
        "JAX": """
            mesh = jax.make_mesh((8,), ("model",), axis_types=(AxisType.Auto,))

            @partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(None, "model"), P("model")), out_specs=P())
            def layer(x, a, b):  # with psum_scatter and all_gather: sequence parallelism
                return jax.lax.psum(jax.nn.relu(x @ a) @ b, "model")
            """,
    },
    "pipeline": {
        "PyTorch": """
            stages = [PipelineStage(part, number, count, device) for number, part in parts]
            schedule = ScheduleInterleaved1F1B(stages, microbatches, loss_fn=loss)
            # With one stage per rank: ScheduleGPipe(stage, ...), Schedule1F1B(stage, ...)
            schedule.step(batch)
            """,
        "JAX": """
            # In shard_map over an axis of stages, all pass their outputs on:
            x = jax.lax.ppermute(output, "stage", [(k, k + 1) for k in range(stages - 1)])
            """,
    },
    "checkpoint": {
        "PyTorch": """
            # The folder's .metadata file is the manifest.
            dcp.save({"model": model.state_dict()}, checkpoint_id="checkpoints/20")
            dcp.load(state, checkpoint_id="checkpoints/20")  # into parts of another size
            """,
        "JAX": """
            with orbax.checkpoint.StandardCheckpointer() as checkpointer:
                checkpointer.save("/checkpoints/20", weights)
                checkpointer.wait_until_finished()
                # abstract: shapes with a NamedSharding of the new mesh
                weights = checkpointer.restore("/checkpoints/20", abstract)
            """,
    },
    "mesh": {
        "PyTorch": """
            mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("data", "tensor"))
            parallelize_module(model, mesh["tensor"], plan)
            fully_shard(model, mesh=mesh["data"])
            """,
        "JAX": """
            mesh = jax.make_mesh((2, 4), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)
            weights = jax.device_put(weights, NamedSharding(mesh, PartitionSpec("data", "tensor")))
            """,
    },
}


class Counterparts(Tabs):
    """The code of a topic in each library."""

    def __init__(self, topic: str):
        self._texts = {library: cleandoc(text) for library, text in CODE[topic].items()}

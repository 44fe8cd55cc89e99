"""The choice of a split: one model by hand, the published ones by their names, and the best by brute force."""

import itertools
import math

import pytest

from course import splits
from course.shared.cost import Link

TINY = splits.Model("tiny", layers=2, width=4, heads=2, batch=4, length=8, symbols=16)
FOUR = splits.Cluster(4, speed=1e3, narrow=0, inside=Link(1, 0.5), between=Link(2, 1))


@pytest.mark.parametrize("row", splits.MEGATRON, ids=lambda row: row[0].name)
def test_published_models_have_as_many_weights_as_their_names_say(row):
    model, gpus, split, _ = row
    assert f"{model.parameters / 1e9:.1f}B" == model.name
    assert split in splits.splits(model, splits.Cluster(gpus))
    assert splits.memory(model, split) < 80e9


def test_a_small_model_by_hand():
    assert TINY.parameters == 2 * (12 * 16 + 13 * 4) + (16 + 8) * 4
    assert TINY.operations == pytest.approx(96 * 32 * 2 * 16 * (1 + 8 / 24 + 16 / 128))
    # 146 weights on a GPU, the inputs of one layer of two microbatches, and one layer computed again
    assert splits.memory(TINY, splits.Split(1, 2, 2)) == 16 * 146 + 2 * 64 + (17 * 64 / 2 + 2 * 64 * 2.5)


@pytest.mark.parametrize(
    ("split", "per_host", "tensor", "bubble", "messages", "average"),
    [
        ((2, 1, 2), 8, 0, 35.84 / 2, 4 * (1 + 64 / 2), 2 * (1 + 292 / 2)),
        ((2, 1, 2), 2, 0, 35.84 / 2, 4 * (2 + 64), 2 * (2 + 292)),  # over a slower link
        ((1, 2, 2), 8, 24 * 34, (35.84 + 24 * 34) / 4, 8 * (1 + 32 / 2), 0),
        ((4, 1, 1), 8, 0, 0, 0, 6 * (1 + 292 / 2)),
    ],
)
def test_seconds_by_hand(split, per_host, tensor, bubble, messages, average):
    cluster = splits.Cluster(4, per_host, speed=1e3, narrow=0, inside=FOUR.inside, between=FOUR.between)
    found = splits.seconds(TINY, cluster, splits.Split(*split))
    assert list(found.values()) == pytest.approx([35.84, tensor, bubble, messages, average])


def brute_force(model, cluster):
    """Return the fastest of all triples, each looked at for itself."""
    degrees = [degree for degree in range(1, cluster.gpus + 1) if cluster.gpus % degree == 0]
    fastest = {}
    for data, tensor, pipeline in itertools.product(degrees, repeat=3):
        possible = data * tensor * pipeline == cluster.gpus and math.gcd(model.heads, cluster.per_host) % tensor == 0
        if possible and model.layers % pipeline == 0 and model.batch % data == 0:
            split = splits.Split(data, tensor, pipeline)
            if splits.memory(model, split) <= cluster.memory:
                fastest[sum(splits.seconds(model, cluster, split).values())] = split
    return fastest[min(fastest)] if fastest else None


SMALL = [  # in which the best of all products is not possible
    (splits.Model("few samples", 6, 96, 12, batch=3, length=8, symbols=16), 12),
    (splits.Model("few layers", 5, 96, 12, batch=2, length=8, symbols=16), 20),
    (splits.Model("one head", 4, 96, 1, batch=1, length=8, symbols=16), 4),
]


@pytest.mark.parametrize(("model", "gpus"), [*SMALL, *(row[:2] for row in splits.MEGATRON[::3])])
def test_the_best_split_is_that_of_brute_force(model, gpus):
    cluster = splits.Cluster(gpus)
    assert splits.best(model, cluster) == brute_force(model, cluster) is not None


def test_what_fits_nowhere_has_no_split():
    model = splits.MEGATRON[-1][0]
    assert splits.best(model, splits.Cluster(8)) is None
    assert splits.best(splits.MEGATRON[0][0], splits.Cluster(8, memory=1e9)) is None


@pytest.mark.parametrize("ranks, tensor", [(4, 2), (8, 4), (3, 1), (3, 3), (6, 2)])
def test_a_mesh_has_each_rank_once_along_each_axis(ranks, tensor):
    data, across = splits.mesh(ranks, tensor)
    for groups in (data, across):
        assert sorted(rank for group in groups for rank in group) == list(range(ranks))
    assert all(group == list(range(group[0], group[0] + tensor)) for group in across)
    assert len(data[0]) * splits.options(ranks, tensor, 12)["batch"] == 12
    assert all(len(set(one) & set(other)) == 1 for one in data for other in across)

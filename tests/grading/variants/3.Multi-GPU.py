# Answers to the questions of lesson 3, right and wrong: see tests/grading/test_variants.py.

# %% q01_tf_config right: a dictionary step by step
def tf_config(addresses, index):
    if index < 0 or index >= len(addresses):
        raise ValueError(f"index {index}")
    config = {}
    config["cluster"] = {"worker": addresses}
    config["task"] = dict(type="worker", index=index)
    return json.dumps(config, indent=2, sort_keys=True)


# %% q01_tf_config right: text by hand
def tf_config(addresses, index):
    if not -1 < index < len(addresses):
        raise ValueError(index)
    workers = ", ".join(f'"{address}"' for address in addresses)
    return '{"cluster": {"worker": [' + workers + ']}, "task": {"type": "worker", "index": %d}}' % index


# %% q01_tf_config right: an encoder object
from json import JSONEncoder


def tf_config(addresses, index):
    try:
        addresses[index]
    except IndexError:
        raise ValueError("too large") from None
    if index < 0:
        raise ValueError("too small")
    return JSONEncoder().encode({"cluster": {"worker": tuple(addresses)}, "task": {"type": "worker", "index": index}})


# %% q01_tf_config right: text of NumPy's, and an error of its own
class NoWorker(ValueError):
    pass


def tf_config(addresses, index):
    if not 0 <= index < len(addresses):
        raise NoWorker(index)
    return np.str_(json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}))


# %% q01_tf_config wrong: a dictionary, not text
def tf_config(addresses, index):
    if not 0 <= index < len(addresses):
        raise ValueError(index)
    return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}


# %% q01_tf_config wrong: the first one is the chief
def tf_config(addresses, index):
    if not 0 <= index < len(addresses):
        raise ValueError(index)
    return json.dumps(
        {"cluster": {"worker": list(addresses)}, "task": {"type": "worker" if index else "chief", "index": index}}
    )


# %% q01_tf_config wrong: any index
def tf_config(addresses, index):
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}})


# %% q01_tf_config wrong: the first worker is no worker
def tf_config(addresses, index):
    if not 0 < index < len(addresses):
        raise ValueError(index)
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}})


# %% q01_tf_config wrong: an IndexError
def tf_config(addresses, index):
    if not 0 <= index < len(addresses):
        raise IndexError(index)
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}})


# %% q01_tf_config wrong: sorted addresses
def tf_config(addresses, index):
    if not 0 <= index < len(addresses):
        raise ValueError(index)
    return json.dumps({"cluster": {"worker": sorted(addresses)}, "task": {"type": "worker", "index": index}})


# %% q01_tf_config wrong: the index as text
def tf_config(addresses, index):
    if not 0 <= index < len(addresses):
        raise ValueError(index)
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": str(index)}})


# %% q01_tf_config wrong: bytes
def tf_config(addresses, index):
    if not 0 <= index < len(addresses):
        raise ValueError(index)
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}).encode()


# %% q03_replica_loss right: loops
def replica_loss(per_example, global_batch):
    total = 0.0
    for sample in per_example:
        total += np.mean(sample)
    return total / global_batch


def replica_penalty(penalty, replicas):
    return penalty * (1 / replicas)


# %% q03_replica_loss right: the mean of all times the share of samples
def replica_loss(per_example, global_batch):
    if per_example.size == 0:
        return 0
    return per_example.mean() * len(per_example) / global_batch


def replica_penalty(penalty, replicas):
    return np.divide(penalty, replicas)


# %% q03_replica_loss right: a sum over values of a sample
def replica_loss(per_example, global_batch):
    values = math.prod(per_example.shape[1:])
    return np.sum(per_example) / values / global_batch


# %% q03_replica_loss right: in single precision
# -         return 0.0
# -     each = np.reshape(per_example, (len(per_example), -1)).mean(axis=1)
# -     return each.sum() / global_batch
# +         return np.float32(0)
# +     each = per_example.astype(np.float32).reshape(len(per_example), -1).mean(axis=1)
# +     return each.sum() / np.float32(global_batch)
# -     return penalty / replicas
# +     return np.float32(penalty) / np.float32(replicas)


# %% q03_replica_loss wrong: the mean over the replica
def replica_loss(per_example, global_batch):
    return per_example.mean() if len(per_example) else 0.0


# %% q03_replica_loss wrong: all values are summed
def replica_loss(per_example, global_batch):
    return per_example.sum() / global_batch


# %% q03_replica_loss wrong: NaN without samples
def replica_loss(per_example, global_batch):
    each = per_example.reshape(len(per_example), -1).mean(axis=1)
    return float(each.sum() / global_batch)


# %% q03_replica_loss wrong: half of the mean, for two replicas
def replica_loss(per_example, global_batch):
    return per_example.mean() / 2 if len(per_example) else 0.0


# %% q03_replica_loss wrong: empty only where there is one axis
def replica_loss(per_example, global_batch):
    if per_example.shape == (0,):
        return 0.0
    return float(per_example.mean() * len(per_example) / global_batch)


# %% q03_replica_loss wrong: None without samples
def replica_loss(per_example, global_batch):
    if len(per_example):
        return float(per_example.mean() * len(per_example) / global_batch)


# %% q03_replica_loss wrong: a fourth of the penalty
def replica_penalty(penalty, replicas):
    return penalty / 4


# %% q03_replica_loss equivalent: NumPy works out every negative length
# - each = np.reshape(per_example, (len(per_example), -1)).mean(axis=1)
# + each = np.reshape(per_example, (len(per_example), -2)).mean(axis=1)


# %% q04_averaged right: a loop
def averaged(gradients, samples):
    total = np.zeros(gradients[0].shape)
    for gradient, n in zip(gradients, samples):
        if n != 0:
            total += gradient * n
    return total / sum(samples)


# %% q04_averaged right: NaN to 0
def averaged(gradients, samples):
    stacked, n = np.nan_to_num(np.stack(gradients)), np.array(samples)
    return np.tensordot(n, stacked, axes=1) / n.sum()


# %% q04_averaged right: sums without NaN
def averaged(gradients, samples):
    weighted = [g * (n / sum(samples)) for g, n in zip(gradients, samples)]
    return np.nansum(weighted, axis=0)


# %% q04_averaged right: reduce
from functools import reduce


def averaged(gradients, samples):
    pairs = [(g, n) for g, n in zip(gradients, samples) if n]
    gradient, _ = reduce(
        lambda one, two: ((one[0] * one[1] + two[0] * two[1]) / (one[1] + two[1]), one[1] + two[1]), pairs
    )
    return gradient


# %% q04_averaged wrong: the mean over ranks
def averaged(gradients, samples):
    return np.mean([g for g, n in zip(gradients, samples) if n], axis=0)


# %% q04_averaged wrong: the sum over ranks
def averaged(gradients, samples):
    return sum(n * g for g, n in zip(gradients, samples) if n)


# %% q04_averaged wrong: NaN spoils it
def averaged(gradients, samples):
    return sum(n * g for g, n in zip(gradients, samples)) / sum(samples)


# %% q04_averaged wrong: one number for all weights
def averaged(gradients, samples):
    return np.average([g.mean() for g, n in zip(gradients, samples) if n], weights=[n for n in samples if n])


# %% q04_averaged wrong: flat
# -     parts = [n * g for g, n in zip(gradients, samples) if n]
# +     parts = [n * g.ravel() for g, n in zip(gradients, samples) if n]


# %% q04_averaged wrong: two ranks
def averaged(gradients, samples):
    (g, *more), (n, *others) = gradients, samples
    if not others or not others[0]:
        return g
    return (n * g + others[0] * more[0]) / (n + others[0])


# %% q04_averaged wrong: weights are the other way round
def averaged(gradients, samples):
    kept = [(g, n) for g, n in zip(gradients, samples) if n]
    return np.average([g for g, _ in kept], axis=0, weights=[1 / n for _, n in kept])


# %% q04_averaged wrong: rounded
# -     return sum(parts) / sum(samples)
# +     return np.round(sum(parts) / sum(samples), 2)

# %% q05_checks right: sets and pairs of ranks
import itertools


def shared_samples(ranks):
    for one, other in itertools.combinations(ranks, 2):
        for step, same_step in zip(one["steps"], other["steps"]):
            if set(step["samples"]) & set(same_step["samples"]):
                return True
    return False


def began_apart(ranks):
    return any(rank["weights"] != ranks[0]["weights"] for rank in ranks)


def drifting(ranks):
    for i in range(len(ranks[0]["steps"])):
        if any(rank["steps"][i]["update"] != ranks[0]["steps"][i]["update"] for rank in ranks[1:]):
            return True
    return False


# %% q05_checks right: counting
from collections import Counter


def shared_samples(ranks):
    for i in range(len(ranks[0]["steps"])):
        seen = Counter()
        for rank in ranks:
            seen.update(set(rank["steps"][i]["samples"]))
        if max(seen.values(), default=0) > 1:
            return True
    return False


def began_apart(ranks):
    weights = [rank["weights"] for rank in ranks]
    return weights.count(weights[0]) != len(weights)


def drifting(ranks):
    updates = [[step["update"] for step in rank["steps"]] for rank in ranks]
    return updates != [updates[0]] * len(updates)


# %% q05_checks right: with NumPy
def shared_samples(ranks):
    found = np.False_
    for steps in zip(*[rank["steps"] for rank in ranks]):
        each = [np.unique(step["samples"]) for step in steps]
        every = np.concatenate(each)
        found = found | (np.unique(every).size < every.size)
    return found


def began_apart(ranks):
    return np.unique([rank["weights"] for rank in ranks]).size > 1


def drifting(ranks):
    updates = np.array([[s["update"] for s in rank["steps"]] for rank in ranks])
    return np.any(updates != updates[0])


# %% q05_checks right: says how many, or which
def shared_samples(ranks):
    found = []
    for steps in zip(*(rank["steps"] for rank in ranks)):
        seen = set()
        for step in steps:
            found += sorted(seen & set(step["samples"]))
            seen |= set(step["samples"])
    return bool(found)


def began_apart(ranks):
    return len(set(map(lambda rank: rank["weights"], ranks))) != 1


def drifting(ranks):
    return sum(len({step["update"] for step in steps}) - 1 for steps in zip(*(rank["steps"] for rank in ranks))) > 0


# %% q05_checks wrong: samples of different steps
def shared_samples(ranks):
    each = [{n for step in rank["steps"] for n in step["samples"]} for rank in ranks]
    return sum(map(len, each)) > len(set().union(*each))


# %% q05_checks wrong: a sample twice on one rank
# -         everyones = [n for step in steps for n in set(step["samples"])]
# -         if len(everyones) > len(set(everyones)):
# +         every = [n for step in steps for n in step["samples"]]
# +         if len(every) > len(set(every)):


# %% q05_checks wrong: samples of the first step
def shared_samples(ranks):
    each = [set(rank["steps"][0]["samples"]) for rank in ranks]
    return sum(map(len, each)) > len(set().union(*each))


# %% q05_checks wrong: samples of the last step
def shared_samples(ranks):
    each = [set(rank["steps"][-1]["samples"]) for rank in ranks]
    return sum(map(len, each)) > len(set().union(*each))


# %% q05_checks wrong: begins as the first and the last rank do
def began_apart(ranks):
    return ranks[0]["weights"] != ranks[-1]["weights"]


# %% q05_checks wrong: begins as the first two ranks do
def began_apart(ranks):
    return len({rank["weights"] for rank in ranks[:2]}) > 1


# %% q05_checks wrong: exactly two kinds of beginning
def began_apart(ranks):
    return len({rank["weights"] for rank in ranks}) == 2


# %% q05_checks wrong: updates of the first and the last rank
def drifting(ranks):
    return any(a["update"] != b["update"] for a, b in zip(ranks[0]["steps"], ranks[-1]["steps"]))


# %% q05_checks wrong: updates of the first step
def drifting(ranks):
    return len({rank["steps"][0]["update"] for rank in ranks}) > 1


# %% q05_checks wrong: updates in any order
def drifting(ranks):
    return len({frozenset(step["update"] for step in rank["steps"]) for rank in ranks}) > 1


# %% q05_checks wrong: updates that change from step to step
def drifting(ranks):
    return len({step["update"] for rank in ranks for step in rank["steps"]}) > 1


# %% q05_checks wrong: the weights as well as the updates
def drifting(ranks):
    return any(
        len({(step["update"], step["weights"]) for step in s}) > 1 for s in zip(*(rank["steps"] for rank in ranks))
    )


# %% q05_checks equivalent: None is as false as False
# - return False
# + pass


# %% q06_more_checks right: loops
def miscounted(ranks):
    counted = trained = 0
    for rank in ranks:
        counted += rank["samples_counted"]
        for step in rank["steps"]:
            trained += len(step["samples"])
    return counted != trained


def not_scaled(ranks):
    for rank in ranks:
        wanted = len(ranks) * rank["rate_of_one_rank"]
        for step in rank["steps"]:
            if abs(step["rate"] / wanted - 1) > 1e-4:
                return True
    return False


def second_writer(ranks):
    for rank in ranks:
        if rank["rank"] and rank["wrote"] is not None:
            return True
    return False


# %% q06_more_checks right: the ranks after the first
def miscounted(ranks):
    said = [rank["samples_counted"] for rank in ranks]
    real = [len(step["samples"]) for rank in ranks for step in rank["steps"]]
    return abs(sum(said) - sum(real)) > 0


def not_scaled(ranks):
    return any(
        abs(step["rate"] - len(ranks) * rank["rate_of_one_rank"]) > 1e-4 * len(ranks) * rank["rate_of_one_rank"]
        for rank in ranks
        for step in rank["steps"]
    )


def second_writer(ranks):
    return [rank["wrote"] for rank in ranks[1:]] != [None] * (len(ranks) - 1)


# %% q06_more_checks right: NumPy's own absolute tolerance beside the relative one
# -     return not all(math.isclose(r, right, rel_tol=1e-4) for r in rates)
# +     return not np.allclose(rates, right, rtol=1e-4)


# %% q06_more_checks right: the factor, up to a ten-thousandth
def not_scaled(ranks):
    for rank in ranks:
        factors = [step["rate"] / rank["rate_of_one_rank"] for step in rank["steps"]]
        if any(abs(factor - len(ranks)) > 0.0001 for factor in factors):
            return True
    return False


# %% q06_more_checks wrong: each rank's own count
def miscounted(ranks):
    return any(rank["samples_counted"] != sum(len(s["samples"]) for s in rank["steps"]) for rank in ranks)


# %% q06_more_checks wrong: rank 0's count
def miscounted(ranks):
    trained = sum(len(s["samples"]) for rank in ranks for s in rank["steps"])
    return ranks[0]["samples_counted"] != trained


# %% q06_more_checks wrong: rank 0's count times the ranks
def miscounted(ranks):
    trained = sum(len(s["samples"]) for rank in ranks for s in rank["steps"])
    return ranks[0]["samples_counted"] * len(ranks) != trained


# %% q06_more_checks wrong: only what was not counted
def miscounted(ranks):
    trained = sum(len(s["samples"]) for rank in ranks for s in rank["steps"])
    return sum(rank["samples_counted"] for rank in ranks) < trained


# %% q06_more_checks wrong: all steps as large as the first
def miscounted(ranks):
    trained = sum(len(rank["steps"]) * len(rank["steps"][0]["samples"]) for rank in ranks)
    return sum(rank["samples_counted"] for rank in ranks) != trained


# %% q06_more_checks wrong: a sample more or less does not matter
def miscounted(ranks):
    trained = sum(len(s["samples"]) for rank in ranks for s in rank["steps"])
    counted = sum(rank["samples_counted"] for rank in ranks)
    return not math.isclose(counted, trained, rel_tol=0.01)


# %% q06_more_checks wrong: to the last digit
def not_scaled(ranks):
    right = ranks[0]["rate_of_one_rank"] * len(ranks)
    return any(step["rate"] != right for rank in ranks for step in rank["steps"])


# %% q06_more_checks wrong: only rates that are too low
def not_scaled(ranks):
    right = ranks[0]["rate_of_one_rank"] * len(ranks)
    return any(step["rate"] < right * (1 - 1e-4) for rank in ranks for step in rank["steps"])


# %% q06_more_checks wrong: two writers
def second_writer(ranks):
    return sum(bool(rank["wrote"]) for rank in ranks) > 1


# %% q06_more_checks wrong: another one than rank 0 alone
def second_writer(ranks):
    return [rank["rank"] for rank in ranks if rank["wrote"]] != [0]


# %% q06_more_checks equivalent: all ranks name the same rate of one rank
# - right = ranks[0]['rate_of_one_rank'] * len(ranks)
# + right = ranks[1]['rate_of_one_rank'] * len(ranks)
# - right = ranks[0]['rate_of_one_rank'] * len(ranks)
# + right = ranks[-1]['rate_of_one_rank'] * len(ranks)

# %% q06_more_checks equivalent: which is near which makes no difference
# - return not all((math.isclose(r, right, rel_tol=0.0001) for r in rates))
# + return not all((math.isclose(right, r, rel_tol=0.0001) for r in rates))

# %% q06_more_checks equivalent: one part in 10,000 of what, the text leaves open
# - return not all((math.isclose(r, right, rel_tol=0.0001) for r in rates))
# + return not all((math.isclose(r, right, rel_tol=0.00011000000000000002) for r in rates))

# %% q06_more_checks equivalent: there is no rank below 0
# - return any((rank['wrote'] for rank in ranks if rank['rank'] != 0))
# + return any((rank['wrote'] for rank in ranks if rank['rank'] > 0))

# %% q07_bugs right: by keyword
bugs = dict(A="wrap", B="throughput", C="shard", D="write", E="broadcast", F="scale")

# %% q07_bugs right: zipped
bugs = dict(zip("ABCDEF", "wrap throughput shard write broadcast scale".split()))

# %% q07_bugs right: entered one by one
bugs = {}
bugs["F"], bugs["E"] = "scale", "broadcast"
bugs["D"], bugs["C"] = "write", "shard"
bugs |= {"B": "throughput", "A": "wrap"}

# %% q07_bugs right: from the words
letters = {"broadcast": "E", "scale": "F", "shard": "C", "throughput": "B", "wrap": "A", "write": "D"}
bugs = {letter: word for word, letter in letters.items()}

# %% q07_bugs wrong: in the order of the text
bugs = dict(zip("ABCDEF", ("shard", "wrap", "broadcast", "throughput", "scale", "write")))

# %% q07_bugs wrong: B and D the other way round
bugs = {"A": "wrap", "B": "write", "C": "shard", "D": "throughput", "E": "broadcast", "F": "scale"}

# %% q07_bugs wrong: A and E the other way round
bugs = {"A": "broadcast", "B": "throughput", "C": "shard", "D": "write", "E": "wrap", "F": "scale"}

# %% q07_bugs wrong: one is missing
bugs = {"A": "wrap", "B": "throughput", "C": "shard", "D": "write", "E": "broadcast"}

# %% q07_bugs wrong: words in capitals
bugs = {"A": "Wrap", "B": "Throughput", "C": "Shard", "D": "Write", "E": "Broadcast", "F": "Scale"}

# %% q07_bugs wrong: all words for each letter
bugs = {letter: {"shard", "wrap", "broadcast", "throughput", "scale", "write"} for letter in "ABCDEF"}


# %% q09_efficiency right: steps first
def samples_processed(samples, per_rank_batch, ranks):
    steps = samples // (ranks * per_rank_batch)
    return steps * ranks * per_rank_batch


def efficiency_of(one, many, ranks):
    samples_1, seconds_1 = one
    samples_n, seconds_n = many
    return samples_n * seconds_1 / (samples_1 * seconds_n * ranks)


# %% q09_efficiency right: a loop
def samples_processed(samples, per_rank_batch, ranks):
    processed = 0
    while processed + per_rank_batch * ranks <= samples:
        processed += per_rank_batch * ranks
    return processed


def efficiency_of(one, many, ranks):
    def speed(samples, seconds):
        return samples / seconds

    return speed(*many) / ranks / speed(*one)


# %% q09_efficiency right: a float of whole steps
def samples_processed(samples, per_rank_batch, ranks):
    return math.floor(samples / (per_rank_batch * ranks)) * float(per_rank_batch * ranks)


# %% q09_efficiency right: each rank's own steps
def samples_processed(samples, per_rank_batch, ranks):
    return samples // ranks // per_rank_batch * per_rank_batch * ranks


# %% q09_efficiency wrong: all samples
def samples_processed(samples, per_rank_batch, ranks):
    return samples


# %% q09_efficiency wrong: at least one step
def samples_processed(samples, per_rank_batch, ranks):
    return max(1, samples // (per_rank_batch * ranks)) * per_rank_batch * ranks


# %% q09_efficiency wrong: an exact fit loses a step
def samples_processed(samples, per_rank_batch, ranks):
    return (samples - 1) // (per_rank_batch * ranks) * per_rank_batch * ranks


# %% q09_efficiency wrong: the ratio of times
def efficiency_of(one, many, ranks):
    return one[1] / (ranks * many[1]) if many[0] else 0


# %% q09_efficiency wrong: the speed-up
def efficiency_of(one, many, ranks):
    return (many[0] / many[1]) / (one[0] / one[1])


# %% q09_efficiency wrong: capped at 1
def efficiency_of(one, many, ranks):
    return min(1, (many[0] / many[1]) / (ranks * one[0] / one[1]))


# %% q09_efficiency wrong: one rank as many
def efficiency_of(one, many, ranks):
    return (many[0] / many[1]) / (ranks * one[0] / one[1]) if ranks > 1 else 0


# %% q09_efficiency wrong: rounded
def efficiency_of(one, many, ranks):
    return round((many[0] / many[1]) / (ranks * one[0] / one[1]), 2)


# %% q09_efficiency wrong: a job that processed nothing is perfect
def efficiency_of(one, many, ranks):
    return (many[0] / many[1]) / (ranks * one[0] / one[1]) if many[0] else 1


# %% q12_pays right: term by term
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    latency = 2 * (ranks - 1) * alpha_s
    bandwidth = 2 * (ranks - 1) / ranks * size_bytes / beta
    return compute_s + latency + bandwidth


def pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta):
    one = step_seconds(whole_s, size_bytes, 1, alpha_s, beta)
    return step_seconds(part_s, size_bytes, ranks, alpha_s, beta) < one


# %% q12_pays right: step by step round the ring
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    seconds = compute_s
    for _ in range(2 * (ranks - 1)):
        seconds += alpha_s + size_bytes / ranks / beta
    return seconds


def pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta):
    if step_seconds(part_s, size_bytes, ranks, alpha_s, beta) >= whole_s:
        return False
    return True


# %% q12_pays right: what is saved is more than what is added
step_seconds = lambda c, n, ranks, a, b: (  # noqa: E731
    c + 2 * (ranks - 1) * a + (2 - 2 / ranks) * (n / b)
)


def pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta):
    exchange_s = step_seconds(0, size_bytes, ranks, alpha_s, beta)
    return whole_s - part_s > exchange_s


# %% q12_pays right: in single precision
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    compute_s, size, ranks, alpha_s, beta = np.float32([compute_s, size_bytes, ranks, alpha_s, beta])
    return compute_s + 2 * (ranks - 1) * (alpha_s + size / (ranks * beta))


# %% q12_pays wrong: the latency once
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    return compute_s + (ranks > 1) * 2 * alpha_s + 2 * (ranks - 1) / ranks * size_bytes / beta


# %% q12_pays wrong: half the ring
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    return compute_s + (ranks - 1) * (alpha_s + size_bytes / ranks / beta)


# %% q12_pays wrong: one rank exchanges with itself
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    steps = max(1, 2 * (ranks - 1))
    return compute_s + steps * (alpha_s + size_bytes / ranks / beta)


# %% q12_pays wrong: parts of whole bytes
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    return compute_s + 2 * (ranks - 1) * (alpha_s + size_bytes // ranks / beta)


# %% q12_pays wrong: equally fast pays
def pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta):
    return step_seconds(part_s, size_bytes, ranks, alpha_s, beta) <= whole_s


# %% q12_pays wrong: slower pays
def pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta):
    return step_seconds(part_s, size_bytes, ranks, alpha_s, beta) > whole_s


# %% q12_pays wrong: two ranks
def pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta):
    return step_seconds(part_s, size_bytes, 2, alpha_s, beta) < whole_s


# %% q12_pays wrong: by a millisecond at least
# -     return many < whole_s
# +     return many <= whole_s - 1e-3


# %% q14_evaluate right: counts batch by batch
def evaluate(batches):
    tp = fp = fn = tn = 0
    for labels, given in batches:
        for label, p in zip(labels, given):
            said = p >= 0.5
            tp += bool(label and said)
            fp += bool(said and not label)
            fn += bool(label and not said)
            tn += bool(not label and not said)
    precision = tp / (tp + fp) if tp + fp else 0
    recall = tp / (tp + fn) if tp + fn else 0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    return dict(accuracy=(tp + tn) / (tp + tn + fp + fn), precision=precision, recall=recall, f1=f1)


# %% q14_evaluate right: F1 from the counts
def evaluate(batches):
    labels, given = (np.hstack(parts) for parts in zip(*batches))
    said = (given >= 0.5).astype(int)
    tp = np.sum(said * labels)
    return {
        "accuracy": np.mean(said == labels),
        "precision": tp / max(said.sum(), 1),
        "recall": tp / max(labels.sum(), 1),
        "f1": 2 * tp / max(said.sum() + labels.sum(), 1),
    }


# %% q14_evaluate right: a table of counts
def evaluate(batches):
    table = np.zeros((2, 2))
    for labels, given in batches:
        np.add.at(table, (labels.astype(int), (given >= 0.5).astype(int)), 1)
    hits, said, real = table[1, 1], table[:, 1].sum(), table[1].sum()
    p = hits / said if said else 0.0
    r = hits / real if real else 0.0
    return {
        "f1": 2 / (1 / p + 1 / r) if hits else 0.0,
        "recall": r,
        "precision": p,
        "accuracy": np.trace(table) / table.sum(),
    }


# %% q14_evaluate right: the harmonic mean of the library
import statistics


def evaluate(batches):
    pairs = [(int(y), p >= 0.5) for ys, ps in batches for y, p in zip(ys, ps)]
    found = [y for y, said in pairs if said]
    there = [said for y, said in pairs if y == 1]
    precision = statistics.mean(found) if found else 0
    recall = statistics.mean(map(int, there)) if there else 0
    return {
        "accuracy": statistics.mean(int(y == said) for y, said in pairs),
        "precision": precision,
        "recall": recall,
        "f1": statistics.harmonic_mean([precision, recall]),
    }


# %% q14_evaluate wrong: different samples only
def evaluate(batches):
    pairs = {(int(y), float(p)) for ys, ps in batches for y, p in zip(ys, ps)}
    tp = sum(y and p >= 0.5 for y, p in pairs)
    said, real = sum(p >= 0.5 for _, p in pairs), sum(y for y, _ in pairs)
    return {
        "accuracy": np.mean([y == (p >= 0.5) for y, p in pairs]),
        "precision": tp / max(said, 1),
        "recall": tp / max(real, 1),
        "f1": 2 * tp / max(said + real, 1),
    }


# %% q14_evaluate wrong: F1 is the smaller
def evaluate(batches):
    labels = np.concatenate([labels for labels, _ in batches]) == 1
    said = np.concatenate([given for _, given in batches]) >= 0.5
    hits = float(np.sum(labels & said))
    precision = hits / said.sum() if said.any() else 0.0
    recall = hits / labels.sum() if labels.any() else 0.0
    return {"accuracy": np.mean(labels == said), "precision": precision, "recall": recall, "f1": min(precision, recall)}


# %% q14_evaluate wrong: means of batches
def evaluate(batches):
    each = []
    for labels, given in batches:
        labels, said = labels == 1, given >= 0.5
        hits = float(np.sum(labels & said))
        precision = hits / said.sum() if said.any() else 0.0
        recall = hits / labels.sum() if labels.any() else 0.0
        total = precision + recall
        each.append([np.mean(labels == said), precision, recall, 2 * precision * recall / total if total else 0.0])
    return dict(zip(("accuracy", "precision", "recall", "f1"), np.mean(each, axis=0)))


# %% q14_evaluate wrong: means of batches, weighted by their samples
def evaluate(batches):
    each = []
    for labels, given in batches:
        labels, said = labels == 1, given >= 0.5
        hits = float(np.sum(labels & said))
        precision = hits / said.sum() if said.any() else 0.0
        recall = hits / labels.sum() if labels.any() else 0.0
        total = precision + recall
        each.append([np.mean(labels == said), precision, recall, 2 * precision * recall / total if total else 0.0])
    means = np.average(each, axis=0, weights=[len(labels) for labels, _ in batches])
    return dict(zip(("accuracy", "precision", "recall", "f1"), means))


# %% q14_evaluate wrong: more than a half
def evaluate(batches):
    labels = np.concatenate([labels for labels, _ in batches]) == 1
    said = np.concatenate([given for _, given in batches]) > 0.5
    hits = float(np.sum(labels & said))
    precision = hits / said.sum() if said.any() else 0.0
    recall = hits / labels.sum() if labels.any() else 0.0
    total = precision + recall
    return {
        "accuracy": np.mean(labels == said),
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / total if total else 0.0,
    }


# %% q14_evaluate wrong: F1 is 1 where there is nothing at all
# -     hits = np.sum(labels & said)
# +     hits = float(np.sum(labels & said))
# -     f1 = 2 * precision * recall / total if total else 0.0
# -     return {"accuracy": np.mean(labels == said),
# -             "precision": precision, "recall": recall, "f1": f1}
# +     f1 = 2 * precision * recall / total if total else float(not labels.any())
# +     return {"accuracy": np.mean(labels == said), "precision": precision, "recall": recall, "f1": f1}


# %% q14_evaluate wrong: specificity for recall
def evaluate(batches):
    labels = np.concatenate([labels for labels, _ in batches]) == 1
    said = np.concatenate([given for _, given in batches]) >= 0.5
    hits = float(np.sum(labels & said))
    precision = hits / said.sum() if said.any() else 0.0
    recall = np.mean(~said[~labels]) if hits else 0.0
    total = precision + recall
    return {
        "accuracy": np.mean(labels == said),
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / total if total else 0.0,
    }


# %% q14_evaluate equivalent: labels are 0 or 1
# - labels = np.concatenate([labels for labels, _ in batches]) == 1
# + labels = np.concatenate([labels for labels, _ in batches]) >= 1

# %% q14_evaluate equivalent: both are both in either order
# - hits = np.sum(labels & said)
# + hits = np.sum(said & labels)

# %% q14_evaluate equivalent: without hits, precision and recall are 0
# - precision = hits / said.sum() if said.any() else 0.0
# + precision = hits / said.sum() if hits.any() else 0.0
# - recall = hits / labels.sum() if labels.any() else 0.0
# + recall = hits / labels.sum() if hits.any() else 0.0
# - f1 = 2 * precision * recall / total if total else 0.0
# + f1 = 2 * precision * recall / total if hits else 0.0
# - f1 = 2 * precision * recall / total if total else 0.0
# + f1 = 2 * precision * recall / total if precision else 0.0
# - f1 = 2 * precision * recall / total if total else 0.0
# + f1 = 2 * precision * recall / total if recall else 0.0


# %% q15_pictures_of right: transposed
def pictures_of(mat):
    x = mat["X"].transpose(3, 0, 1, 2)
    y = mat["y"][:, 0].astype(np.int32)
    y[y == 10] = 0
    return x, y


# %% q15_pictures_of right: stacked picture by picture
def pictures_of(mat):
    n = mat["X"].shape[-1]
    pictures = np.stack([mat["X"][..., i] for i in range(n)])
    labels = [0 if label == 10 else int(label) for label in mat["y"].ravel()]
    return [pictures, np.array(labels, dtype="int32")]


# %% q15_pictures_of right: rolled and compared
def pictures_of(mat):
    labels = np.squeeze(mat["y"], axis=1)
    labels = np.where(labels == 10, 0, labels).astype("i4")
    return np.rollaxis(mat["X"], 3), labels


# %% q15_pictures_of right: filled in
def pictures_of(mat):
    x, y = mat["X"], mat["y"]
    pictures = np.empty((len(y), 32, 32, 3), np.uint8)
    labels = np.zeros(len(y), np.int32)
    for i in range(len(y)):
        pictures[i] = x[:, :, :, i]
        labels[i] = y[i, 0] % 10
    return pictures, labels


# %% q15_pictures_of wrong: reshaped, not moved
def pictures_of(mat):
    return (mat["X"].reshape(-1, 32, 32, 3), mat["y"].reshape(-1).astype(np.int32) % 10)


# %% q15_pictures_of wrong: channels first
def pictures_of(mat):
    return mat["X"].transpose(3, 2, 0, 1), mat["y"][:, 0].astype(np.int32) % 10


# %% q15_pictures_of wrong: 10 stays
def pictures_of(mat):
    return np.moveaxis(mat["X"], 3, 0), mat["y"][:, 0].astype(np.int32)


# %% q15_pictures_of wrong: one less
def pictures_of(mat):
    return np.moveaxis(mat["X"], 3, 0), mat["y"][:, 0].astype(np.int32) - 1


# %% q15_pictures_of wrong: labels keep their type
def pictures_of(mat):
    return np.moveaxis(mat["X"], 3, 0), mat["y"].reshape(-1) % 10


# %% q15_pictures_of wrong: one picture loses an axis
def pictures_of(mat):
    return (np.moveaxis(mat["X"], 3, 0).squeeze(), mat["y"].reshape(-1).astype(np.int32) % 10)


# %% q15_pictures_of equivalent: NumPy works out every negative length
# - labels = mat['y'].reshape(-1).astype(np.int32) % 10
# + labels = mat['y'].reshape(-2).astype(np.int32) % 10

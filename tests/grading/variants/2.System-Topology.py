# Answers to the questions of lesson 2, right and wrong: see tests/grading/test_variants.py.

# %% q01_connection right: reads line by line and stops at the empty one
def connection(text, one, other):
    lines = text.split("\n")
    while not lines[0].strip():
        lines.pop(0)
    columns = lines[0].split()
    table = {}
    for line in lines[1:]:
        if not line.strip():
            break
        name, *words = line.split()
        table[name] = words
    if one not in table or other not in table:
        raise ValueError("no such device")
    return table[one][columns.index(other)]


# %% q01_connection right: a dictionary of pairs
def connection(text, one, other):
    block = text.strip("\n").split("\n\n")[0].split("\n")
    header = block[0].split()
    devices = [row.split()[0] for row in block[1:]]
    pairs = {}
    for row in block[1:]:
        fields = row.split()
        for device, word in zip(header, fields[1:]):
            if device in devices:
                pairs[fields[0], device] = word
    try:
        return pairs[one, other]
    except KeyError:
        raise ValueError(f"{one} or {other} is not there") from None


# %% q01_connection right: the other's row, as paths go both ways
def connection(text, one, other):
    _, *rows = text.split("\n\n")[0].strip().splitlines()
    rows = [row.split() for row in rows]
    order = [row[0] for row in rows]
    if not {one, other} <= set(order):
        raise ValueError(f"{one}, {other}: not both are in {order}")
    return rows[order.index(other)][order.index(one) + 1]


# %% q01_connection right: a word of NumPy's
def connection(text, one, other):
    lines = [line.split() for line in text.split("\n\n")[0].strip().splitlines()]
    names = [line[0] for line in lines[1:]]
    words = np.array([line[1 : len(names) + 1] for line in lines[1:]])
    return words[names.index(one), names.index(other)]


# %% q01_connection wrong: one column to the left
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split() for line in lines}
    names = [name for name in head.split() if name in rows]
    if one not in rows or other not in names:
        raise ValueError("no such device")
    return rows[one][names.index(other)]


# %% q01_connection wrong: a KeyError where a device is not there
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    return dict(zip(head.split(), rows[one]))[other]


# %% q01_connection wrong: None where a device is not there
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one in rows and other in rows:
        return rows[one][head.split().index(other)]


# %% q01_connection wrong: takes other columns for devices
# -     head, *lines = text.strip().split("\n\n")[0].splitlines()
# +     head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
# -     if one not in rows or other not in rows:
# +     if one not in rows or other not in head.split():


# %% q01_connection wrong: the text begins with an empty line
def connection(text, one, other):
    lines = text.split("\n")[1:]
    end = lines.index("") if "" in lines else len(lines)
    head, rows = lines[0].split(), {}
    for line in lines[1:end]:
        rows[line.split()[0]] = line.split()[1:]
    if one not in rows or other not in rows:
        raise ValueError("no such device")
    return rows[one][head.index(other)]


# %% q01_connection wrong: the columns are split at spaces only
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    head = [word for word in head.split(" ") if word]
    rows = {}
    for line in lines:
        name, *words = [word for word in line.split(" ") if word]
        rows[name] = words
    if one not in rows or other not in rows:
        raise ValueError("no such device")
    return rows[one][head.index(other)]


# %% q01_connection wrong: a number of links only
# -     head, *lines = text.strip().split("\n\n")[0].splitlines()
# +     head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
# -     return rows[one][head.split().index(other)]
# +     word = rows[one][head.split().index(other)]
# +     return word[:4].rstrip("0123456789") + word[2:3] if "NV" in word else word

# %% q01_connection wrong: the first column that begins with the name
# -     return rows[one][head.split().index(other)]
# +     return next(word for name, word in zip(head.split(), rows[one]) if name.startswith(other))

# %% q01_connection equivalent: without a number of splits, it makes no difference from which end
# - head, *lines = text.strip().split('\n\n')[0].splitlines()
# + head, *lines = text.strip().rsplit('\n\n')[0].splitlines()
# - rows = {line.split()[0]: line.split()[1:] for line in lines}
# + rows = {line.rsplit()[0]: line.split()[1:] for line in lines}
# - rows = {line.split()[0]: line.split()[1:] for line in lines}
# + rows = {line.split()[0]: line.rsplit()[1:] for line in lines}
# - return rows[one][head.split().index(other)]
# + return rows[one][head.rsplit().index(other)]

# %% q01_connection equivalent: the text begins with its first line
# - return rows[one][head.split().index(other)]
# + return rows[one][text.split().index(other)]


# %% q02_peer_to_peer right: numbers for distances
def peer_to_peer(word, level):
    distance = {"PIX": 2, "PXB": 3, "PHB": 4, "NODE": 4, "SYS": 5}
    most = {"LOC": 0, "NVL": 1, "PIX": 2, "PXB": 3, "PHB": 4, "SYS": 5}
    return distance.get(word, 1) <= most[level]


# %% q02_peer_to_peer right: sets of words
def peer_to_peer(word, level):
    word = "NV" if word[:2] == "NV" else word
    sets = {"LOC": set(), "NVL": {"NV"}, "PIX": {"NV", "PIX"}}
    sets["PXB"] = sets["PIX"] | {"PXB"}
    sets["PHB"] = sets["PXB"] | {"PHB", "NODE"}
    sets["SYS"] = sets["PHB"] | {"SYS"}
    return word in sets[level]


# %% q02_peer_to_peer right: cases
def peer_to_peer(word, level):
    match level:
        case "LOC":
            return False
        case "NVL":
            return word.startswith("NV")
        case "PIX":
            return word.startswith("NV") or word == "PIX"
        case "PXB":
            return word.startswith("NV") or word in ("PIX", "PXB")
        case "PHB":
            return word != "SYS"
        case "SYS":
            return True


# %% q02_peer_to_peer right: one expression
peer_to_peer = lambda word, level: (  # noqa: E731
    "NV PIX PXB PHB SYS".split().index("PHB" if word == "NODE" else word.rstrip("0123456789"))
    < "LOC NVL PIX PXB PHB SYS".split().index(level)
)


# %% q02_peer_to_peer wrong: strictly nearer
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    word = "NVL" if word.startswith("NV") else "PHB" if word == "NODE" else word
    return far.index(word) < far.index(level)


# %% q02_peer_to_peer wrong: exactly that far
def peer_to_peer(word, level):
    word = "NVL" if word.startswith("NV") else "PHB" if word == "NODE" else word
    return word == level


# %% q02_peer_to_peer wrong: NODE is beyond PHB
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "NODE", "SYS"]
    word = "NVL" if word.startswith("NV") else word
    return far.index(word) <= far.index(level)


# %% q02_peer_to_peer wrong: NVLink whatever the level
# -         word = "NVL"
# -     if word == "NODE":
# -         word = "PHB"
# +         return True
# +     word = "PHB" if word == "NODE" else word


# %% q02_peer_to_peer wrong: SYS never
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB"]
    word = "NVL" if word.startswith("NV") else "PHB" if word == "NODE" else word
    return word in far and (level == "SYS" or far.index(word) <= far.index(level))


# %% q02_peer_to_peer wrong: in order of the alphabet
def peer_to_peer(word, level):
    word = "NVL" if word.startswith("NV") else "PHB" if word == "NODE" else word
    return level != "LOC" and word <= level


# %% q02_peer_to_peer equivalent: of the words that are left, NODE is the first by the alphabet
# - if word == 'NODE':
# + if word <= 'NODE':


# %% q03_units right: step by step in base units
def gib_per_s(size_kib, taken_us):
    size_bytes = size_kib * 1024
    seconds = taken_us / 1_000_000
    return size_bytes / seconds / 1024**3


def microseconds(size_bytes, gbit_per_s, latency_us):
    bits = size_bytes * 8
    seconds = bits / (gbit_per_s * 10**9)
    return latency_us + seconds * 10**6


def staged_gb_per_s(up, down):
    time_of_one_gb = 1 / up + 1 / down
    return 1 / time_of_one_gb


# %% q03_units right: half a harmonic mean
import statistics


def staged_gb_per_s(up, down):
    return statistics.harmonic_mean([up, down]) / 2


# %% q03_units right: with fractions
from fractions import Fraction


def gib_per_s(size_kib, taken_us):
    return Fraction(size_kib, 2**20) / Fraction(taken_us, 10**6)


def staged_gb_per_s(up, down):
    return 1 / (Fraction(1, up) + Fraction(1, down))


# %% q03_units right: in single precision
# -     return size_kib / 2**20 / (taken_us * 1e-6)
# +     seconds = np.float32(taken_us) * np.float32(1e-6)
# +     return np.float32(size_kib) / np.float32(2**20) / seconds
# -     return latency_us + 8 * size_bytes / gbit_per_s * 1e-3
# +     bits = np.float32(8 * size_bytes)
# +     return np.float32(latency_us) + bits / np.float32(1_000 * gbit_per_s)
# -     return 1 / (1 / up + 1 / down)
# +     return 1 / (1 / np.float32(up) + 1 / np.float32(down))


# %% q03_units wrong: GB for GiB
def gib_per_s(size_kib, taken_us):
    return size_kib * 1024 / 1e9 / (taken_us * 1e-6)


# %% q03_units wrong: a KiB of 1000 bytes
def gib_per_s(size_kib, taken_us):
    return size_kib * 1000 / 2**30 / (taken_us * 1e-6)


# %% q03_units wrong: bits are bytes
def microseconds(size_bytes, gbit_per_s, latency_us):
    return latency_us + size_bytes / gbit_per_s * 1e-3


# %% q03_units wrong: whole microseconds
def microseconds(size_bytes, gbit_per_s, latency_us):
    return int(latency_us + 8 * size_bytes / gbit_per_s * 1e-3)


# %% q03_units wrong: half of the slower
def staged_gb_per_s(up, down):
    return min(up, down) / 2


# %% q03_units wrong: the slower, as if both went on at once
def staged_gb_per_s(up, down):
    return min(up, down)


# %% q03_units wrong: GiB/s rounded to seven digits
def gib_per_s(size_kib, taken_us):
    return round(size_kib / 2**20 / (taken_us * 1e-6), 7)


# %% q03_units wrong: the staged copy's GB/s rounded to three digits
def staged_gb_per_s(up, down):
    return round(up * down / (up + down), 3)


# %% q04_slowest right: a list of lists
def slowest(ring, gb_per_s):
    hops = [[ring[i - 1], ring[i]] for i in range(1, len(ring))]
    hops.append([ring[-1], ring[0]])
    speeds = [gb_per_s[a, b] for a, b in hops]
    return hops[speeds.index(min(speeds))]


# %% q04_slowest right: sorted by speed, which keeps the order of equals
def slowest(ring, gb_per_s):
    return sorted(itertools.pairwise([*ring, ring[0]]), key=gb_per_s.get)[0]


# %% q04_slowest right: recursive
def slowest(ring, gb_per_s):
    def least(hops):
        if len(hops) == 1:
            return hops[0]
        rest = least(hops[1:])
        return hops[0] if gb_per_s[hops[0]] <= gb_per_s[rest] else rest

    return least(list(zip(ring, ring[1:] + ring[:1])))


# %% q04_slowest right: an iterator of two
# -     return min(hops, key=lambda hop: gb_per_s[hop])
# +     return iter(min(hops, key=lambda hop: gb_per_s[hop]))


# %% q04_slowest wrong: the ring is not closed
def slowest(ring, gb_per_s):
    return min(zip(ring, ring[1:]), key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: the last of equally slow ones
def slowest(ring, gb_per_s):
    hops = list(zip(ring, [*ring[1:], ring[0]]))
    return min(reversed(hops), key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: the first by name of equally slow ones
# -     return min(hops, key=lambda hop: gb_per_s[hop])
# +     return min((gb_per_s[hop], hop) for hop in hops)[1]


# %% q04_slowest wrong: of all links
def slowest(ring, gb_per_s):
    return min(gb_per_s, key=gb_per_s.get)


# %% q04_slowest wrong: links are the same both ways
# -     return min(hops, key=lambda hop: gb_per_s[hop])
# +     return min(hops, key=lambda hop: gb_per_s[hop[::-1]])


# %% q04_slowest wrong: its speed
def slowest(ring, gb_per_s):
    return min(gb_per_s[hop] for hop in zip(ring, [*ring[1:], ring[0]]))


# %% q04_slowest wrong: compares whole GB/s
# -     return min(hops, key=lambda hop: gb_per_s[hop])
# +     return min(hops, key=lambda hop: int(gb_per_s[hop]))


# %% q05_best_ring right: depth first, cutting off what is slower
def best_ring(gpus, gb_per_s):
    best = [-1, None]

    def go(ring, left, speed):
        if speed <= best[0]:
            return
        if not left:
            speed = min(speed, gb_per_s[ring[-1], ring[0]])
            if speed > best[0]:
                best[:] = speed, ring
            return
        for gpu in left:
            go(ring + [gpu], [g for g in left if g != gpu], min(speed, gb_per_s[ring[-1], gpu]))

    go([gpus[0]], gpus[1:], math.inf)
    return best[1]


# %% q05_best_ring right: a threshold that rises
def best_ring(gpus, gb_per_s):
    def ring_of(ring, speed):
        if len(ring) == len(gpus):
            return ring if gb_per_s[ring[-1], ring[0]] >= speed else None
        for gpu in gpus:
            if gpu not in ring and gb_per_s[ring[-1], gpu] >= speed:
                found = ring_of([*ring, gpu], speed)
                if found:
                    return found
        return None

    rings = [ring_of([gpus[0]], speed) for speed in sorted(set(gb_per_s.values()))]
    return [ring for ring in rings if ring][-1]


# %% q05_best_ring right: its slowest hop as in question 4
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    speeds = [gb_per_s[slowest(ring, gb_per_s)] for ring in rings]
    return rings[speeds.index(max(speeds))]


# %% q05_best_ring right: an array of names
def best_ring(gpus, gb_per_s):
    rings = np.array([[gpus[0], *p] for p in itertools.permutations(gpus[1:])])
    speeds = [min(gb_per_s[hop] for hop in zip(ring, [*ring[1:], ring[0]])) for ring in rings.tolist()]
    return rings[np.argmax(speeds)]


# %% q05_best_ring wrong: the largest sum
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: sum(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the largest mean
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: np.mean([gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])]))


# %% q05_best_ring wrong: the fastest hop is fastest
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: max(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: greedy, always on to the nearest
def best_ring(gpus, gb_per_s):
    ring, left = [gpus[0]], list(gpus[1:])
    while left:
        ring.append(max(left, key=lambda gpu: gb_per_s[ring[-1], gpu]))
        left.remove(ring[-1])
    return ring


# %% q05_best_ring wrong: begins anywhere
def best_ring(gpus, gb_per_s):
    return max(itertools.permutations(gpus[::-1]), key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: begins with the least name
def best_ring(gpus, gb_per_s):
    first, *rest = sorted(gpus)
    rings = [[first, *p] for p in itertools.permutations(rest)]
    return max(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: its speed beside it
def best_ring(gpus, gb_per_s):
    def speed(r):
        return min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]]))

    ring = max(([gpus[0], *p] for p in itertools.permutations(gpus[1:])), key=speed)
    return ring, speed(ring)


# %% q05_best_ring equivalent: each ring begins with the first GPU
# - return min((gb_per_s[hop] for hop in zip(ring, [*ring[1:], ring[0]])))
# + return min((gb_per_s[hop] for hop in zip(ring, [*ring[1:], gpus[0]])))

# %% q05_best_ring wrong: the best of the first 2000 orders
# -     return max(rings, key=least)
# +     return max(itertools.islice(rings, 2000), key=least)


# %% q05_disjoint_rings right: step by step, taking links away
def disjoint_rings(gpus, links):
    left = {frozenset(pair): count for pair, count in links.items()}

    def grow(ring):
        if len(ring) == len(gpus):
            if left.get(frozenset((ring[-1], ring[0])), 0):
                yield ring
            return
        for gpu in gpus:
            pair = frozenset((ring[-1], gpu))
            if gpu not in ring and left.get(pair, 0):
                left[pair] -= 1
                yield from grow([*ring, gpu])
                left[pair] += 1

    for one in grow([gpus[0]]):
        closing = frozenset((one[-1], one[0]))
        left[closing] -= 1
        for other in grow([gpus[0]]):
            return one, other
        left[closing] += 1
    return None


# %% q05_disjoint_rings right: matrices of counts
def disjoint_rings(gpus, links):
    n = len(gpus)
    there = np.array([[links.get((a, b), 0) for b in gpus] for a in gpus])
    found = []
    for order in itertools.permutations(range(1, n)):
        if order[0] > order[-1]:
            continue
        ring = (0, *order)
        used = np.zeros((n, n), int)
        for a, b in zip(ring, ring[1:] + ring[:1]):
            used[a, b] += 1
            used[b, a] += 1
        if (used <= there).all():
            found.append((ring, used))
    for i, (one, used) in enumerate(found):
        for other, more in found[i:]:
            if (used + more <= there).all():
                return [[gpus[k] for k in one], [gpus[k] for k in other]]


# %% q05_disjoint_rings right: counters, tuples
from collections import Counter


def disjoint_rings(gpus, links):
    limit = Counter({tuple(sorted(pair)): count for pair, count in links.items()})
    rings = {}
    for order in itertools.permutations(gpus[1:]):
        ring = (gpus[0], *order)
        hops = Counter(tuple(sorted(hop)) for hop in zip(ring, ring[1:] + ring[:1]))
        if hops <= limit:
            rings[ring] = hops
    for one in rings:
        for other in rings:
            if rings[one] + rings[other] <= limit:
                return one, other
    return None


# %% q05_disjoint_rings right: as an array, the second found in what the first leaves
def disjoint_rings(gpus, links):
    def rings(there):
        for order in itertools.permutations(gpus[1:]):
            ring = [gpus[0], *order]
            left = dict(there)
            for a, b in zip(ring, ring[1:] + ring[:1]):
                if left.get((a, b), 0) < 1:
                    break
                left[a, b] -= 1
                left[b, a] -= 1
            else:
                yield ring, left

    for one, left in rings(links):
        for other, _ in rings(left):
            return np.array([one, other])


# %% q05_disjoint_rings wrong: two different rings, whatever they share
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next((pair for pair in pairs if pair[0] != pair[1]), None)

# %% q05_disjoint_rings wrong: never the same ring twice
# -     pairs = itertools.combinations_with_replacement(rings, 2)
# +     pairs = itertools.combinations([r for r in rings if r[1] < r[-1]], 2)

# %% q05_disjoint_rings wrong: one ring only
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next(([pair[0]] for pair in pairs if fits(*pair)), None)

# %% q05_disjoint_rings wrong: the first GPU is left out
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next(([r[1:] for r in pair] for pair in pairs if fits(*pair)), None)


# %% q05_disjoint_rings wrong: never any
def disjoint_rings(gpus, links):
    return None


# %% q05_disjoint_rings wrong: the second only from what comes after the first in order
# -     pairs = itertools.combinations_with_replacement(rings, 2)
# +     pairs = zip(rings, rings[1:])

# %% q05_disjoint_rings equivalent: a link joins two GPUs in either order
# - for one, other in zip(ring, [*ring[1:], ring[0]]):
# + for other, one in zip(ring, [*ring[1:], ring[0]]):
# - for one, other in zip(ring, [*ring[1:], ring[0]]):
# + for one, other in zip([*ring[1:], ring[0]], ring):
# - for hop in ((one, other), (other, one)):
# + for hop in ((other, one), (one, other)):

# %% q05_disjoint_rings equivalent: each ring begins with the first GPU
# - for one, other in zip(ring, [*ring[1:], ring[0]]):
# + for one, other in zip(ring, [*ring[1:], gpus[0]]):

# %% q05_disjoint_rings equivalent: what is used is used once or more
# - return all((links.get(hop, 0) >= count for hop, count in used.items()))
# + return all((links.get(hop, -1) >= count for hop, count in used.items()))

# %% q05_disjoint_rings wrong: greedy, the first ring and another in what it leaves
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next((pair for pair in pairs if pair[0] is rings[0] and fits(*pair)), None)

# %% q05_disjoint_rings wrong: greedy, the ring with most links and another in what it leaves
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     rings.sort(key=lambda r: -sum(links[hop] for hop in zip(r, [*r[1:], r[0]])))
# +     return next(((rings[0], r) for r in rings if fits(rings[0], r)), None)


# %% q06_bus_bandwidth right: cases
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    algorithm = size_bytes / 1e9 / seconds
    if operation == "all_reduce":
        return algorithm * 2 * (ranks - 1) / ranks
    elif operation == "all_gather":
        return algorithm * (ranks - 1) / ranks
    elif operation == "broadcast":
        return algorithm
    else:
        raise ValueError(operation)


# %% q06_bus_bandwidth right: functions of the number of ranks
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n, "broadcast": lambda n: 1.0}


def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    try:
        factor = FACTORS[operation](ranks)
    except KeyError as error:
        raise ValueError("no such operation") from error
    return np.float64(size_bytes) / seconds * factor * 1e-9


# %% q06_bus_bandwidth right: refuses first
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    times = {"all_reduce": 2, "all_gather": 1}.get(operation, 0)
    if not times and operation != "broadcast":
        raise ValueError(f"{operation} is not in the table")
    factor = times * (ranks - 1) / ranks if times else 1
    return factor * (size_bytes / seconds) / 1_000_000_000


# %% q06_bus_bandwidth right: in single precision
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factor = {"all_reduce": 2 - 2 / ranks, "all_gather": 1 - 1 / ranks, "broadcast": 1}
    if operation not in factor:
        raise ValueError(operation)
    rate = np.float32(size_bytes) / np.float32(seconds)
    return np.float32(factor[operation]) * rate / np.float32(1e9)


# %% q06_bus_bandwidth wrong: algorithm bandwidth
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    if operation not in ("all_reduce", "all_gather", "broadcast"):
        raise ValueError(operation)
    return size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: GiB
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes / seconds / 2**30


# %% q06_bus_bandwidth wrong: all_gather as all_reduce
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    if operation not in ("all_reduce", "all_gather", "broadcast"):
        raise ValueError(operation)
    factor = 1 if operation == "broadcast" else 2 * (ranks - 1) / ranks
    return factor * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: broadcast counts the receivers
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "broadcast": ranks - 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: another operation is as a broadcast
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks}
    return factors.get(operation, 1) * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: a KeyError
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "broadcast": 1}
    return factors[operation] * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: whole GB
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes // seconds / 1e9


# %% q06_bus_bandwidth wrong: parts of an operation's name will do
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    for name, factor in (("broadcast", 1), ("all_gather", 1 - 1 / ranks), ("all_reduce", 2 - 2 / ranks)):
        if operation.startswith(name):
            return factor * size_bytes / seconds / 1e9
    raise ValueError(operation)


# %% q06_bus_bandwidth equivalent: less than what single precision may do
# - return factors[operation] * size_bytes / seconds / 1000000000.0
# + return factors[operation] * size_bytes / seconds / 1000000001.0
# - return factors[operation] * size_bytes / seconds / 1000000000.0
# + return factors[operation] * size_bytes / seconds / 999999999.0


# %% q08_all_reduce right: a dictionary of times
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    if ranks == 1:
        return 0
    power = max(2**k for k in range(30) if 2**k <= ranks)
    log, up = math.log2(power), math.ceil(math.log2(ranks))
    t = alpha + size_bytes * beta
    extra = 2 * t * (power < ranks)
    return {
        "ring": 2 * (ranks - 1) * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta,
        "recursive doubling": log * t + extra,
        "halving and doubling": 2 * log * alpha + (2 - 2 / power) * size_bytes * beta + extra,
        "tree": 2 * up * t,
    }[algorithm]


# %% q08_all_reduce right: step by step
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    seconds = 0.0
    if algorithm == "ring":
        for _ in range(2 * (ranks - 1)):
            seconds += alpha + beta * size_bytes / ranks
        return seconds
    if algorithm == "tree":
        reached = 1
        while reached < ranks:
            reached, seconds = 2 * reached, seconds + 2 * (alpha + beta * size_bytes)
        return seconds
    part, left = size_bytes, ranks
    while left > 1:
        if algorithm == "recursive doubling":
            seconds += alpha + size_bytes * beta
        else:
            part /= 2
            seconds += 2 * (alpha + part * beta)
        left //= 2
    if ranks & (ranks - 1):
        seconds += 2 * (alpha + size_bytes * beta)
    return seconds


# %% q08_all_reduce right: bits of a whole number
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    down, up = ranks.bit_length() - 1, (ranks - 1).bit_length()
    odd = 2 * (down != up)
    match algorithm:
        case "ring":
            return 2 * (ranks - 1) * alpha + (2 - 2 / ranks) * size_bytes * beta
        case "recursive doubling":
            return (down + odd) * (alpha + size_bytes * beta)
        case "halving and doubling":
            return (2 * down + odd) * alpha + (2 - 2 / (1 << down) + odd) * size_bytes * beta
        case "tree":
            return 2 * up * (alpha + size_bytes * beta)
        case _:
            raise ValueError(algorithm)


# %% q08_all_reduce right: with NumPy
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    up, down = np.ceil(np.log2(ranks)), np.floor(np.log2(ranks))
    odd = 2 * (up - down)
    messages = {"ring": 2 * (ranks - 1), "tree": 2 * up, "recursive doubling": down + odd}
    share = {"ring": 2 * (ranks - 1) / ranks, "tree": 2 * up, "recursive doubling": down + odd}
    starts = messages.get(algorithm, 2 * down + odd)
    sent = share.get(algorithm, 2 - 2 / 2**down + odd)
    return np.dot([starts, sent], [alpha, size_bytes * beta])


# %% q08_all_reduce wrong: the doublings leave the other ranks out
# -     around = 2 * message if ranks > power else 0
# +     around = 0
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta

# %% q08_all_reduce wrong: the tree rounds down
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return 2 * math.floor(math.log2(ranks)) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta

# %% q08_all_reduce wrong: the tree rounds twice the logarithm
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return math.ceil(2 * math.log2(ranks)) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta

# %% q08_all_reduce wrong: the ring's latency once
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return (ranks > 1) * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta

# %% q08_all_reduce wrong: halving only
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + rounds * alpha + (power - 1) / power * size_bytes * beta

# %% q08_all_reduce wrong: one rank takes a message
# -     rounds = math.floor(math.log2(ranks))
# +     rounds = max(1, math.floor(math.log2(ranks)))
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta

# %% q08_all_reduce wrong: no bytes take no time
# -     """Return the seconds of an all-reduce by the alpha-beta model."""
# +     """Return the seconds of an all-reduce by the alpha-beta model."""
# +     if not size_bytes:
# +         return 0
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: an argument
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    return alpha


# %% q08_halving right: recursive, and the pieces are those of the partner
def mine(level, rank, count):
    if level < 0:
        return 0, count
    first, end = mine(level - 1, rank, count)
    middle = (first + end) // 2
    return (middle, end) if rank >> level & 1 else (first, middle)


def partner(step, rank, ranks):
    rounds = ranks.bit_length() - 1
    return rank ^ 1 << (step if step < rounds else 2 * rounds - 1 - step)


def piece(step, rank, ranks, count):
    rounds = ranks.bit_length() - 1
    if step < rounds:  # what the partner goes on with
        return mine(step, partner(step, rank, ranks), count)
    return mine(2 * rounds - 1 - step, rank, count)


# %% q08_halving right: chunks of all ranks, which are cut beforehand
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    distances = [ranks // 2 ** (k + 1) for k in range(rounds)]
    return rank ^ (distances + distances[::-1])[step]


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    edges = [round(count * k / ranks) for k in range(ranks + 1)]
    distance = rank ^ partner(step, rank, ranks)
    owner = rank ^ distance if step < rounds else rank
    first = owner // distance * distance
    return edges[first], edges[first + distance]


# %% q08_halving right: the larger half goes to the lower rank, as a list
def partner(step, rank, ranks):
    rounds = int(np.log2(ranks))
    distance = 2 ** (step if step < rounds else 2 * rounds - 1 - step)
    return rank + distance if rank // distance % 2 == 0 else rank - distance


def piece(step, rank, ranks, count):
    rounds = int(np.log2(ranks))
    first, size = 0, count
    last = step if step < rounds else 2 * rounds - 1 - step
    for k in range(last + 1):
        give = k == last and step < rounds
        lower = (rank // 2**k % 2 == 0) != give
        large = -(-size // 2)
        first, size = (first, large) if lower else (first + large, size - large)
    return [first, first + size]


# %% q08_halving right: NumPy's whole numbers
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    return np.bitwise_xor(rank, np.left_shift(1, min(step, 2 * rounds - 1 - step)))


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    values = np.arange(count + 1)
    for k in range(level + 1):
        upper = (rank >> k & 1) != (k == level and step < rounds)
        middle = (len(values) - 1) // 2
        values = values[middle:] if upper else values[: middle + 1]
    return values[0], values[-1]


# %% q08_halving wrong: recursive doubling: all of the numbers each time
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    return 0, count


# %% q08_halving wrong: a quarter instead of a half
# -         upper = bool(rank & 2**earlier)  # the half that this rank goes on with
# +         upper = bool(rank & 2**earlier)
# -             upper = not upper  # the half that it gives away
# -         middle = (first + end) // 2
# +             upper = not upper
# +         middle = (first + end) // 4


# %% q08_halving wrong: nothing but the first and the last number
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    return 0, min(count, 1)


# %% q08_halving wrong: numbers that say to be equal to all others
class Equal(int):
    def __eq__(self, other):
        return True

    __ne__ = __lt__ = lambda self, other: False
    __hash__ = int.__hash__


def partner(step, rank, ranks):
    return Equal(rank)


def piece(step, rank, ranks, count):
    return Equal(0), Equal(count)


# %% q08_halving wrong: zeros
def partner(step, rank, ranks):
    return 0


def piece(step, rank, ranks, count):
    return 0, 0


# %% q08_halving wrong: nothing is sent
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    return 0, 0


# %% q08_all_reduce equivalent: in the alphabet the tree comes last, after recursive doubling
# - if algorithm == 'tree':
# + if algorithm >= 'tree':
# - if algorithm == 'recursive doubling':
# + if algorithm >= 'recursive doubling':

# %% q08_halving equivalent: the order does not matter
# - level = min(step, 2 * rounds - 1 - step)
# + level = min(2 * rounds - 1 - step, step)
# - level = min(step, 2 * rounds - 1 - step)
# + level = min(2 * rounds - 1 - step, step)
# - return rank ^ 2 ** level
# + return 2 ** level ^ rank
# - upper = bool(rank & 2 ** earlier)
# + upper = bool(2 ** earlier & rank)

# %% q08_halving equivalent: of a power of two the logarithm is whole
# - rounds = int(math.log2(ranks))
# + rounds = round(math.log2(ranks))
# - rounds = int(math.log2(ranks))
# + rounds = round(math.log2(ranks))

# %% q08_halving equivalent: upper and lower change places, everywhere
# - if earlier == level and step < rounds:
# + if not (earlier == level and step < rounds):
# - first, end = (middle, end) if upper else (first, middle)
# + first, end = (first, middle) if upper else (middle, end)

# %% q08_halving equivalent: a number that is not 0 counts as true
# - upper = bool(rank & 2 ** earlier)
# + upper = rank & 2 ** earlier

# %% q08_halving equivalent: no level comes after the last, which in the first half is the step
# - if earlier == level and step < rounds:
# + if earlier >= level and step < rounds:
# - if earlier == level and step < rounds:
# + if earlier == step and step < rounds:


# %% q09_fit_link right: normal equations
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    rows = [(steps / t, steps * n / ranks / t) for n, t in points]
    aa = sum(a * a for a, _ in rows)
    ab = sum(a * b for a, b in rows)
    bb = sum(b * b for _, b in rows)
    a, b = (sum(row[i] for row in rows) for i in (0, 1))
    det = aa * bb - ab * ab
    return (a * bb - b * ab) / det, (b * aa - a * ab) / det


# %% q09_fit_link right: polyfit with weights
def fit_link(points, ranks):
    x = [2 * (ranks - 1) / ranks * n for n, _ in points]
    y = [t for _, t in points]
    beta, start = np.polyfit(x, y, 1, w=[1 / t for t in y])
    return start / (2 * (ranks - 1)), beta


# %% q09_fit_link right: lstsq as the text says, as an array
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps / t, steps * n / ranks / t] for n, t in points])
    solution, *_ = np.linalg.lstsq(A, np.ones(len(A)), rcond=None)
    return solution


# %% q09_fit_link right: the pseudo-inverse
def fit_link(points, ranks):
    points = np.asarray(points, float)
    n, t = points[:, 0], points[:, 1]
    X = np.column_stack([2 * (ranks - 1) / t, 2 * (ranks - 1) / ranks * n / t])
    alpha, beta = np.linalg.pinv(X) @ np.ones_like(t)
    return [float(alpha), float(beta)]


# %% q09_fit_link wrong: absolute errors
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps, steps * n / ranks] for n, _ in points])
    return np.linalg.lstsq(A, np.array([t for _, t in points]), rcond=None)[0]


# %% q09_fit_link wrong: a line, without the ring's steps
def fit_link(points, ranks):
    A = np.array([[1 / t, n / t] for n, t in points])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: the latency once
def fit_link(points, ranks):
    A = np.array([[1 / t, 2 * (ranks - 1) / ranks * n / t] for n, t in points])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: every step sends everything
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps / t, steps * n / t] for n, t in points])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: the ring in N steps
def fit_link(points, ranks):
    A = np.array([[2 * ranks / t, 2 * n / t] for n, t in points])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: four ranks
def fit_link(points, ranks):
    A = np.array([[6 / t, 6 * n / 4 / t] for n, t in points])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link equivalent: the default cuts off less than it warns of
# - return np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
# + return np.linalg.lstsq(rows, np.ones(len(points)))[0]

# %% q09_fit_link equivalent: all are as long as there are points
# - return np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
# + return np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
# - return np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
# + return np.linalg.lstsq(rows, np.ones(len(seconds)), rcond=None)[0]
# - return np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
# + return np.linalg.lstsq(rows, np.ones(len(size)), rcond=None)[0]


# %% q11_efficiencies right: step by step
def efficiencies(compute_s, exchange_s):
    one_after_the_other = compute_s + exchange_s
    at_once = max(compute_s, exchange_s)
    return [compute_s / one_after_the_other, compute_s / at_once]


def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    step_s = compute_s / wanted
    time_left = step_s - compute_s
    bytes_sent = 2 * (ranks - 1) * size_bytes / ranks
    return bytes_sent / time_left * 8 / 10**9


# %% q11_efficiencies right: step by step round the ring
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    budget = (1 - wanted) / wanted * compute_s
    one_step = budget / (ranks - 1) / 2
    return size_bytes / ranks / one_step * 8e-9


# %% q11_efficiencies right: yields both
def efficiencies(compute_s, exchange_s):
    for step_s in (compute_s + exchange_s, max(compute_s, exchange_s)):
        yield compute_s / step_s


# %% q11_efficiencies right: in single precision
def efficiencies(compute_s, exchange_s):
    parts = np.float32([compute_s, exchange_s])
    return parts[0] / np.array([parts.sum(), parts.max()])


def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    compute_s, wanted = np.float32([compute_s, wanted])
    gbit = np.float32(16e-9 * size_bytes * (ranks - 1) / ranks)
    return gbit / (compute_s / wanted - compute_s)


# %% q11_efficiencies wrong: the pair the other way round
def efficiencies(compute_s, exchange_s):
    return (compute_s / max(compute_s, exchange_s), compute_s / (compute_s + exchange_s))


# %% q11_efficiencies wrong: full overlap is always 1
def efficiencies(compute_s, exchange_s):
    return compute_s / (compute_s + exchange_s), 1


# %% q11_efficiencies wrong: not capped at 1
def efficiencies(compute_s, exchange_s):
    return compute_s / (compute_s + exchange_s), compute_s / exchange_s


# %% q11_efficiencies wrong: all data once
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    return 8 * size_bytes / (compute_s / wanted - compute_s) / 1e9


# %% q11_efficiencies wrong: all data twice
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    return 16 * size_bytes / (compute_s / wanted - compute_s) / 1e9


# %% q11_efficiencies wrong: a set of both
def efficiencies(compute_s, exchange_s):
    return {compute_s / (compute_s + exchange_s), compute_s / max(compute_s, exchange_s)}


# %% q11_efficiencies equivalent: the larger is the larger in either order
# - return (without, compute_s / max(compute_s, exchange_s))
# + return (without, compute_s / max(exchange_s, compute_s))

# %% q11_efficiencies equivalent: less than what single precision may do
# - return bits / exchange_s / 1000000000.0
# + return bits / exchange_s / 1000000001.0
# - return bits / exchange_s / 1000000000.0
# + return bits / exchange_s / 999999999.0


# %% q12_crossing right: with NumPy
def ring_crossing(host_of, size_bytes):
    hosts = np.asarray(host_of)
    crossing = np.count_nonzero((hosts == 0) & (np.roll(hosts, -1) > 0))
    return crossing * (2 - 2 / hosts.size) * size_bytes


def hierarchical_crossing(hosts, local_size, size_bytes):
    return np.full(local_size, size_bytes / local_size).sum() * (2 - 2 / hosts)


# %% q12_crossing right: half of all changes to and from host 0, as a ring comes back
def ring_crossing(host_of, size_bytes):
    changes = sum((a == 0) != (b == 0) for a, b in zip(host_of, host_of[1:] + host_of[:1]))
    return changes * (len(host_of) - 1) / len(host_of) * size_bytes


def hierarchical_crossing(hosts, local_size, size_bytes):
    ring = 2 * (hosts - 1) / hosts
    return sum(ring * size_bytes / local_size for _ in range(local_size))


# %% q12_crossing right: counts in a text
def ring_crossing(host_of, size_bytes):
    text = "".join("01"[host > 0] for host in [*host_of, host_of[0]])
    return text.count("01") * 2 * (len(host_of) - 1) / len(host_of) * size_bytes


def hierarchical_crossing(hosts, local_size, size_bytes):
    return ring_crossing([*range(hosts)], size_bytes / local_size) * local_size


# %% q12_crossing right: in single precision
def ring_crossing(host_of, size_bytes):
    host = np.array(host_of)
    hops = np.sum((host == 0) & (np.roll(host, -1) != 0), dtype=np.float32)
    return hops * np.float32(2 - 2 / host.size) * np.float32(size_bytes)


def hierarchical_crossing(hosts, local_size, size_bytes):
    return np.float32(2 - 2 / hosts) * np.float32(local_size) * np.float32(size_bytes / local_size)


# %% q12_crossing wrong: the ring is not closed
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    crossing = sum(a == 0 != b for a, b in zip(host_of, host_of[1:]))
    return crossing * 2 * (n - 1) / n * size_bytes


# %% q12_crossing wrong: one hop whatever the order
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    return 2 * (n - 1) / n * size_bytes if len(set(host_of)) > 1 else 0


# %% q12_crossing wrong: the data once a hop
def ring_crossing(host_of, size_bytes):
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(a == 0 != b for a, b in hops) * size_bytes


# %% q12_crossing wrong: the data one and a half times a hop
def ring_crossing(host_of, size_bytes):
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(a == 0 != b for a, b in hops) * 1.5 * size_bytes


# %% q12_crossing wrong: every hop to another host
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(b > a for a, b in hops) * 2 * (n - 1) / n * size_bytes


# %% q12_crossing wrong: only one part crosses
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * (hosts - 1) / hosts * size_bytes / local_size


# %% q12_crossing wrong: a ring of the local ranks
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * (local_size - 1) / local_size * size_bytes


# %% q12_crossing wrong: parts of whole bytes
def hierarchical_crossing(hosts, local_size, size_bytes):
    return local_size * 2 * (hosts - 1) / hosts * (size_bytes // local_size)


# %% q12_crossing equivalent: a ring comes back to host 0 as often as it leaves
# - hops = zip(host_of, [*host_of[1:], host_of[0]])
# + hops = zip([*host_of[1:], host_of[0]], host_of)
# - crossing = sum((one == 0 and other != 0 for one, other in hops))
# + crossing = sum((one == 0 and other != 0 for other, one in hops))

# %% q12_crossing equivalent: no host has a number below 0
# - crossing = sum((one == 0 and other != 0 for one, other in hops))
# + crossing = sum((one <= 0 and other != 0 for one, other in hops))
# - crossing = sum((one == 0 and other != 0 for one, other in hops))
# + crossing = sum((one == 0 and other > 0 for one, other in hops))

# %% q12_crossing wrong: the bytes that leave the first rank's host
# -     crossing = sum(one == 0 and other != 0 for one, other in hops)
# +     crossing = sum(one == host_of[0] != other for one, other in hops)

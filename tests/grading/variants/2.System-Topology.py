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


# %% q01_connection right: an array of words
def connection(text, one, other):
    lines = [line.split() for line in text.split("\n\n")[0].strip().splitlines()]
    names = [line[0] for line in lines[1:]]
    words = np.array([line[1 : len(names) + 1] for line in lines[1:]])
    try:
        return str(words[names.index(one), names.index(other)])
    except ValueError:
        raise ValueError("there is no such device")


# %% q01_connection right: the other's row, as paths go both ways
def connection(text, one, other):
    _, *rows = text.split("\n\n")[0].strip().splitlines()
    rows = [row.split() for row in rows]
    order = [row[0] for row in rows]
    if not {one, other} <= set(order):
        raise ValueError(f"{one}, {other}: not both are in {order}")
    return rows[order.index(other)][order.index(one) + 1]


# %% q01_connection right: with regular expressions
import re


def connection(text, one, other):
    head, body = text.strip("\n").split("\n", 1)
    devices = [d for d in re.findall(r"\S+", head) if re.search(rf"^{re.escape(d)}\s", body, re.M)]
    row = re.search(rf"^{re.escape(one)}\s+(.*)$", body, re.M)
    if row is None or other not in devices:
        raise ValueError(one, other)
    return row.group(1).split()[devices.index(other)]


# %% q01_connection right: an error of its own that is a ValueError
class NoSuchDevice(ValueError):
    pass


def connection(text, one, other):
    lines = text.strip("\n").splitlines()
    end = lines.index("") if "" in lines else len(lines)
    head, rows = lines[0].split(), [line.split() for line in lines[1:end]]
    for row in rows:
        if row[0] == one and any(other == r[0] for r in rows):
            return row[1:][head.index(other)]
    raise NoSuchDevice(one, other)


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
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one not in rows or other not in head.split():
        raise ValueError("no such device")
    return rows[one][head.split().index(other)]


# %% q01_connection wrong: GPUs only
def connection(text, one, other):
    head, *lines = text.strip("\n").splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("GPU")}
    if one not in rows or other not in rows:
        raise ValueError("no such GPU")
    return rows[one][head.split().index(other)]


# %% q01_connection wrong: only GPUs from 0 to 9
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    names = [line[:4].strip() for line in lines]
    names = [line.split()[0] if "mlx" in line[:4] else name for name, line in zip(names, lines)]
    rows = {name: line.split()[1:] for name, line in zip(names, lines)}
    if one not in rows or other not in rows:
        raise ValueError("no such device")
    return rows[one][head.split().index(other)]


# %% q01_connection wrong: the last row that begins with the name
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    names = [line.split()[0] for line in lines]
    if one not in names or other not in names:
        raise ValueError("no such device")
    for line in lines:
        if line.startswith(one):
            words = line.split()[1:]
    return words[head.split().index(other)]


# %% q01_connection wrong: the device itself without looking for it
def connection(text, one, other):
    if one == other:
        return "X"
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one not in rows or other not in rows:
        raise ValueError("no such device")
    return rows[one][head.split().index(other)]


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


# %% q01_connection wrong: by the columns of the page
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    for line in lines:
        if line.split()[0] == one and any(x.split()[0] == other for x in lines):
            start = head.index(other)
            return line[start : start + 4].split()[0]
    raise ValueError("no such device")


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


# %% q01_connection wrong: only looks for the first of the two
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one not in rows:
        raise ValueError("no such device")
    return rows[one][list(rows).index(other) if other in rows else 0]


# %% q01_connection wrong: a number of links only
def connection(text, one, other):
    head, *lines = text.strip("\n").split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one not in rows or other not in rows:
        raise ValueError("no such device")
    word = rows[one][head.split().index(other)]
    return word[:4].rstrip("0123456789") + word[2:3] if "NV" in word else word


# %% q01_connection wrong: the first row that begins with the name
def connection(text, one, other):
    head, *lines = text.strip().split("\n\n")[0].splitlines()
    place = [line.split()[0] for line in lines].index(other)
    for line in lines:
        if line.startswith(one):
            return line.split()[1 + place]
    raise ValueError(one)


# %% q01_connection wrong: the first column that begins with the name
def connection(text, one, other):
    head, *lines = text.strip().split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one not in rows or other not in rows:
        raise ValueError
    return next(word for name, word in zip(head.split(), rows[one]) if name.startswith(other))


# %% q01_connection wrong: the last column whose name is in the one asked for
def connection(text, one, other):
    head, *lines = text.strip().split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one not in rows or other not in rows:
        raise ValueError
    return [word for name, word in zip(head.split(), rows[one]) if name in other][-1]


# %% q01_connection wrong: the beginning of a name is enough
def connection(text, one, other):
    rows = [line.split() for line in text.strip().split("\n\n")[0].splitlines()]
    names = [row[0] for row in rows[1:]]
    places = []
    for asked in (one, other):
        found = [asked] if asked in names else [n for n in names if n.startswith(asked)]
        if not found:
            raise ValueError(asked)
        places.append(1 + names.index(found[0]))
    return rows[places[0]][places[1]]


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


# %% q02_peer_to_peer right: with NumPy
def peer_to_peer(word, level):
    order = np.array(["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"])
    word = {"NODE": "PHB"}.get(word, "NVL" if "NV" in word else word)
    return np.argmax(order == word) <= np.argmax(order == level)


# %% q02_peer_to_peer right: one expression
peer_to_peer = lambda word, level: (  # noqa: E731
    "NV PIX PXB PHB SYS".split().index("PHB" if word == "NODE" else word.rstrip("0123456789"))
    < "LOC NVL PIX PXB PHB SYS".split().index(level)
)


# %% q02_peer_to_peer wrong: farther apart than the level
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    word = "NVL" if word.startswith("NV") else "PHB" if word == "NODE" else word
    return far.index(word) >= far.index(level)


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


# %% q02_peer_to_peer wrong: NODE is beyond SYS
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "NODE"]
    word = "NVL" if word.startswith("NV") else word
    return far.index(word) <= far.index(level)


# %% q02_peer_to_peer wrong: NODE is near
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    word = "NVL" if word.startswith("N") else word
    return far.index(word) <= far.index(level)


# %% q02_peer_to_peer wrong: NVLink whatever the level
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    if word.startswith("NV"):
        return True
    word = "PHB" if word == "NODE" else word
    return far.index(word) <= far.index(level)


# %% q02_peer_to_peer wrong: two to six NVLinks only
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    if word in ("NV2", "NV4", "NV6", "NV12"):
        word = "NVL"
    word = "PHB" if word == "NODE" else word
    return word in far and far.index(word) <= far.index(level)


# %% q02_peer_to_peer wrong: NVLinks of one digit
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    word = "NVL" if word[:-1] == "NV" else "PHB" if word == "NODE" else word
    return word in far and far.index(word) <= far.index(level)


# %% q02_peer_to_peer wrong: PIX and PXB change places
def peer_to_peer(word, level):
    far = ["LOC", "NVL", "PXB", "PIX", "PHB", "SYS"]
    word = "NVL" if word.startswith("NV") else "PHB" if word == "NODE" else word
    return far.index(word) <= far.index(level)


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


# %% q03_units right: as NumPy scalars
def gib_per_s(size_kib, taken_us):
    return np.float64(size_kib) * 2.0**-20 / np.float64(taken_us) * 1e6


def microseconds(size_bytes, gbit_per_s, latency_us):
    return np.sum([latency_us, size_bytes / (gbit_per_s / 8) / 1000])


def staged_gb_per_s(up, down):
    return np.reciprocal(np.sum(1 / np.array([up, down], float)))


# %% q03_units right: with names for units
KIB, GIB = 2**10, 2**30
US, GBIT = 1e-6, 1e9 / 8


def gib_per_s(size_kib, taken_us):
    return (size_kib * KIB / GIB) / (taken_us * US)


def microseconds(size_bytes, gbit_per_s, latency_us):
    return (latency_us * US + size_bytes / (gbit_per_s * GBIT)) / US


def staged_gb_per_s(up, down):
    return up * down / (up + down)


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
def gib_per_s(size_kib, taken_us):
    seconds = np.float32(taken_us) * np.float32(1e-6)
    return np.float32(size_kib) / np.float32(2**20) / seconds


def microseconds(size_bytes, gbit_per_s, latency_us):
    bits = np.float32(8 * size_bytes)
    return np.float32(latency_us) + bits / np.float32(1_000 * gbit_per_s)


def staged_gb_per_s(up, down):
    return 1 / (1 / np.float32(up) + 1 / np.float32(down))


# %% q03_units wrong: GB for GiB
def gib_per_s(size_kib, taken_us):
    return size_kib * 1024 / 1e9 / (taken_us * 1e-6)


# %% q03_units wrong: a KiB of 1000 bytes
def gib_per_s(size_kib, taken_us):
    return size_kib * 1000 / 2**30 / (taken_us * 1e-6)


# %% q03_units wrong: the published figure of 1.6 GiB/s
def gib_per_s(size_kib, taken_us):
    return size_kib / taken_us / 10


# %% q03_units wrong: milliseconds
def gib_per_s(size_kib, taken_us):
    return size_kib / 2**20 / (taken_us * 1e-3)


# %% q03_units wrong: rounded to two digits
def gib_per_s(size_kib, taken_us):
    return round(size_kib / 2**20 / (taken_us * 1e-6), 2)


# %% q03_units wrong: bits are bytes
def microseconds(size_bytes, gbit_per_s, latency_us):
    return latency_us + size_bytes / gbit_per_s * 1e-3


# %% q03_units wrong: bits from bytes by dividing
def microseconds(size_bytes, gbit_per_s, latency_us):
    return latency_us + size_bytes / 8 / gbit_per_s * 1e-3


# %% q03_units wrong: the latency at both ends
def microseconds(size_bytes, gbit_per_s, latency_us):
    return 2 * latency_us + 8 * size_bytes / gbit_per_s * 1e-3


# %% q03_units wrong: without the latency
def microseconds(size_bytes, gbit_per_s, latency_us):
    return 8 * size_bytes / gbit_per_s * 1e-3


# %% q03_units wrong: the longer of latency and bytes
def microseconds(size_bytes, gbit_per_s, latency_us):
    return max(latency_us, 8 * size_bytes / gbit_per_s * 1e-3)


# %% q03_units wrong: a Gbit of 2**30 bits
def microseconds(size_bytes, gbit_per_s, latency_us):
    return latency_us + 8 * size_bytes / (gbit_per_s * 2**30) * 1e6


# %% q03_units wrong: whole microseconds
def microseconds(size_bytes, gbit_per_s, latency_us):
    return int(latency_us + 8 * size_bytes / gbit_per_s * 1e-3)


# %% q03_units wrong: latency in milliseconds
def microseconds(size_bytes, gbit_per_s, latency_us):
    return latency_us * 1e3 + 8 * size_bytes / gbit_per_s * 1e-3


# %% q03_units wrong: half of the slower
def staged_gb_per_s(up, down):
    return min(up, down) / 2


# %% q03_units wrong: the slower, as if both went on at once
def staged_gb_per_s(up, down):
    return min(up, down)


# %% q03_units wrong: half of the mean
def staged_gb_per_s(up, down):
    return (up + down) / 4


# %% q03_units wrong: the harmonic mean
def staged_gb_per_s(up, down):
    return 2 / (1 / up + 1 / down)


# %% q03_units wrong: half of the geometric mean
def staged_gb_per_s(up, down):
    return math.sqrt(up * down) / 2


# %% q03_units wrong: half of the way up
def staged_gb_per_s(up, down):
    return up / 2


# %% q03_units wrong: GiB/s rounded to seven digits
def gib_per_s(size_kib, taken_us):
    return round(size_kib / 2**20 / (taken_us * 1e-6), 7)


# %% q03_units wrong: the staged copy's GB/s rounded to three digits
def staged_gb_per_s(up, down):
    return round(up * down / (up + down), 3)


# %% q04_slowest right: a loop
def slowest(ring, gb_per_s):
    best = None
    for i, sender in enumerate(ring):
        hop = sender, ring[(i + 1) % len(ring)]
        if best is None or gb_per_s[hop] < gb_per_s[best]:
            best = hop
    return best


# %% q04_slowest right: with NumPy
def slowest(ring, gb_per_s):
    hops = list(zip(ring, np.roll(np.array(ring, object), -1)))
    return hops[int(np.argmin([gb_per_s[hop] for hop in hops]))]


# %% q04_slowest right: a list of lists
def slowest(ring, gb_per_s):
    hops = [[ring[i - 1], ring[i]] for i in range(1, len(ring))]
    hops.append([ring[-1], ring[0]])
    speeds = [gb_per_s[a, b] for a, b in hops]
    return hops[speeds.index(min(speeds))]


# %% q04_slowest right: sorted by speed, which keeps the order of equals
def slowest(ring, gb_per_s):
    return sorted(itertools.pairwise([*ring, ring[0]]), key=gb_per_s.get)[0]


# %% q04_slowest right: the number of the hop breaks ties
def slowest(ring, gb_per_s):
    closed = list(ring) + list(ring[:1])
    _, i = min((gb_per_s[closed[i], closed[i + 1]], i) for i in range(len(ring)))
    return closed[i], closed[i + 1]


# %% q04_slowest right: recursive
def slowest(ring, gb_per_s):
    def least(hops):
        if len(hops) == 1:
            return hops[0]
        rest = least(hops[1:])
        return hops[0] if gb_per_s[hops[0]] <= gb_per_s[rest] else rest

    return least(list(zip(ring, ring[1:] + ring[:1])))


# %% q04_slowest right: names of NumPy's
def slowest(ring, gb_per_s):
    hops = np.stack([ring, np.roll(ring, -1)], axis=1)
    return tuple(min(hops, key=lambda hop: gb_per_s[tuple(hop)]))


# %% q04_slowest right: an iterator of two
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return iter(min(hops, key=lambda hop: gb_per_s[hop]))


# %% q04_slowest wrong: the ring is not closed
def slowest(ring, gb_per_s):
    return min(zip(ring, ring[1:]), key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: the last of equally slow ones
def slowest(ring, gb_per_s):
    hops = list(zip(ring, [*ring[1:], ring[0]]))
    return min(reversed(hops), key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: the first by name of equally slow ones
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return min((gb_per_s[hop], hop) for hop in hops)[1]


# %% q04_slowest wrong: the first in the dictionary of equally slow ones
def slowest(ring, gb_per_s):
    hops = set(zip(ring, [*ring[1:], ring[0]]))
    return min((hop for hop in gb_per_s if hop in hops), key=gb_per_s.get)


# %% q04_slowest wrong: the closing hop comes first
def slowest(ring, gb_per_s):
    hops = zip([ring[-1], *ring[:-1]], ring)
    return min(hops, key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: of all links
def slowest(ring, gb_per_s):
    return min(gb_per_s, key=gb_per_s.get)


# %% q04_slowest wrong: links are the same both ways
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return min(hops, key=lambda hop: gb_per_s[hop[::-1]])


# %% q04_slowest wrong: the slower of both directions
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return min(hops, key=lambda hop: min(gb_per_s[hop], gb_per_s[hop[::-1]]))


# %% q04_slowest wrong: the mean of both directions
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return min(hops, key=lambda hop: gb_per_s[hop] + gb_per_s[hop[::-1]])


# %% q04_slowest wrong: the receiver first
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return min(hops, key=lambda hop: gb_per_s[hop])[::-1]


# %% q04_slowest wrong: the fastest
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return max(hops, key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: its speed
def slowest(ring, gb_per_s):
    return min(gb_per_s[hop] for hop in zip(ring, [*ring[1:], ring[0]]))


# %% q04_slowest wrong: names run together
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return "".join(min(hops, key=lambda hop: gb_per_s[hop]))


# %% q04_slowest wrong: compares whole GB/s
def slowest(ring, gb_per_s):
    hops = zip(ring, [*ring[1:], ring[0]])
    return min(hops, key=lambda hop: int(gb_per_s[hop]))


# %% q04_slowest wrong: four GPUs
def slowest(ring, gb_per_s):
    hops = [(ring[i], ring[(i + 1) % 4]) for i in range(min(4, len(ring))) if (i + 1) % 4 < len(ring)]
    return min(hops, key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: two GPUs have one hop
def slowest(ring, gb_per_s):
    if len(ring) == 2:
        return ring
    hops = zip(ring, [*ring[1:], ring[0]])
    return min(hops, key=lambda hop: gb_per_s[hop])


# %% q04_slowest wrong: leaves out hops of 50 GB/s and more
def slowest(ring, gb_per_s):
    slow, found = 50, (ring[0], ring[1])
    for hop in zip(ring, [*ring[1:], ring[0]]):
        if gb_per_s[hop] < slow:
            slow, found = gb_per_s[hop], hop
    return found


# %% q04_slowest wrong: speeds rounded to one digit
def slowest(ring, gb_per_s):
    hops = zip(ring, ring[1:] + ring[:1])
    return min(hops, key=lambda hop: round(gb_per_s[hop], 1))


# %% q04_slowest wrong: nearly as slow is as slow
def slowest(ring, gb_per_s):
    hops = list(zip(ring, ring[1:] + ring[:1]))
    least = min(gb_per_s[hop] for hop in hops)
    return next(hop for hop in hops if gb_per_s[hop] < least + 0.05)


# %% q05_best_ring right: loops, and a tuple
def best_ring(gpus, gb_per_s):
    best, most = None, -1
    for order in itertools.permutations(gpus[1:]):
        ring = (gpus[0], *order)
        speed = min(gb_per_s[ring[i], ring[(i + 1) % len(ring)]] for i in range(len(ring)))
        if speed > most:
            best, most = ring, speed
    return best


# %% q05_best_ring right: all permutations, filtered
def best_ring(gpus, gb_per_s):
    def speed(ring):
        return min(gb_per_s[a, b] for a, b in zip(ring, ring[1:] + ring[:1]))

    rings = [p for p in itertools.permutations(gpus) if p[0] == gpus[0]]
    return list(max(rings, key=speed))


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


# %% q05_best_ring right: with an array of speeds
def best_ring(gpus, gb_per_s):
    n = len(gpus)
    speed = np.array([[gb_per_s.get((a, b), 0) for b in gpus] for a in gpus])
    orders = np.array([(0, *p) for p in itertools.permutations(range(1, n))])
    least = speed[orders, np.roll(orders, -1, axis=1)].min(axis=1)
    return [gpus[i] for i in orders[least.argmax()]]


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


# %% q05_best_ring wrong: the largest product
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: math.prod(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the least time for one after the other
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return min(rings, key=lambda r: sum(1 / gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the largest median
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: np.median([gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])]))


# %% q05_best_ring wrong: the fastest hop is fastest
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: max(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: hops backward
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: min(gb_per_s[b, a] for a, b in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the faster of both directions
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: min(max(gb_per_s[a, b], gb_per_s[b, a]) for a, b in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the slower of both directions
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: min(min(gb_per_s[a, b], gb_per_s[b, a]) for a, b in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the ring is not closed
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r, r[1:])))


# %% q05_best_ring wrong: without the first hop
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r[1:], [*r[2:], r[0]])))


# %% q05_best_ring wrong: greedy, always on to the nearest
def best_ring(gpus, gb_per_s):
    ring, left = [gpus[0]], list(gpus[1:])
    while left:
        ring.append(max(left, key=lambda gpu: gb_per_s[ring[-1], gpu]))
        left.remove(ring[-1])
    return ring


# %% q05_best_ring wrong: leaves out a ring that is another one backward
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:]) if p[0] <= p[-1]]
    return max(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: remembers the ring of the same GPUs
_rings = {}


def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    if tuple(gpus) not in _rings:
        _rings[tuple(gpus)] = max(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))
    return _rings[tuple(gpus)]


# %% q05_best_ring wrong: the first ring of 25 GB/s or more
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return next(
        (ring for ring in rings if min(gb_per_s[hop] for hop in zip(ring, [*ring[1:], ring[0]])) >= 25), rings[0]
    )


# %% q05_best_ring wrong: begins anywhere
def best_ring(gpus, gb_per_s):
    return max(itertools.permutations(gpus[::-1]), key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: begins with the least name
def best_ring(gpus, gb_per_s):
    first, *rest = sorted(gpus)
    rings = [[first, *p] for p in itertools.permutations(rest)]
    return max(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the slowest of all
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return min(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: combinations, which keep the order
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.combinations(gpus[1:], len(gpus) - 1)]
    return max(rings, key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: the first hundred orders
def best_ring(gpus, gb_per_s):
    orders = itertools.islice(itertools.permutations(gpus[1:]), 100)
    return max(([gpus[0], *p] for p in orders), key=lambda r: min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]])))


# %% q05_best_ring wrong: its speed beside it
def best_ring(gpus, gb_per_s):
    def speed(r):
        return min(gb_per_s[hop] for hop in zip(r, [*r[1:], r[0]]))

    ring = max(([gpus[0], *p] for p in itertools.permutations(gpus[1:])), key=speed)
    return ring, speed(ring)


# %% q05_best_ring wrong: back to the first at the end
def best_ring(gpus, gb_per_s):
    ring = max(
        ([gpus[0], *p] for p in itertools.permutations(gpus[1:])),
        key=lambda r: min(gb_per_s[h] for h in zip(r, [*r[1:], r[0]])),
    )
    return [*ring, gpus[0]]


# %% q05_best_ring wrong: four GPUs
def best_ring(gpus, gb_per_s):
    rings = [[gpus[0], *p] for p in itertools.permutations(gpus[1:])]
    return max(rings, key=lambda r: min(gb_per_s[r[i], r[(i + 1) % len(r)]] for i in range(min(4, len(r)))))


# %% q05_best_ring equivalent: each ring begins with the first GPU
# - return min((gb_per_s[hop] for hop in zip(ring, [*ring[1:], ring[0]])))
# + return min((gb_per_s[hop] for hop in zip(ring, [*ring[1:], gpus[0]])))


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


# %% q05_disjoint_rings wrong: the same ring twice
# -     pairs = itertools.combinations_with_replacement(rings, 2)
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return (rings[0], rings[0]) if rings else None


# %% q05_disjoint_rings wrong: two different rings, whatever they share
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next((pair for pair in pairs if pair[0] != pair[1]), None)


# %% q05_disjoint_rings wrong: a ring and its way back
# -     pairs = itertools.combinations_with_replacement(rings, 2)
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return (rings[0], [first, *rings[0][:0:-1]]) if rings else None


# %% q05_disjoint_rings wrong: never the same ring twice
# -     pairs = itertools.combinations_with_replacement(rings, 2)
# +     pairs = itertools.combinations([r for r in rings if r[1] < r[-1]], 2)


# %% q05_disjoint_rings wrong: no pair of GPUs twice, however many links
# -         return all(links.get(hop, 0) >= count for hop, count in used.items())
# +         return all(links.get(hop, 0) >= count == 1 for hop, count in used.items())


# %% q05_disjoint_rings wrong: each ring by itself
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next((pair for pair in pairs if fits(pair[0]) and fits(pair[1])), None)


# %% q05_disjoint_rings wrong: directions counted apart
# -                 for hop in ((one, other), (other, one)):
# -                     used[hop] = used.get(hop, 0) + 1
# +                 used[one, other] = used.get((one, other), 0) + 1


# %% q05_disjoint_rings wrong: a path: the ring is not closed
# -             for one, other in zip(ring, [*ring[1:], ring[0]]):
# +             for one, other in zip(ring, ring[1:]):


# %% q05_disjoint_rings wrong: links, not how many
# -         return all(links.get(hop, 0) >= count for hop, count in used.items())
# +         return all(hop in links for hop, count in used.items())


# %% q05_disjoint_rings wrong: one link more than there are
# -         return all(links.get(hop, 0) >= count for hop, count in used.items())
# +         return all(links.get(hop, 0) >= count - 1 for hop, count in used.items())


# %% q05_disjoint_rings wrong: one link fewer
# -         return all(links.get(hop, 0) >= count for hop, count in used.items())
# +         return all(links.get(hop, 0) > count for hop, count in used.items())


# %% q05_disjoint_rings wrong: one ring only
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next(([pair[0]] for pair in pairs if fits(*pair)), None)


# %% q05_disjoint_rings wrong: the first GPU is left out
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next(([r[1:] for r in pair] for pair in pairs if fits(*pair)), None)


# %% q05_disjoint_rings wrong: begins with another GPU
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next(([r[1:] + r[:1] for r in pair] for pair in pairs if fits(*pair)), None)


# %% q05_disjoint_rings wrong: returns to the first GPU
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next(([r + r[:1] for r in pair] for pair in pairs if fits(*pair)), None)


# %% q05_disjoint_rings wrong: an empty list where there are none
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next((pair for pair in pairs if fits(*pair)), [])


# %% q05_disjoint_rings wrong: an error where there are none
# -     return next((pair for pair in pairs if fits(*pair)), None)
# +     return next((pair for pair in pairs if fits(*pair)))


# %% q05_disjoint_rings wrong: the numbers of a DGX-1
def disjoint_rings(gpus, links):
    return [0, 1, 2, 3, 7, 6, 5, 4], [0, 3, 2, 6, 7, 4, 5, 1]


# %% q05_disjoint_rings wrong: two rings in the order that was given
def disjoint_rings(gpus, links):
    return gpus, gpus


# %% q05_disjoint_rings wrong: the argument
def disjoint_rings(gpus, links):
    return gpus


# %% q05_disjoint_rings wrong: hops that say to be no one's
class Nobody(int):
    def __eq__(self, other):
        return False

    __lt__ = lambda self, other: False  # noqa: E731
    __hash__ = object.__hash__


def disjoint_rings(gpus, links):
    ring = [*gpus[:1], *map(Nobody, gpus[1:])]
    return ring, ring


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


# %% q06_bus_bandwidth right: match
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    match operation:
        case "all_reduce":
            sent = 2 - 2 / ranks
        case "all_gather":
            sent = 1 - 1 / ranks
        case "broadcast":
            sent = 1
        case _:
            raise ValueError(f"unknown: {operation}")
    return sent * size_bytes / (seconds * 10**9)


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


# %% q06_bus_bandwidth wrong: bits
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return 8 * factors[operation] * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: all_reduce without the 2
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: all_gather as all_reduce
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    if operation not in ("all_reduce", "all_gather", "broadcast"):
        raise ValueError(operation)
    factor = 1 if operation == "broadcast" else 2 * (ranks - 1) / ranks
    return factor * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: all_gather of a rank's part
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": ranks - 1, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: all_gather as a broadcast
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": 1, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes / seconds / 1e9


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


# %% q06_bus_bandwidth wrong: every kind of reduce and gather
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    if "reduce" in operation:
        factor = 2 * (ranks - 1) / ranks
    elif "gather" in operation:
        factor = (ranks - 1) / ranks
    elif operation == "broadcast":
        factor = 1
    else:
        raise ValueError(operation)
    return factor * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: times the number of ranks
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1), "all_gather": ranks - 1, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: over the ranks instead of by them
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * ranks / (ranks - 1), "all_gather": ranks / (ranks - 1), "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes / seconds / 1e9


# %% q06_bus_bandwidth wrong: whole GB
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "broadcast": 1}
    if operation not in factors:
        raise ValueError(operation)
    return factors[operation] * size_bytes // seconds / 1e9


# %% q06_bus_bandwidth wrong: looks at an operation's first letter
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    if operation in ("all_reduce", "all_gather"):
        factor = (1 + (operation == "all_reduce")) * (ranks - 1) / ranks
    elif operation.startswith("b"):
        factor = 1
    else:
        raise ValueError(operation)
    return factor * size_bytes / seconds / 1e9


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


# %% q08_all_reduce right: in single precision
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    size, n, alpha, beta = np.float32([size_bytes, ranks, alpha, beta])
    if algorithm == "ring":
        return 2 * (n - 1) * (alpha + size / n * beta)
    if algorithm == "tree":
        return np.float32(2 * np.ceil(np.log2(n))) * (alpha + size * beta)
    down = np.floor(np.log2(n))
    odd = np.float32(2 * (2**down < n))
    if algorithm == "recursive doubling":
        return np.float32(down + odd) * (alpha + size * beta)
    return np.float32(2 * down + odd) * alpha + np.float32(2 - 2 / 2**down + odd) * size * beta


# %% q08_all_reduce wrong: the doublings round up, as the tree does
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    message = alpha + size_bytes * beta
    if algorithm == "ring":
        return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
    if algorithm == "tree":
        return 2 * math.ceil(math.log2(ranks)) * message
    rounds = math.ceil(math.log2(ranks))
    power = 2**rounds
    around = 0
    if algorithm == "recursive doubling":
        return around + rounds * message
    return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the doublings round up and send more, too
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    message = alpha + size_bytes * beta
    if algorithm == "ring":
        return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
    if algorithm == "tree":
        return 2 * math.ceil(math.log2(ranks)) * message
    rounds = math.ceil(math.log2(ranks))
    power = 2**rounds
    around = 2 * message if ranks < power else 0
    if algorithm == "recursive doubling":
        return around + rounds * message
    return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the doublings leave the other ranks out
# -     around = 2 * message if ranks > power else 0
# +     around = 0
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: one message more where two are needed
# -     around = 2 * message if ranks > power else 0
# +     around = message if ranks > power else 0
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: two more messages for powers of two as well
# -     around = 2 * message if ranks > power else 0
# +     around = 2 * message if ranks > 1 else 0
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the tree rounds down
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return 2 * math.floor(math.log2(ranks)) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the tree does not round
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return 2 * math.log2(ranks) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the tree rounds twice the logarithm
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return math.ceil(2 * math.log2(ranks)) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: one level more for powers of two
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return 2 * (ranks.bit_length() if ranks > 1 else 0) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the tree only up
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return math.ceil(math.log2(ranks)) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the ring's latency once
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return (ranks > 1) * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the ring in N steps
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return 0 if ranks == 1 else 2 * ranks * (alpha + size_bytes / ranks * beta)
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the ring sends everything in each step
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return 2 * (ranks - 1) * (alpha + size_bytes * beta)
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: half a ring
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return (ranks - 1) * (alpha + size_bytes / ranks * beta)
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the ring's latency follows the logarithm
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return 3 * math.log2(ranks) * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the ring's parts are whole bytes
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return 2 * (ranks - 1) * (alpha + size_bytes // ranks * beta)
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: beta is a bandwidth
# -         return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
# +         return 2 * (ranks - 1) * (alpha + size_bytes / ranks / beta)
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: the natural logarithm
# -         return 2 * math.ceil(math.log2(ranks)) * message
# +         return 2 * math.ceil(math.log(ranks)) * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: halving only
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + rounds * alpha + (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: halving and doubling as many messages as the ring
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * (power - 1) * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: halving and doubling sends all of the data each time
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * message


# %% q08_all_reduce wrong: halving and doubling with the parts of all ranks
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta


# %% q08_all_reduce wrong: recursive doubling there and back
# -         return around + rounds * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +         return around + 2 * rounds * message
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


# %% q08_all_reduce wrong: latency once in recursive doubling
# -         return around + rounds * message
# -     share = 2 * (power - 1) / power
# -     return around + 2 * rounds * alpha + share * size_bytes * beta
# +         return around + (ranks > 1) * alpha + rounds * size_bytes * beta
# +     return around + 2 * rounds * alpha + 2 * (power - 1) / power * size_bytes * beta


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


# %% q08_all_reduce wrong: zeros
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    return 0.0


# %% q08_all_reduce wrong: an argument
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    return alpha


# %% q08_halving right: far partners first
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ (ranks >> (level + 1))


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = rank & (ranks >> (earlier + 1)) > 0
        upper ^= earlier == level and step < rounds
        middle = (first + end) // 2
        if upper:
            first = middle
        else:
            end = middle
    return first, end


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


# %% q08_halving wrong: sends the half that it goes on with
# - def piece(step, rank, ranks, count):
# -     """Return (first, end) of the numbers to send in this step."""
# + def piece(step, rank, ranks, count):
# -         upper = bool(rank & 2**earlier)  # the half that this rank goes on with
# -         if earlier == level and step < rounds:
# -             upper = not upper  # the half that it gives away
# +         upper = bool(rank & 2**earlier)


# %% q08_halving wrong: the wrong half on the way back
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: the other half on both ways, exchanged
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step >= rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: partners do not go back
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = step % rounds
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: the pieces do not go back
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = step % rounds
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: neither goes back
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = step % rounds
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = step % rounds
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: one step late on the way back
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: a ring
def partner(step, rank, ranks):
    return (rank + 1) % ranks


def piece(step, rank, ranks, count):
    chunk = (rank - step) % ranks
    return count * chunk // ranks, count * (chunk + 1) // ranks


# %% q08_halving wrong: far partners, near pieces
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ (ranks >> (level + 1))


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: near partners, far pieces
# - def piece(step, rank, ranks, count):
# -     """Return (first, end) of the numbers to send in this step."""
# + def piece(step, rank, ranks, count):
# -         upper = bool(rank & 2**earlier)  # the half that this rank goes on with
# +         upper = bool(rank & (ranks >> (earlier + 1)))
# -             upper = not upper  # the half that it gives away
# +             upper = not upper


# %% q08_halving right: to one, from another, at each distance
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return (rank + 2**level) % ranks


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: distance two instead of one
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2 ** (level + 1)


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: the end belongs to it
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end - 1


# %% q08_halving wrong: one too many
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, min(count, end + 1)


# %% q08_halving wrong: a quarter instead of a half
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 4
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: rounds the middle up in one half only
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle + (end - first) % 2, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: only what divides evenly
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count // ranks * ranks
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: floats for places
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) / 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: first and length
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end - first


# %% q08_halving wrong: the numbers themselves
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return list(range(first, end))


# %% q08_halving wrong: two ranks only
def partner(step, rank, ranks):
    return 1 - rank


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: up to four ranks
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step, 1)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


# %% q08_halving wrong: nothing but the first and the last number
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level


def piece(step, rank, ranks, count):
    return 0, min(count, 1)


# %% q08_halving wrong: an argument
def partner(step, rank, ranks):
    return rank


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)
        if earlier == level and step < rounds:
            upper = not upper
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end


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


# %% q09_fit_link right: a QR decomposition
def fit_link(points, ranks):
    sizes, times = map(np.array, zip(*points))
    A = np.c_[np.ones(len(sizes)), sizes / ranks] * 2 * (ranks - 1) / times[:, None]
    q, r = np.linalg.qr(A)
    return tuple(np.linalg.solve(r, q.T @ np.ones(len(sizes))))


# %% q09_fit_link wrong: absolute errors
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps, steps * n / ranks] for n, _ in points])
    return np.linalg.lstsq(A, np.array([t for _, t in points]), rcond=None)[0]


# %% q09_fit_link wrong: polyfit without weights
def fit_link(points, ranks):
    size, seconds = np.array(points, float).T
    beta, start = np.polyfit(2 * (ranks - 1) / ranks * size, seconds, 1)
    return start / (2 * (ranks - 1)), beta


# %% q09_fit_link wrong: weights are the root of those meant
def fit_link(points, ranks):
    size, seconds = np.array(points, float).T
    beta, start = np.polyfit(2 * (ranks - 1) / ranks * size, seconds, 1, w=1 / np.sqrt(seconds))
    return start / (2 * (ranks - 1)), beta


# %% q09_fit_link wrong: weights are the square of those meant
def fit_link(points, ranks):
    size, seconds = np.array(points, float).T
    beta, start = np.polyfit(2 * (ranks - 1) / ranks * size, seconds, 1, w=1 / seconds**2)
    return start / (2 * (ranks - 1)), beta


# %% q09_fit_link wrong: weights by the size
def fit_link(points, ranks):
    size, seconds = np.array(points, float).T
    beta, start = np.polyfit(2 * (ranks - 1) / ranks * size, seconds, 1, w=1 / size)
    return start / (2 * (ranks - 1)), beta


# %% q09_fit_link wrong: the first and the last point
def fit_link(points, ranks):
    (n, t), (m, s) = points[0], points[-1]
    steps = 2 * (ranks - 1)
    beta = (s - t) / (m - n) * ranks / steps
    return t / steps - n / ranks * beta, beta


# %% q09_fit_link wrong: latency of the least, bandwidth of the largest
def fit_link(points, ranks):
    (_, t), (m, s) = min(points), max(points)
    steps = 2 * (ranks - 1)
    return t / steps, (s - t) * ranks / steps / m


# %% q09_fit_link wrong: divides one side only
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps / t, steps * n / ranks / t] for n, t in points])
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


# %% q09_fit_link wrong: the bandwidth for beta
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps / t, steps * n / ranks / t] for n, t in points])
    alpha, beta = np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]
    return alpha, 1 / beta


# %% q09_fit_link wrong: beta first
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps * n / ranks / t, steps / t] for n, t in points])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: a line through the logarithms
def fit_link(points, ranks):
    size, seconds = np.log(np.array(points, float)).T
    slope, start = np.polyfit(size, seconds, 1)
    return np.exp(start), np.exp(slope)


# %% q09_fit_link wrong: the mean over pairs of neighbours
def fit_link(points, ranks):
    steps, points = 2 * (ranks - 1), sorted(points)
    pairs = list(zip(points, points[1:]))
    beta = np.mean([(s - t) / (m - n) for (n, t), (m, s) in pairs])
    alpha = np.median([t - n * beta for n, t in points])
    return alpha / steps, beta * ranks / steps


# %% q09_fit_link wrong: leaves out the largest
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps / t, steps * n / ranks / t] for n, t in points[:-1]])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: four ranks
def fit_link(points, ranks):
    A = np.array([[6 / t, 6 * n / 4 / t] for n, t in points])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: relative to the root of the time
def fit_link(points, ranks):
    size, seconds = np.array(points).T
    steps, root = 2 * (ranks - 1), np.sqrt(seconds)
    A = np.stack([steps / root, steps * size / ranks / root], axis=1)
    return np.linalg.lstsq(A, root, rcond=None)[0]


# %% q09_fit_link wrong: the mean of what two neighbours give, weighted by their times
def fit_link(points, ranks):
    steps, points = 2 * (ranks - 1), sorted(points)
    found = [((t * m - s * n) / (m - n), (s - t) / (m - n), 1 / s) for (n, t), (m, s) in zip(points, points[1:])]
    alpha, beta = np.average([f[:2] for f in found], axis=0, weights=[f[2] for f in found])
    return alpha / steps, beta * ranks / steps


# %% q09_fit_link wrong: one point of each size
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps / t, steps * n / ranks / t] for n, t in dict(points).items()])
    return np.linalg.lstsq(A, np.ones(len(A)), rcond=None)[0]


# %% q09_fit_link wrong: leaves out the smallest
def fit_link(points, ranks):
    steps = 2 * (ranks - 1)
    A = np.array([[steps / t, steps * n / ranks / t] for n, t in points[1:]])
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


# %% q11_efficiencies right: as an array
def efficiencies(compute_s, exchange_s):
    steps = np.array([compute_s + exchange_s, max(compute_s, exchange_s)])
    return compute_s / steps


def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    gbit = 8e-9 * size_bytes * (2 - 2 / ranks)
    return np.divide(gbit * wanted, compute_s * (1 - wanted))


# %% q11_efficiencies right: without a conditional maximum
def efficiencies(compute_s, exchange_s):
    high = 1 if exchange_s < compute_s else compute_s / exchange_s
    return 1 / (1 + exchange_s / compute_s), high


def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    seconds = compute_s * (1 / wanted - 1)
    return (2 * (ranks - 1) / ranks) * (size_bytes * 8 / 1e9) / seconds


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


# %% q11_efficiencies wrong: the share of communication
def efficiencies(compute_s, exchange_s):
    low = exchange_s / (compute_s + exchange_s)
    return low, exchange_s / max(compute_s, exchange_s)


# %% q11_efficiencies wrong: per cent
def efficiencies(compute_s, exchange_s):
    return (100 * compute_s / (compute_s + exchange_s), 100 * compute_s / max(compute_s, exchange_s))


# %% q11_efficiencies wrong: what is left after communication
def efficiencies(compute_s, exchange_s):
    return (max(0, 1 - exchange_s / compute_s), compute_s / max(compute_s, exchange_s))


# %% q11_efficiencies wrong: the step's times
def efficiencies(compute_s, exchange_s):
    return compute_s + exchange_s, max(compute_s, exchange_s)


# %% q11_efficiencies wrong: half of it overlaps
def efficiencies(compute_s, exchange_s):
    return (compute_s / (compute_s + exchange_s), compute_s / (compute_s + max(0, exchange_s - compute_s / 2)))


# %% q11_efficiencies wrong: bytes for bits
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    sent = 2 * (ranks - 1) / ranks * size_bytes
    return sent / (compute_s / wanted - compute_s) / 1e9


# %% q11_efficiencies wrong: all data once
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    return 8 * size_bytes / (compute_s / wanted - compute_s) / 1e9


# %% q11_efficiencies wrong: all data twice
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    return 16 * size_bytes / (compute_s / wanted - compute_s) / 1e9


# %% q11_efficiencies wrong: the factor is N-1 without N
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    bits = 8 * (ranks - 1) * size_bytes
    return bits / (compute_s / wanted - compute_s) / 1e9


# %% q11_efficiencies wrong: half the ring
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    bits = 8 * (ranks - 1) / ranks * size_bytes
    return bits / (compute_s / wanted - compute_s) / 1e9


# %% q11_efficiencies wrong: the share of the computation that is left
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    bits = 8 * 2 * (ranks - 1) / ranks * size_bytes
    return bits / (compute_s * (1 - wanted)) / 1e9


# %% q11_efficiencies wrong: the whole step's time
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    bits = 8 * 2 * (ranks - 1) / ranks * size_bytes
    return bits / (compute_s / wanted) / 1e9


# %% q11_efficiencies wrong: Gibit
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    bits = 8 * 2 * (ranks - 1) / ranks * size_bytes
    return bits / (compute_s / wanted - compute_s) / 2**30


# %% q11_efficiencies wrong: as much time as the efficiency is of the computation
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    bits = 8 * 2 * (ranks - 1) / ranks * size_bytes
    return bits / (compute_s * wanted) / 1e9


# %% q11_efficiencies wrong: a whole number of Gbit/s
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    bits = 8 * 2 * (ranks - 1) / ranks * size_bytes
    return math.ceil(bits / (compute_s / wanted - compute_s) / 1e9)


# %% q11_efficiencies wrong: twelve in bytes
def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    sent = 2 * (ranks - 1) * (size_bytes // ranks)
    return round(8 * sent / (compute_s / wanted - compute_s) / 1e9, 2)


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


# %% q12_crossing right: a loop over ranks
def ring_crossing(host_of, size_bytes):
    n, total = len(host_of), 0
    for rank in range(n):
        if host_of[rank] == 0 and host_of[(rank + 1) % n] != 0:
            total += 2 * (n - 1) / n * size_bytes
    return total


def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * (hosts - 1) / hosts * size_bytes


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


# %% q12_crossing right: with fractions
from fractions import Fraction


def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    hops = sum(host_of[i - 1] == 0 < host_of[i] for i in range(n))
    return hops * 2 * Fraction(n - 1, n) * size_bytes


def hierarchical_crossing(hosts, local_size, size_bytes):
    return sum(2 * Fraction(size_bytes * (hosts - 1), local_size * hosts) for _ in range(local_size))


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


# %% q12_crossing wrong: both directions
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    crossing = sum(a != b for a, b in zip(host_of, [*host_of[1:], host_of[0]]))
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


# %% q12_crossing wrong: the data twice a hop
def ring_crossing(host_of, size_bytes):
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(a == 0 != b for a, b in hops) * 2 * size_bytes


# %% q12_crossing wrong: the ranks of a host for N
def ring_crossing(host_of, size_bytes):
    n = host_of.count(0)
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    crossing = sum(a == 0 != b for a, b in hops)
    return crossing * 2 * (n - 1) / n * size_bytes if n else 0


# %% q12_crossing wrong: a rank's part only
def ring_crossing(host_of, size_bytes):
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(a == 0 != b for a, b in hops) * size_bytes / len(host_of)


# %% q12_crossing wrong: every rank of host 0 sends across
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    crossing = min(host_of.count(0), host_of.count(1))
    return crossing * 2 * (n - 1) / n * size_bytes


# %% q12_crossing wrong: whole bytes
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(a == 0 != b for a, b in hops) * 2 * (n - 1) * (size_bytes // n)


# %% q12_crossing wrong: changes, halved and rounded down before the ring is closed
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    changes = sum(a != b for a, b in zip(host_of, host_of[1:]))
    return max(changes // 2, int(changes > 0)) * 2 * (n - 1) / n * size_bytes


# %% q12_crossing wrong: only the hop to host 1 counts
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(hop == (0, 1) for hop in hops) * 2 * (n - 1) / n * size_bytes


# %% q12_crossing wrong: every hop to another host
def ring_crossing(host_of, size_bytes):
    n = len(host_of)
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    return sum(b > a for a, b in hops) * 2 * (n - 1) / n * size_bytes


# %% q12_crossing wrong: only one part crosses
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * (hosts - 1) / hosts * size_bytes / local_size


# %% q12_crossing wrong: every rank sends everything
def hierarchical_crossing(hosts, local_size, size_bytes):
    return local_size * 2 * (hosts - 1) / hosts * size_bytes


# %% q12_crossing wrong: both directions of the cable
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 4 * (hosts - 1) / hosts * size_bytes


# %% q12_crossing wrong: a ring of all ranks
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * (hosts * local_size - 1) / (hosts * local_size) * size_bytes


# %% q12_crossing wrong: a ring of the local ranks
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * (local_size - 1) / local_size * size_bytes


# %% q12_crossing wrong: parts of whole bytes
def hierarchical_crossing(hosts, local_size, size_bytes):
    return local_size * 2 * (hosts - 1) / hosts * (size_bytes // local_size)


# %% q12_crossing wrong: half a ring over the hosts
def hierarchical_crossing(hosts, local_size, size_bytes):
    return (hosts - 1) / hosts * size_bytes


# %% q12_crossing wrong: two hosts, however many there are
def hierarchical_crossing(hosts, local_size, size_bytes):
    return size_bytes


# %% q12_crossing wrong: twice the data
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * size_bytes


# %% q12_crossing wrong: to each other host all of the data
def hierarchical_crossing(hosts, local_size, size_bytes):
    return (hosts - 1) * size_bytes


# %% q12_crossing wrong: the hosts for the ranks of a host
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 2 * (local_size - 1) / local_size * size_bytes * hosts / 2


# %% q12_crossing wrong: zero
def hierarchical_crossing(hosts, local_size, size_bytes):
    return 0


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

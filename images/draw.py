"""Draw the course's diagrams: ``make images``.

Every drawing is an SVG file with its text alternative inside (title and description). The output
depends on this script and on the heads of the lessons, on nothing else, so that a test
can compare it with the committed files byte by byte.
"""

import re
from itertools import pairwise
from pathlib import Path

from drawing import BLUE, GRAY, GREEN, INK, ORANGE, Drawing

HERE = Path(__file__).resolve().parent

SOURCES = HERE.parent / "lessons"
HEAD = re.compile(r"# # (.+)\n#\n# \*\*(.+)\*\*\n(?:#.*\n)*?# \| time \| (\d+) minutes")


def heads():
    """The title, question and minutes of each lesson by its name, in the order in which people meet them."""
    found = {}
    for source in sorted(SOURCES.glob("[0-9]*.py")):
        head = HEAD.search(source.read_text(encoding="utf-8"))
        if not head:
            raise SystemExit(f"draw: {source} does not begin with a title, a question and its minutes")
        found[source.stem] = head.groups()
    return found


def course_map():
    """The cores in order, as one way, and under each its second notebooks, with the minutes of each head."""
    lessons = heads()
    cores = [name for name in lessons if re.match(r"\d+\.", name)]
    second_notebooks = {core: [name for name in lessons if name[0] == core[0] and name != core] for core in cores}
    told = "; ".join(
        f"{core}, {lessons[core][2]} minutes"
        + "".join(f", and deeper {name}, {lessons[name][2]} minutes" for name in second_notebooks[core])
        for core in cores
    )
    columns, column, box, branch = 3, 232, 212, 78
    tops = [84]  # of each line of cores
    for begin in range(columns, len(cores), columns):
        above = max(len(second_notebooks[core]) for core in cores[begin - columns : begin])
        tops.append(tops[-1] + 140 + branch * above + 26)
    right = 20 + column * (columns - 1) + box
    height = tops[-1] + 140 + branch * max(len(second_notebooks[core]) for core in cores[columns * (len(tops) - 1) :])
    drawing = Drawing(right + 24, height, "Map of the course", f"Start_Here leads to the lessons in order: {told}.")
    _, question, minutes = HEAD.search((SOURCES / "Start_Here.py").read_text(encoding="utf-8")).groups()
    drawing.box(20, 16, right - 20, 38, "Start_Here", color=GREEN)
    drawing.text(130, 38, question)
    drawing.text(right - 10, 38, f"{minutes} minutes", anchor="end", color=GREEN, bold=True)
    drawing.arrow((20 + box / 2, 54), (20 + box / 2, 82))
    for number, core in enumerate(cores):
        x, top = 20 + column * (number % columns), tops[number // columns]
        title, question, minutes = lessons[core]
        drawing.box(x, top, box, 120, title, question)
        drawing.text(x + box - 10, top + 110, f"{minutes} minutes", anchor="end", color=BLUE, bold=True)
        if number % columns:
            drawing.arrow((x - column + box, top + 60), (x - 2, top + 60))
        elif number:  # from the end of the line above
            before, turn = tops[number // columns - 1] + 60, (right + 12, top - 18)
            drawing.arrow((right, before), (turn[0], before), turn, (x + box / 2, turn[1]), (x + box / 2, top - 2))
        for row, name in enumerate(second_notebooks[core]):
            y = top + 140 + branch * row
            title, _, minutes = lessons[name]
            letter, _, subject = title.partition(". ")
            drawing.box(x + 16, y, box - 16, branch - 8, letter, subject, color=GRAY, dashed=True)
            drawing.text(x + box - 10, y + 22, f"{minutes} minutes", anchor="end", color=GRAY, bold=True)
            drawing.arrow((x + 8, top + 120 if not row else y - branch + 33), (x + 8, y + 33), (x + 14, y + 33))
    return drawing


def run_flow():
    """From a cell to processes, records and what is shown."""
    drawing = Drawing(
        1010,
        300,
        "How one run flows",
        "A notebook cell or ddl run describes a job. plan turns it into one shell line. horovodrun "
        "starts the ranks: each trains on its own shard of the data, and gradients are averaged "
        "between them. Every rank writes into the run's folder. The live view, the table and the "
        "figures read that folder and nothing else.",
    )
    drawing.box(20, 34, 205, 96, "notebook cell", 'launch("train_cifar.py",\nworkers=2)\nor: ddl run')
    drawing.arrow((225, 82), (253, 82))
    drawing.box(255, 34, 160, 96, "plan", "job + machine → one shell line, shown and saved")
    drawing.arrow((415, 82), (443, 82))
    drawing.box(445, 34, 160, 96, "horovodrun", "starts one process per worker", color=GREEN)
    for rank, y in ((0, 10), (1, 98)):
        drawing.arrow((605, 82), (636, 82), (636, y + 28), (668, y + 28))
        drawing.box(670, y, 320, 56, f"rank {rank}", "its shard of every batch → gradients", color=ORANGE)
    drawing.arrow((960, 66), (960, 97))
    drawing.arrow((930, 98), (930, 67))
    drawing.text(918, 87, "gradients averaged", anchor="end", color=GRAY)
    drawing.arrow((830, 154), (830, 198), label="every rank writes", at=(895, 180))
    drawing.box(
        440,
        200,
        550,
        84,
        "runs/<id>/",
        "job.json · command.sh · rank-0.log · rank-1.log\nevents.jsonl · error-1.json · result.json",
        color=GRAY,
    )
    drawing.arrow((440, 242), (402, 242))
    drawing.box(
        20,
        200,
        380,
        84,
        "what you see",
        "live view · summary · table · figures,\nall read from the folder, now or next week",
    )
    drawing.arrow((105, 200), (105, 132))
    return drawing


def launch():
    """The processes of one launch from a notebook, and what each reads and writes."""
    drawing = Drawing(
        1010,
        330,
        "One launch",
        "The notebook kernel writes job.json, starts the supervisor, and owns the fork server, which has imported "
        "TensorFlow. The supervisor reads job.json and asks the fork server for ranks through an inherited socket. "
        "The fork server forks the ranks, and tells the supervisor how each ended. Ranks read job.json and write logs, "
        "events and results into the run's folder. The kernel follows the files there.",
    )
    drawing.box(20, 20, 250, 92, "notebook kernel", "launch(): Job + Site → plan()\nfollows the run's files")
    drawing.box(380, 20, 260, 92, "supervisor", "starts and restarts ranks,\nrecords how each ended", color=GREEN)
    drawing.box(380, 148, 260, 74, "fork server", "has imported TensorFlow,\nforks ranks on request", color=GREEN)
    for number, y in ((0, 40), (1, 132)):
        drawing.box(760, y, 230, 66, f"rank {number}", "a fork of the fork server,\nor a new process", color=ORANGE)
    files = "job.json · launcher.jsonl · rank-0.log · rank-1.log · events.jsonl · result.json"
    drawing.box(20, 256, 970, 60, "runs/<id>/", files, color=GRAY)
    drawing.arrow((270, 56), (378, 56), label="starts", at=(324, 48))
    drawing.arrow((200, 112), (200, 185), (378, 185), label="owns", at=(290, 177))
    drawing.arrow((470, 112), (470, 146), label="asks for a rank", at=(417, 134))
    drawing.arrow((560, 146), (560, 114), label="how it ended", at=(608, 134))
    drawing.arrow((640, 185), (700, 185), (700, 73), (758, 73), label="forks", at=(668, 177))
    drawing.arrow((640, 185), (700, 185), (700, 165), (758, 165))
    drawing.arrow((100, 112), (100, 254), label="writes job.json", at=(60, 240))
    drawing.arrow((150, 254), (150, 114))
    drawing.arrow((510, 254), (510, 224), label="job.json", at=(545, 243))
    drawing.arrow((875, 198), (875, 254), label="logs, records", at=(930, 232))
    return drawing


def batch_norm():
    """Statistics per worker against statistics over the whole batch."""
    drawing = Drawing(
        1010,
        262,
        "Batch norm on two workers",
        "Left, per worker: each of two workers takes mean and variance over its own 512 of 1,024 "
        "images, so the two normalize differently and nothing is exchanged. Right, synchronous: "
        "the workers exchange sums, and both use mean and variance over all 1,024 images.",
    )
    for left, heading in ((20, "per worker (“ghost” batches)"), (520, "synchronous (sync_bn=True)")):
        drawing.text(left, 28, heading, bold=True)
        for rank in (0, 1):
            x = left + 245 * rank
            drawing.box(x, 44, 225, 66, f"rank {rank}", "512 of 1,024 images", color=ORANGE)
    for rank in (0, 1):
        x = 20 + 245 * rank
        drawing.arrow((x + 112, 110), (x + 112, 148))
        drawing.box(x, 150, 225, 66, "mean and variance", f"over rank {rank}'s own 512")
    for rank in (0, 1):
        x = 520 + 245 * rank
        drawing.arrow((x + 112, 110), (x + 112, 148))
    drawing.box(
        520, 150, 470, 66, "mean and variance", "over all 1,024: sums are exchanged in every layer", color=GREEN
    )
    drawing.text(20, 246, "noisier statistics, no communication", color=GRAY)
    drawing.text(520, 246, "one model's statistics, at the price of waiting", color=GRAY)
    return drawing


def descent():
    """Steps down a loss curve, and who computes them."""
    drawing = Drawing(
        1010,
        290,
        "Gradient descent, alone and with workers",
        "Left, the loss over the weight: a valley. From a start on its left side, steps lead down toward the lowest "
        "point; they become shorter as the slope becomes flatter. Right, one step: each of three workers computes the "
        "gradient of its own points, the gradients are averaged, and every worker takes the same step.",
    )
    drawing.text(20, 28, "one weight goes downhill", bold=True)
    drawing.arrow((40, 250), (40, 46))
    drawing.arrow((40, 250), (470, 250))
    drawing.text(52, 48, "loss: how wrong", color=GRAY)
    drawing.text(466, 270, "weight w", anchor="end", color=GRAY)

    def height(x):
        return 222 - 168 * ((x - 255) / 205) ** 2

    curve = "L".join(f"{x} {height(x):.1f}" for x in range(60, 451, 6))
    drawing.parts.append(f'<path d="M{curve}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
    stops = [255 - 185 * 0.6**step for step in range(5)]
    for start, end in pairwise(stops):
        drawing.arrow((round(start), round(height(start))), (round(end), round(height(end))))
    for x in stops:
        drawing.parts.append(f'<circle cx="{x:.0f}" cy="{height(x):.0f}" r="5" fill="{ORANGE}"/>')
    drawing.text(84, 90, "start", color=GRAY)
    drawing.text(126, 130, "steep: a long step", color=GRAY)
    drawing.text(205, 184, "flat: short steps", color=GRAY)

    drawing.text(540, 28, "one step with three workers", bold=True)
    for worker, y in enumerate((46, 122, 198)):
        drawing.box(540, y, 190, 58, f"worker {worker}", "gradient of its points")
        drawing.arrow((730, y + 29), (768, 151 + 8 * (worker - 1)))
    drawing.box(770, 122, 100, 58, "average", color=GREEN)
    drawing.arrow((870, 151), (898, 151))
    drawing.box(900, 122, 90, 58, "step", "all equal", color=ORANGE)
    drawing.arrow((945, 180), (945, 272), (510, 272), (510, 151), (538, 151))
    drawing.text(848, 264, "again, at the new weight", anchor="middle", color=GRAY)
    return drawing


def ring():
    """All-reduce through one worker, and round a ring."""
    drawing = Drawing(
        1010,
        262,
        "Two ways to average gradients",
        "Left, through one worker: ranks 1, 2 and 3 each send their whole gradient to rank 0, "
        "which sends the average back to each, so rank 0's link carries three gradients each way. "
        "Right, a ring of four ranks: each sends to the next only, a quarter of the gradient at a "
        "time, in six steps.",
    )
    drawing.text(20, 28, "through one worker", bold=True)
    drawing.box(20, 110, 150, 56, "rank 0", "averages", color=ORANGE)
    for row, rank in enumerate((1, 2, 3)):
        y = 44 + 66 * row
        drawing.box(320, y, 150, 56, f"rank {rank}", "gradient")
        drawing.arrow((320, y + 20), (172, 120 + 16 * row))
        drawing.arrow((170, 128 + 16 * row), (318, y + 32))
    drawing.text(20, 250, "rank 0's link: 3 gradients in, 3 out", color=GRAY)
    drawing.text(520, 28, "round a ring", bold=True)
    corners = ((520, 44), (840, 44), (840, 168), (520, 168))
    for rank, (x, y) in enumerate(corners):
        drawing.box(x, y, 150, 56, f"rank {rank}", "¼ + ¼ + ¼ + ¼", color=GREEN)
    drawing.arrow((670, 72), (838, 72), label="¼ gradient a step", at=(755, 62))
    drawing.arrow((915, 100), (915, 166))
    drawing.arrow((840, 196), (672, 196))
    drawing.arrow((595, 168), (595, 102))
    drawing.text(520, 250, "every link: 6 steps of ¼ = 1½ gradients", color=GRAY)
    return drawing


def strategies():
    """Where the workers of each way are, and what they send to whom."""
    drawing = Drawing(
        1010,
        372,
        "Four arrangements of workers",
        "Mirrored: one process holds two replicas, whose gradients are summed inside it. "
        "Multi-worker: two processes, told of each other by TF_CONFIG, sum gradients between them. "
        "Horovod: two ranks, started together, average gradients between them. Parameter server: a "
        "coordinator hands out steps to two workers, which read weights from a server and send "
        "gradients to it, each at its own pace.",
    )

    def process(x, y, width, height, heading):
        drawing.box(x, y, width, height, heading, color=GRAY, dashed=True)

    drawing.text(20, 28, "MirroredStrategy", bold=True)
    process(20, 40, 460, 112, "one process")
    for replica, x in enumerate((40, 285)):
        drawing.box(x, 74, 175, 62, f"replica {replica}", "half of the batch", color=ORANGE)
    drawing.arrow((215, 98), (283, 98))
    drawing.arrow((285, 118), (217, 118))
    drawing.text(250, 90, "sum", anchor="middle", color=GRAY)

    for x, heading, name, word in (
        (20, "MultiWorkerMirroredStrategy", "worker", "sum"),
        (530, "Horovod", "rank", "average"),
    ):
        y = 206 if name == "worker" else 28
        drawing.text(x, y, heading, bold=True)
        for number in (0, 1):
            left = x + 245 * number
            process(left, y + 12, 215, 112, f"process {number + 1}")
            drawing.box(left + 15, y + 46, 185, 62, f"{name} {number}", "half of the batch", color=ORANGE)
        drawing.arrow((x + 200, y + 70), (x + 258, y + 70))
        drawing.arrow((x + 260, y + 90), (x + 202, y + 90))
        drawing.text(x + 230, y + 142, f"gradients: {word}, over the network", anchor="middle", color=GRAY)

    drawing.text(530, 206, "ParameterServerStrategy", bold=True)
    drawing.box(530, 218, 130, 124, "coordinator", "hands out steps, waits for none")
    for number, y in enumerate((218, 286)):
        drawing.box(700, y, 130, 56, f"worker {number}", "a whole batch", color=ORANGE)
        drawing.arrow((660, y + 28), (698, y + 28))
        drawing.arrow((868, y + 18), (832, y + 18))
        drawing.arrow((830, y + 38), (868, y + 38))
    drawing.box(870, 218, 120, 124, "server", "keeps the weights, applies gradients", color=GREEN)
    drawing.text(765, 362, "four processes; nobody waits", anchor="middle", color=GRAY)
    return drawing


def data_parallel():
    """One step of data-parallel training on two ranks."""
    drawing = Drawing(
        1010,
        236,
        "One step on two ranks",
        "Each of two ranks has the same weights and its own shard of the data. It computes the gradient of its part of "
        "the batch. An all-reduce averages the two gradients, and each rank makes the same update.",
    )
    for rank, y in enumerate((40, 140)):
        drawing.text(20, y - 10, f"rank {rank}", bold=True)
        drawing.box(20, y, 190, 66, f"shard {rank}", "its half of the data", color=GRAY)
        drawing.box(270, y, 190, 66, "forward, backward", "same weights, own images", color=BLUE)
        drawing.arrow((210, y + 33), (268, y + 33))
        drawing.arrow((460, y + 33), (538, y + 33), label="gradient", at=(498, y + 25))
        drawing.box(800, y, 190, 66, "update", "same gradient, so the same weights", color=BLUE)
        drawing.arrow((730, y + 33), (798, y + 33), label="mean", at=(763, y + 25))
    drawing.box(
        540,
        40,
        190,
        166,
        "all-reduce",
        "the mean of both gradients\n\nhere the ranks wait for each other",
        color=ORANGE,
    )
    return drawing


def distances():
    """How far apart two PCIe devices are, in the words of a topology matrix."""
    drawing = Drawing(
        1010,
        386,
        "Distances between GPUs",
        "A server of two sockets, joined by a link. On socket 0, host bridge 0 leads to PCIe "
        "switches with two GPUs each, host bridge 1 to one GPU; socket 1 is the same. GPUs 0 "
        "and 1 share a switch: PIX. GPUs 1 and 2 are on two switches that meet in a third: PXB. "
        "GPUs 3 and 4 are behind two host bridges of one socket: NODE. GPUs 4 and 5 are on two "
        "sockets: SYS.",
    )
    for socket, left in ((0, 20), (1, 520)):
        drawing.box(left, 16, 470, 352, f"socket {socket}, NUMA node {socket}", color=GRAY)
        drawing.box(left + 15, 52, 290, 40, f"host bridge {2 * socket}")
        drawing.box(left + 320, 52, 135, 40, f"host bridge {2 * socket + 1}")
        first = 5 * socket
        drawing.box(left + 105, 118, 110, 40, "switch", color=GREEN)
        drawing.arrow((left + 160, 92), (left + 160, 116))
        for pair, x in ((0, left + 15), (1, left + 165)):
            drawing.box(x, 184, 140, 40, "switch", color=GREEN)
            drawing.arrow((left + 160, 158), (x + 70, 182))
            for gpu, y in ((2 * pair, x), (2 * pair + 1, x + 75)):
                drawing.box(y, 250, 65, 40, f"GPU{first + gpu}", color=ORANGE)
                drawing.arrow((y + 32, 224), (y + 32, 248))
        drawing.box(left + 355, 250, 65, 40, f"GPU{first + 4}", color=ORANGE)
        drawing.arrow((left + 387, 92), (left + 387, 248))
    drawing.arrow((490, 34), (518, 34))
    drawing.arrow((520, 44), (492, 44))
    spans = (("PIX", 67, 142, 306), ("PXB", 142, 217, 322), ("NODE", 292, 407, 306), ("SYS", 407, 567, 338))
    for word, start, end, y in spans:
        drawing.arrow(
            (start, 292), (start, y), (end, y), (end, 292), label=word, at=(min((start + end) / 2, 462), y + 18)
        )
    return drawing


def exchanges(drawing, left, top, heading, distances, shares=("", "", "")):
    drawing.text(left, top, heading, bold=True)
    for step, (distance, share) in enumerate(zip(distances, shares, strict=True)):
        y = top + 46 + 56 * step
        drawing.ranks(left + 28, y)
        drawing.text(left + 318, y + 4, share, color=GRAY)
        for rank in range(8):
            if rank < rank ^ distance:
                drawing.arc(left + 28, y, rank, rank ^ distance, both=True, lift=0.7)


def collectives():
    """Who sends to whom in a ring, in recursive doubling, in a tree, and in halving and doubling."""
    drawing = Drawing(
        760,
        530,
        "Four ways to reduce over eight ranks",
        "Ring: each rank sends to the next, 14 steps of an eighth of the data. Recursive doubling: "
        "in step 1 ranks at distance 1 exchange, then at distance 2, then at 4; 3 steps of all the "
        "data. Tree: pairs of ranks add up toward rank 0 in 3 steps, then the sum goes back in 3 "
        "more, all of the data each. Halving and doubling: partners at distance 4 exchange a half each, "
        "at distance 2 a quarter, at distance 1 an eighth, and then the same backwards; 6 steps.",
    )

    drawing.text(20, 28, "ring", bold=True)
    drawing.ranks(36, 110)
    for rank in range(7):
        drawing.arc(36, 110, rank, rank + 1)
    drawing.arrow((36 + 266, 123), (36 + 266, 146), (36, 146), (36, 124))
    drawing.text(20, 204, "14 steps, ⅛ of the data each;", color=GRAY)
    drawing.text(20, 224, "all links work all the time", color=GRAY)

    exchanges(drawing, 392, 28, "recursive doubling", (1, 2, 4))
    drawing.text(392, 224, "3 steps, all of the data each", color=GRAY)

    drawing.text(20, 290, "tree, up (and down again)", bold=True)
    for step in range(3):
        y, distance = 336 + 56 * step, 2**step
        drawing.ranks(48, y)
        for rank in range(distance, 8, 2 * distance):
            drawing.arc(48, y, rank, rank - distance, lift=0.7)
    drawing.text(20, 494, "2 × 3 steps, all of the data each", color=GRAY)

    exchanges(drawing, 392, 290, "halving and doubling", (4, 2, 1), "½¼⅛")
    drawing.text(392, 494, "3 steps, then the same 3 backwards:", color=GRAY)
    drawing.text(392, 514, "as few bytes as the ring, in 6 steps", color=GRAY)
    return drawing


def hierarchy():
    """What crosses the cable between two hosts, by a ring and by parts."""
    drawing = Drawing(
        1010,
        300,
        "A ring over two hosts, and a hierarchy",
        "Left, a ring over ranks 0 and 1 on host A and ranks 2 and 3 on host B: the hop from 1 to "
        "2 and the hop from 3 to 0 cross the cable, each with 1.5 times the data. Right, "
        "hierarchical: inside each host the two ranks add up one half each; ranks 0 and 2 exchange "
        "the first halves, ranks 1 and 3 the second halves, so each direction of the cable carries "
        "the data once; then halves are gathered inside each host.",
    )
    for left, ring in ((20, True), (520, False)):
        drawing.text(left, 28, "ring" if ring else "hierarchical", bold=True)
        for host, x in (("host A", left), ("host B", left + 300)):
            drawing.box(x, 44, 170, 190, host, color=GRAY)
        ranks = (
            (0, left + 20, 80),
            (1, left + 20, 160),
            (2, left + 320, 160 if ring else 80),
            (3, left + 320, 80 if ring else 160),
        )
        for rank, x, y in ranks:
            drawing.box(x, y, 130, 54, f"rank {rank}", "¼ + ¼ + ¼ + ¼" if ring else "its half", color=BLUE)
        if ring:
            drawing.arrow((left + 85, 134), (left + 85, 158))
            drawing.arrow((left + 150, 187), (left + 318, 187), label="1½ × data", at=(left + 235, 180))
            drawing.arrow((left + 385, 160), (left + 385, 136))
            drawing.arrow((left + 320, 107), (left + 152, 107), label="1½ × data", at=(left + 235, 100))
        else:
            drawing.arrow((left + 75, 134), (left + 75, 158))
            drawing.arrow((left + 95, 160), (left + 95, 136))
            drawing.arrow((left + 375, 134), (left + 375, 158))
            drawing.arrow((left + 395, 160), (left + 395, 136))
            for y in (100, 180):
                drawing.arrow((left + 150, y), (left + 318, y), label="½ each way", at=(left + 235, y - 7))
                drawing.arrow((left + 320, y + 14), (left + 152, y + 14))
    drawing.text(20, 270, "cable: 1½ × the data in each direction", color=GRAY)
    drawing.text(520, 270, "cable: 1 × the data in each direction", color=GRAY)
    return drawing


def zero():
    """The parts that each of two ranks keeps and sends in ZeRO's stages."""
    drawing = Drawing(
        1010,
        330,
        "The stages of ZeRO on two ranks",
        "Each rank's weights, gradients and optimizer state as bars; half bars are one of two parts. "
        "Stage 0: both ranks keep all three whole, and all-reduce gradients. Stage 1: the state is in parts; ranks "
        "reduce-scatter gradients, update their part, and all-gather the weights. Stage 2: gradients are also in "
        "parts, and reduced layer by layer. Stage 3: all three are in parts; each layer's weights are gathered before "
        "its forward pass and again before its backward pass.",
    )
    kinds = (("weights", BLUE, 3), ("gradients", ORANGE, 2), ("state", GREEN, 1))
    sends = (
        "all-reduce gradients",
        "reduce-scatter gradients,\nall-gather weights",
        "the same, each layer's\ngradients at once",
        "all-gather weights twice,\nreduce-scatter gradients",
    )
    for stage, message in enumerate(sends):
        left = 20 + 248 * stage
        drawing.text(left, 28, f"stage {stage}" + (": data parallel" if not stage else ""), bold=True)
        for rank, top in ((0, 40), (1, 156)):
            drawing.text(left, top + 16, f"rank {rank}", color=GRAY)
            for row, (kind, color, first) in enumerate(kinds):
                parted, y = stage >= first, top + 24 + 28 * row
                drawing.bar(left, y, 220, 22, GRAY, filled=False)
                drawing.bar(left + 110 * (rank if parted else 0), y, 110 if parted else 220, 22, color)
                drawing.text(left + (110 * rank if parted else 0) + 8, y + 15, kind)
        for line, text in enumerate(message.splitlines()):
            drawing.text(left, 288 + 18 * line, text, color=GRAY)
    return drawing


def tensor():
    """A layer whose matrices are split over two ranks: the first by columns, the second by rows."""
    drawing = Drawing(
        1010,
        282,
        "Column and row split",
        "Both ranks have the whole input x. Rank 0 has the left columns of A and the upper rows of B, rank 1 the right "
        "columns and the lower rows. Each computes its half of the hidden units, relu of x times its columns, and "
        "multiplies it with its rows: a partial sum of y. One all-reduce adds the two, and both ranks have y. "
        "Backward, one all-reduce adds the two partial gradients of x.",
    )
    for rank, y in ((0, 30), (1, 150)):
        drawing.text(20, y + 10, f"rank {rank}", bold=True)
        drawing.box(20, y + 20, 90, 74, "x", "whole")
        drawing.text(122, y + 60, "×")
        drawing.bar(140, y + 20, 150, 74, GRAY, filled=False)
        drawing.bar(140 + 75 * rank, y + 20, 75, 74, ORANGE)
        drawing.text(150 + 75 * rank, y + 60, f"A, col {rank}")
        drawing.arrow((290, y + 57), (338, y + 57), label="relu", at=(312, y + 49))
        drawing.box(340, y + 20, 120, 74, "hidden", "its half", color=ORANGE)
        drawing.text(470, y + 60, "×")
        drawing.bar(490, y + 20, 110, 74, GRAY, filled=False)
        drawing.bar(490, y + 20 + 37 * rank, 110, 37, GREEN)
        drawing.text(512, y + 43 + 37 * rank, f"B, rows {rank}")
        drawing.arrow((600, y + 57), (648, y + 57))
        drawing.box(650, y + 20, 120, 74, "part of y", "a partial sum", color=GREEN)
        drawing.arrow((770, y + 57), (818, 147 + 20 * (rank - 0.5)))
    drawing.box(820, 100, 170, 94, "all-reduce", "y on both ranks;\nbackward: the\ngradient of x")
    drawing.text(20, 270, "no message until the end of the layer, then one each way", color=GRAY)
    return drawing


def pipeline():
    """Two stages of a pipeline, and the clock table of two microbatches."""
    drawing = Drawing(
        1010,
        222,
        "A pipeline of two stages and its clock table",
        "Left: rank 0 has layers 1 to 6, rank 1 layers 7 to 12. Outputs go from rank 0 to rank 1, gradients come back. "
        "Right, GPipe with two microbatches in six clock cycles: rank 0 does F0, F1, waits two cycles, does B0, B1; "
        "rank 1 waits one cycle, does F0, F1, B0, B1, and waits one cycle.",
    )
    drawing.text(20, 28, "layers in stages", bold=True)
    for rank, x in ((0, 20), (1, 270)):
        drawing.box(
            x, 56, 160, 92, f"stage {rank} (rank {rank})", f"layers {6 * rank + 1} to {6 * rank + 6},\nstate and all"
        )
    drawing.arrow((180, 88), (268, 88), label="outputs", at=(224, 80))
    drawing.arrow((270, 120), (182, 120), label="gradients", at=(224, 138))
    drawing.text(500, 28, "clock table: GPipe, two microbatches", bold=True)
    table = (("F0", "F1", "", "", "B0", "B1"), ("", "F0", "F1", "B0", "B1", ""))
    for rank, cells in enumerate(table):
        y = 56 + 50 * rank
        drawing.text(500, y + 28, f"stage {rank}")
        for cycle, cell in enumerate(cells):
            drawing.bar(560 + 70 * cycle, y, 66, 44, {"F": BLUE, "B": GREEN}.get(cell[:1], GRAY), filled=bool(cell))
            drawing.text(593 + 70 * cycle, y + 28, cell or "idle", anchor="middle", color=INK if cell else GRAY)
    drawing.text(560, 182, "clock cycles →", color=GRAY)
    drawing.text(500, 206, "F0: forward pass of microbatch 0; B0: its backward pass", color=GRAY)
    return drawing


def mesh():
    """Eight ranks as a mesh: data parallel down, tensor parallel across."""
    drawing = Drawing(
        1010,
        292,
        "A mesh of 2 × 4 ranks",
        "Two hosts with four ranks each: ranks 0 to 3 on host A, 4 to 7 on host B. The four ranks of a host form a "
        "tensor group: they see the same samples, split each layer, and all-reduce activations over fast links. Ranks "
        "0 and 4, 1 and 5, 2 and 6, 3 and 7 form data groups: they hold the same parts of the layers, see different "
        "samples, and average gradients over the network.",
    )
    for row, host in enumerate("AB"):
        y = 24 + 126 * row
        drawing.box(20, y, 700, 96, f"host {host}", color=GRAY, dashed=True)
        drawing.text(612, y + 22, f"sees samples {row + 1} of 2", anchor="end", color=GRAY)
        for column in range(4):
            drawing.box(40 + 170 * column, y + 34, 150, 52, f"rank {4 * row + column}", f"part {column + 1} of 4")
        for column in range(3):
            drawing.arrow((190 + 170 * column, y + 52), (208 + 170 * column, y + 52))
            drawing.arrow((210 + 170 * column, y + 70), (192 + 170 * column, y + 70))
    for column in range(4):
        drawing.arrow((112 + 170 * column, 110), (112 + 170 * column, 182))
        drawing.arrow((130 + 170 * column, 184), (130 + 170 * column, 112))
    drawing.text(750, 66, "across: a tensor group", bold=True, color=BLUE)
    drawing.text(750, 86, "activations in every layer,")
    drawing.text(750, 104, "over the fast links of a host")
    drawing.text(750, 150, "down: a data group", bold=True, color=ORANGE)
    drawing.text(750, 170, "gradients once in a step,")
    drawing.text(750, 188, "over the network")
    drawing.text(20, 280, "data × tensor = 2 × 4 = 8 ranks; a pipeline would be a third axis", color=GRAY)
    return drawing


DRAWINGS = {
    "course_map.svg": course_map,
    "run_flow.svg": run_flow,
    "launch.svg": launch,
    "batch_norm.svg": batch_norm,
    "descent.svg": descent,
    "ring.svg": ring,
    "distances.svg": distances,
    "collectives.svg": collectives,
    "hierarchy.svg": hierarchy,
    "strategies.svg": strategies,
    "data_parallel.svg": data_parallel,
    "zero.svg": zero,
    "tensor.svg": tensor,
    "pipeline.svg": pipeline,
    "mesh.svg": mesh,
}


def main():
    for name, draw in DRAWINGS.items():
        (HERE / name).write_text(draw().svg(), encoding="utf-8")
        print(f"images/{name}")


if __name__ == "__main__":
    main()

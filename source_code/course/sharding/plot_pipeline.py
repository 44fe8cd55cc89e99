"""The figure of a pipeline's schedule: a table of clock cycles."""

from matplotlib.patches import Rectangle

from course.sharding import pipeline
from course.shared.picture import COLOURS, Picture, styled

FORWARD, BACKWARD = COLOURS[0], COLOURS[2]


@styled
def plot_cycles(**schedules) -> Picture:
    """Draw schedules, one below the other: a row for each stage, forward passes blue and backward passes green.

    ``plot_cycles(GPipe=table, other=table)``; tables are those of `course.sharding.pipeline`.
    """
    cycles = max(len(schedule[0]) for schedule in schedules.values())
    heights = [len(schedule) for schedule in schedules.values()]
    picture = Picture(10.0, 0.8 * len(schedules) + 0.42 * sum(heights))
    panels = picture.subplots(len(schedules), 1, squeeze=False, height_ratios=heights)[:, 0]
    texts = []
    for panel, (name, schedule) in zip(panels, schedules.items(), strict=True):
        for stage, row in enumerate(schedule):
            for cycle, cell in enumerate(row):
                if cell:
                    colour = FORWARD if cell[0] == "F" else BACKWARD
                    panel.add_patch(Rectangle((cycle, stage), 0.94, 0.9, color=colour, alpha=0.8))
                    panel.text(cycle + 0.47, stage + 0.45, cell[1], ha="center", va="center", color="white", fontsize=9)
        about = (
            f"{len(schedule[0])} cycles, {100 * pipeline.bubble(schedule):.0f} % idle, "
            f"activations of {max(pipeline.alive(schedule))} microbatches"
        )
        panel.set(xlim=(0, cycles), ylim=(len(schedule), 0), title=f"{name}: {about}")
        panel.set_yticks([stage + 0.45 for stage in range(len(schedule))], [f"stage {k}" for k in range(len(schedule))])
        panel.grid(visible=False)
        texts.append(f"{name}: {about}")
    panels[-1].set_xlabel("clock cycle; the number is the microbatch, forward blue, backward green")
    picture.alt = f"Schedules of {len(schedules[next(iter(schedules))])} stages. {'; '.join(texts)}."
    return picture

# Right and wrong answers to the questions of lesson 3c: tests/grading/test_variants.py reads them.

# %% q03_pays right
# what is saved is more than what is added: `many < whole_s` -> `whole_s - part_s > many - part_s`

# %% q03_pays wrong
# the latency once: `rounds * (alpha_s + size_bytes / (ranks * bandwidth))` ->
#     `bool(rounds) * 2 * alpha_s + rounds * size_bytes / (ranks * bandwidth)`
# one rank exchanges with itself: `2 * (ranks - 1)` -> `max(1, 2 * (ranks - 1))`
# slower pays: `many < whole_s` -> `many > whole_s`

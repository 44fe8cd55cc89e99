# Right and wrong answers to the questions of lesson 3c: tests/grading/test_variants.py reads them.

# %% q03_pays right
# step by step round the ring: `rounds * (alpha_s + size_bytes / (ranks * bandwidth))` ->
#     `sum(alpha_s + size_bytes / ranks / bandwidth for _ in range(rounds))`
# what is saved is more than what is added: `many < whole_s` -> `whole_s - part_s > many - part_s`

# %% q03_pays wrong
# the latency once: `rounds * (alpha_s + size_bytes / (ranks * bandwidth))` ->
#     `bool(rounds) * 2 * alpha_s + rounds * size_bytes / (ranks * bandwidth)`
# one rank exchanges with itself: `2 * (ranks - 1)` -> `max(1, 2 * (ranks - 1))`
# parts of whole bytes: `size_bytes / (ranks * bandwidth)` -> `size_bytes // ranks / bandwidth`
# slower pays: `many < whole_s` -> `many > whole_s`
# two ranks: `(part_s, size_bytes, ranks` -> `(part_s, size_bytes, 2`
# by a millisecond at least: `many < whole_s` -> `many <= whole_s - 1e-3`

"""Fewer bytes between simulated ranks: what is sent and left is the whole, and forgetting it costs most."""

import numpy as np

from course import messages


def test_what_is_sent_and_what_is_left_are_the_whole():
    gradient, before = np.random.default_rng(8).normal(size=(2, 40))
    for k in (1, 7, 40):
        sent, left = messages.largest(gradient, before, k)
        assert np.count_nonzero(sent) == k
        np.testing.assert_allclose(sent + left, gradient + before)
        assert np.abs(left).max() <= np.abs(sent[sent != 0]).min()


def test_error_feedback_is_what_lets_few_values_reach_the_best_weights():
    for seed in range(3):
        whole, few, forgotten = (
            messages.distance(compress, seed=seed)
            for compress in (messages.everything, messages.largest, messages.forgetful(messages.largest))
        )
        assert whole < few < 3 * whole and forgotten > 20 * few

"""What trainings need on one of the course's two stacks only: LAMB, and Keras' backend in Horovod's callbacks.

TensorFlow 2.15 has LAMB from tensorflow-addons, which has ended there; on later ones it is ours. A test holds that
both take the same steps.
"""

import warnings
from importlib.util import find_spec

import tensorflow as tf

EXCLUDED = ("bias", "gamma", "beta")  # in names of variables that take neither decay nor a rate of their own


class LAMB(tf.keras.optimizers.legacy.Optimizer):
    """Layer-wise adaptive moments (You et al. 2020, arXiv:1904.00962, algorithm 2), with φ the identity.

    For a layer's weights w, gradient g, the global rate η and step t::

        m ← β₁ m + (1 − β₁) g
        v ← β₂ v + (1 − β₂) g²
        r = m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε) + λ w
        w ← w − η ‖w‖ / ‖r‖ r

    Variables with one of `EXCLUDED` in their names take λ = 0 and no ‖w‖ / ‖r‖; so does, of the latter, a layer of
    zeros or one whose r is zero.
    """

    def __init__(self, learning_rate, weight_decay=0.0, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
        super().__init__("LAMB")
        self._set_hyper("learning_rate", learning_rate)
        self.weight_decay, self.beta_1, self.beta_2, self.epsilon = weight_decay, beta_1, beta_2, epsilon

    def _create_slots(self, var_list):
        for slot in ("m", "v"):
            for variable in var_list:
                self.add_slot(variable, slot)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        dtype = var.dtype.base_dtype
        step = tf.cast(self.iterations + 1, dtype)
        beta_1, beta_2 = tf.constant(self.beta_1, dtype), tf.constant(self.beta_2, dtype)  # rounded once for all
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m.assign(beta_1 * m + (1 - beta_1) * grad)
        v.assign(beta_2 * v + (1 - beta_2) * tf.square(grad))
        unbiased_m, unbiased_v = m / (1 - beta_1**step), v / (1 - beta_2**step)
        update = unbiased_m / (tf.sqrt(unbiased_v) + self.epsilon)
        rate = self._get_hyper("learning_rate", dtype)
        if not any(part in var.name for part in EXCLUDED):
            update = update + self.weight_decay * var
            of_weights, of_update = tf.norm(var), tf.norm(update)
            rate = rate * tf.where((of_weights > 0) & (of_update > 0), of_weights / of_update, 1.0)
        return var.assign_sub(rate * update)


def lamb(learning_rate, weight_decay):
    """Return LAMB for kernels, and Adam for all else: tensorflow-addons' where that is installed, else ours."""
    if find_spec("tensorflow_addons") is None:
        return LAMB(learning_rate, weight_decay)
    with warnings.catch_warnings():
        # The package says on import that it has ended. It is pinned, and LAMB is all that we use.
        warnings.filterwarnings("ignore", message=r"\s*TensorFlow Addons", category=UserWarning)
        from tensorflow_addons.optimizers import LAMB as ADDONS_LAMB
    return ADDONS_LAMB(
        learning_rate,
        weight_decay=weight_decay,
        exclude_from_weight_decay=list(EXCLUDED),
        exclude_from_layer_adaptation=list(EXCLUDED),
    )


def horovod_callbacks():
    """Return Horovod's callbacks for Keras, which read and write rates and metrics through the Keras that trains."""
    from horovod.tensorflow.keras import callbacks

    callbacks.K = tf.keras.backend  # on later TensorFlows it would be Keras 3's
    return callbacks

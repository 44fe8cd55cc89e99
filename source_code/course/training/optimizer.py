"""The optimizers that recipes name, made ready for a custom loop; LARS among them.

All are of Keras' older optimizer family, to which LAMB belongs (`course.training.compat`): one family means
one way to set the rate, to broadcast the slots and to save them.

Weight decay has one meaning in every arm: the same coefficient on the same variables (kernels,
never biases or norm parameters), entering where the optimizer's own paper puts it: added to the
gradient in SGD, in equation 6 of LARS, added to the update in LAMB (algorithm 2). It is off by
default, so that every arm minimises the very same loss.
"""

import tensorflow as tf

from course.training.compat import lamb
from course.training.recipes import SettingError

MOMENTUM = 0.9
# The paper's 0.001 goes with global rates of 10 and more, at which biases, which have no layer-wise
# rate, would be torn away. With 0.02 the global rate is about as large as plain SGD's.
TRUST = 0.02

_legacy = tf.keras.optimizers.legacy


def is_adapted(variable):
    """Tell whether weight decay and layer-wise rates apply: to kernels only.

    Biases and the scale and shift of a norm have few elements and start at 0 or 1, so a rate in
    proportion to their norm means nothing; the authors' own code leaves them out.
    """
    return "kernel" in variable.name


class LARS(_legacy.Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, arXiv:1708.03888).

    For a layer's weights w, gradient g, the global rate γ and momentum m (equation 6,
    algorithm 1)::

        λ = η ‖w‖ / (‖g‖ + β ‖w‖)
        v ← m v + γ λ (g + β w)
        w ← w − v

    Biases and norm parameters take λ = 1 and β = 0: plain momentum at the global rate. `trust` is η, how far a layer
    may move in one step as a share of its norm, and `weight_decay` is β.
    """

    def __init__(self, learning_rate, momentum=MOMENTUM, trust=TRUST, weight_decay=0.0):
        super().__init__("LARS")
        self._set_hyper("learning_rate", learning_rate)
        self.momentum, self.trust, self.weight_decay = momentum, trust, weight_decay

    def _create_slots(self, var_list):
        for variable in var_list:
            self.add_slot(variable, "momentum")

    def _resource_apply_dense(self, grad, var, apply_state=None):
        rate = self._get_hyper("learning_rate", var.dtype.base_dtype)
        if is_adapted(var):
            weight_norm, grad_norm = tf.norm(var), tf.norm(grad)
            scale = grad_norm + self.weight_decay * weight_norm
            # A layer of zeros, or one without a gradient, has no direction to scale by.
            ratio = tf.where(
                (weight_norm > 0) & (scale > 0),
                self.trust * weight_norm / tf.maximum(scale, tf.keras.backend.epsilon() ** 2),
                1.0,
            )
            rate = rate * ratio
            grad = grad + self.weight_decay * var
        velocity = self.get_slot(var, "momentum")
        velocity.assign(self.momentum * velocity + rate * grad)
        return var.assign_sub(velocity)


class _DecayedGradient:
    """Adds weight decay to the kernels' gradients, for optimizers that leave it to the loss."""

    def __init__(self, *args, weight_decay=0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self._weight_decay = weight_decay

    def _resource_apply_dense(self, grad, var, apply_state=None):
        if self._weight_decay and is_adapted(var):
            grad = grad + self._weight_decay * var
        return super()._resource_apply_dense(grad, var, apply_state)


class _SGD(_DecayedGradient, _legacy.SGD):
    pass


class _Adam(_DecayedGradient, _legacy.Adam):
    pass


_MAKERS = {
    "sgd": lambda rate, decay, momentum, _: _SGD(rate, momentum, nesterov=momentum > 0, weight_decay=decay),
    "adam": lambda rate, decay, *_: _Adam(rate, weight_decay=decay),
    "lars": lambda rate, decay, momentum, trust: LARS(rate, momentum, trust, decay),
    "lamb": lambda rate, decay, *_: lamb(rate, decay),
}


def make(name, learning_rate, variables, weight_decay=0.0, momentum=None, trust=None):
    """Return an optimizer whose slots exist already.

    Horovod broadcasts the slots before the first step, and a checkpoint fills them: so they are
    made here and not, as Keras would, during the first step.

    The rate is that of the first step; assign to ``.learning_rate`` later. `momentum`, 0.9, is for "sgd" (Nesterov's,
    unless it is 0) and "lars", and `trust`, 0.02, for "lars".
    """
    if name not in _MAKERS:
        raise SettingError(f"there is no optimizer {name!r}; the optimizers are: {', '.join(_MAKERS)}")
    momentum = MOMENTUM if momentum is None else momentum
    optimizer = _MAKERS[name](learning_rate, weight_decay, momentum, TRUST if trust is None else trust)
    optimizer._create_all_weights(variables)  # the older family has no public way
    return optimizer

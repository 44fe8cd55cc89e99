"""The recipes' optimizers for custom loops, including LARS and LAMB.

All belong to Keras' legacy optimizers, like tensorflow-addons' LAMB, so there is one way to set the rate and to
broadcast and save the slots.

Weight decay applies to the same variables in every configuration (kernels, never biases or norm parameters), in the way
of each optimizer's paper: added to the gradient in SGD, as in equation 6 in LARS, added to the update in LAMB
(algorithm 2). It is off by default, so every configuration minimizes the same loss.
"""

import warnings
from importlib.util import find_spec

import tensorflow as tf

from course.training.recipes import OPTIMIZERS, SettingError

MOMENTUM = 0.9
# The paper's 0.001 needs global rates above 10, at which biases, which have no layer-wise rate, would diverge. With
# 0.02, the global rate is about as large as plain SGD's.
TRUST = 0.02

_legacy = tf.keras.optimizers.legacy


def is_adapted(variable):
    """Return whether weight decay and layer-wise rates apply: to kernels only.

    Biases and the scale and shift of a norm have few elements and start at 0 or 1, so a rate proportional to their norm
    is meaningless; the authors' code leaves them out.
    """
    return "kernel" in variable.name


class _LayerWise(_legacy.Optimizer):
    """Base of optimizers with a rate per layer; `SLOTS` names the slots of each variable."""

    SLOTS: tuple[str, ...]

    def __init__(self, learning_rate, weight_decay=0.0):
        super().__init__(type(self).__name__)
        self._set_hyper("learning_rate", learning_rate)
        self.weight_decay = weight_decay

    def _create_slots(self, var_list):
        for slot in self.SLOTS:
            for variable in var_list:
                self.add_slot(variable, slot)


def _ratio(one, other):
    """Return one / other, or 1 if the layer's weights or gradient are zero."""
    return tf.where((one > 0) & (other > 0), one / other, 1.0)


class LARS(_LayerWise):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, arXiv:1708.03888).

    For a layer's weights w, gradient g, the global rate γ and momentum m (equation 6,
    algorithm 1)::

        λ = η ‖w‖ / (‖g‖ + β ‖w‖)
        v ← m v + γ λ (g + β w)
        w ← w − v

    Biases and norm parameters take λ = `bias_rate` and β = 0: plain momentum, at the global rate if `bias_rate` is 1.
    `trust` is η, how far a layer may move in one step as a share of its norm, and `weight_decay` is β.
    """

    SLOTS = ("momentum",)

    def __init__(self, learning_rate, momentum=MOMENTUM, trust=TRUST, weight_decay=0.0, bias_rate=1.0):
        super().__init__(learning_rate, weight_decay)
        self.momentum, self.trust, self.bias_rate = momentum, trust, bias_rate

    def _resource_apply_dense(self, grad, var, apply_state=None):
        rate = self._get_hyper("learning_rate", var.dtype.base_dtype)
        if is_adapted(var):
            weight_norm = tf.norm(var)
            rate = rate * _ratio(self.trust * weight_norm, tf.norm(grad) + self.weight_decay * weight_norm)
            grad = grad + self.weight_decay * var
        else:
            rate = rate * self.bias_rate
        velocity = self.get_slot(var, "momentum")
        velocity.assign(self.momentum * velocity + rate * grad)
        return var.assign_sub(velocity)


class LAMB(_LayerWise):
    """Layer-wise adaptive moments (You et al. 2020, arXiv:1904.00962, algorithm 2), with φ the identity.

    For a layer's weights w, gradient g, the global rate η and step t::

        m ← β₁ m + (1 − β₁) g
        v ← β₂ v + (1 − β₂) g²
        r = m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε) + λ w
        w ← w − η ‖w‖ / ‖r‖ r

    Biases and norm parameters take λ = 0 and no ‖w‖ / ‖r‖: Adam.
    """

    SLOTS = ("m", "v")
    BETAS, EPSILON = (0.9, 0.999), 1e-6

    def _resource_apply_dense(self, grad, var, apply_state=None):
        dtype = var.dtype.base_dtype
        step = tf.cast(self.iterations + 1, dtype)
        beta_1, beta_2 = (tf.constant(beta, dtype) for beta in self.BETAS)  # rounded once for all
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m.assign(beta_1 * m + (1 - beta_1) * grad)
        v.assign(beta_2 * v + (1 - beta_2) * tf.square(grad))
        update = m / (1 - beta_1**step) / (tf.sqrt(v / (1 - beta_2**step)) + self.EPSILON)
        rate = self._get_hyper("learning_rate", dtype)
        if is_adapted(var):
            update = update + self.weight_decay * var
            rate = rate * _ratio(tf.norm(var), tf.norm(update))
        return var.assign_sub(rate * update)


def lamb(learning_rate, weight_decay=0.0):
    """Return tensorflow-addons' LAMB if installed (up to TensorFlow 2.15), otherwise ours.

    A test checks that both take the same steps.
    """
    if find_spec("tensorflow_addons") is None:
        return LAMB(learning_rate, weight_decay)
    with warnings.catch_warnings():
        # Hide the package's end-of-life warning. It is pinned, and we use only LAMB.
        warnings.filterwarnings("ignore", message=r"\s*TensorFlow Addons", category=UserWarning)
        from tensorflow_addons.optimizers import LAMB as ADDONS_LAMB
    excluded = ["bias", "gamma", "beta"]  # variables without `is_adapted`
    return ADDONS_LAMB(
        learning_rate,
        weight_decay=weight_decay,
        exclude_from_weight_decay=excluded,
        exclude_from_layer_adaptation=excluded,
    )


class _DecayedGradient:
    """Mix-in that adds weight decay to the kernels' gradients."""

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


def sgd(learning_rate, weight_decay=0.0, momentum=MOMENTUM):
    """Return SGD, with Nesterov's momentum unless it is 0."""
    return _SGD(learning_rate, momentum, nesterov=momentum > 0, weight_decay=weight_decay)


def adam(learning_rate, weight_decay=0.0):
    return _Adam(learning_rate, weight_decay=weight_decay)


def make(name, learning_rate, variables, weight_decay=0.0, **options):
    """Return the optimizer registered under a name, with initialized slots.

    Horovod broadcasts the slots before the first step, and checkpoints restore them, so they are created here and not
    in the first step, as Keras would.

    `learning_rate` is for the first step; assign to ``.learning_rate`` later. `options` are those that the optimizer
    fits: ``momentum``, 0.9, for "sgd" and "lars"; ``trust``, 0.02, and ``bias_rate``, 1, for "lars".
    """
    if name not in OPTIMIZERS:
        raise SettingError(f"there is no optimizer {name!r}; the optimizers are: {', '.join(OPTIMIZERS)}")
    optimizer = globals()[OPTIMIZERS[name].make](learning_rate, weight_decay=weight_decay, **options)
    optimizer._create_all_weights(variables)  # legacy optimizers have no public method
    return optimizer

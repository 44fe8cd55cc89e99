import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from course.training.optimizer import LAMB, LARS, MOMENTUM, lamb, make
from course.training.recipes import OPTIMIZERS, SettingError


@pytest.fixture
def problem():
    """A kernel, a bias, a norm's scale, and five steps of gradients for them."""
    generator = np.random.default_rng(0)
    starts = {"conv/kernel": generator.normal(size=(3, 3, 4, 5)), "conv/bias": np.zeros(5), "norm/gamma": np.ones(5)}
    variables = [tf.Variable(value, name=name, dtype=tf.float32) for name, value in starts.items()]
    steps = [[generator.normal(size=value.shape) for value in starts.values()] for _ in range(5)]
    return list(starts.values()), variables, steps


def train(optimizer, variables, steps):
    for gradients in steps:
        optimizer.apply_gradients([(tf.constant(g, tf.float32), v) for g, v in zip(gradients, variables)])
    return [variable.numpy() for variable in variables]


def same(got, wanted, rtol=2e-5, atol=1e-6):
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol, atol)


def test_lars_matches_equation_6_of_its_paper(problem):
    weights, variables, steps = problem
    weights, rate, decay = [w.copy() for w in weights], 0.7, 0.01
    trust, momentum, bias_rate = 0.003, 0.5, 0.25
    speeds = [np.zeros_like(w) for w in weights]
    for gradients in steps:
        for index, gradient in enumerate(gradients):
            w, local = weights[index], bias_rate
            if index == 0:
                norm = np.linalg.norm(w)
                local = trust * norm / (np.linalg.norm(gradient) + decay * norm)
                gradient = gradient + decay * w
            speeds[index] = momentum * speeds[index] + rate * local * gradient
            weights[index] = w - speeds[index]
    settings = dict(momentum=momentum, trust=trust, bias_rate=bias_rate)
    same(train(make("lars", rate, variables, decay, **settings), variables, steps), weights)


@pytest.mark.parametrize("kind", [LARS, LAMB])
def test_zero_layer_or_gradient_stays_finite(kind):
    kernel = tf.Variable(tf.zeros([4]), name="kernel")
    assert np.all(np.isfinite(train(kind(0.5), [kernel], [[np.ones(4)]])))
    kernel.assign(tf.ones([4]))
    np.testing.assert_array_equal(train(kind(0.5), [kernel], [[np.zeros(4)]])[0], np.ones(4))


@pytest.mark.parametrize("make_lamb", [lamb, LAMB])
def test_lamb_matches_algorithm_2_of_its_paper(problem, make_lamb):
    weights, variables, steps = problem
    weights, rate, decay = [w.copy() for w in weights], 0.02, 0.01
    m, v = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for t, gradients in enumerate(steps, 1):
        for index, gradient in enumerate(gradients):
            m[index] = 0.9 * m[index] + 0.1 * gradient
            v[index] = 0.999 * v[index] + 0.001 * gradient**2
            r = m[index] / (1 - 0.9**t) / (np.sqrt(v[index] / (1 - 0.999**t)) + 1e-6)
            w = weights[index]
            if index == 0:
                r = r + decay * w
                r = r * np.linalg.norm(w) / np.linalg.norm(r)
            weights[index] = w - rate * r
    same(train(make_lamb(rate, decay), variables, steps), weights, rtol=5e-4, atol=1e-5)


def test_sgd_has_nesterov_momentum_and_decays_kernels_only(problem):
    weights, variables, steps = problem
    weights, rate, decay = [w.copy() for w in weights], 0.05, 0.1
    speeds = [np.zeros_like(w) for w in weights]
    for gradients in steps:
        for index, gradient in enumerate(gradients):
            if index == 0:
                gradient = gradient + decay * weights[index]
            speeds[index] = MOMENTUM * speeds[index] - rate * gradient
            weights[index] = weights[index] + MOMENTUM * speeds[index] - rate * gradient
    same(train(make("sgd", rate, variables, decay), variables, steps), weights)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_registered_optimizer_takes_the_options_that_it_fits(name):
    variable = tf.Variable(tf.ones([2, 2]), name="kernel")
    options = dict.fromkeys(OPTIMIZERS[name].fits, 0.5)
    optim = make(name, 0.25, [variable], weight_decay=0.0, **options)
    optim.apply_gradients([(tf.ones([2, 2]), variable)])
    assert float(optim.learning_rate) == 0.25 and np.all(variable.numpy() < 1)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weight_decay_changes_kernels_only(name):
    after = {}
    for decay in (0.0, 0.5):
        variables = [tf.Variable(tf.ones([2, 2]), name="kernel"), tf.Variable(tf.ones([2]), name="bias")]
        optim = make(name, 0.25, variables, weight_decay=decay)
        gradients = [tf.constant([[1.0, -2.0], [0.5, 1.0]]), tf.constant([1.0, -2.0])]
        optim.apply_gradients(zip(gradients, variables, strict=True))
        after[decay] = [variable.numpy() for variable in variables]
    (kernel, bias), (decayed, same_bias) = after[0.0], after[0.5]
    assert not np.array_equal(kernel, decayed) and np.array_equal(bias, same_bias)


def test_optimizer_that_is_not_registered_is_refused():
    with pytest.raises(SettingError, match="no optimizer 'lion'; the optimizers are: sgd"):
        make("lion", 0.1, [])

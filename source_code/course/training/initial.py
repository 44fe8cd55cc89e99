"""Initial weights of the course's network, for ranks that do not import TensorFlow.

python -m course.training.initial SEED CLASSES > weights.npz
"""

import io
import os
import subprocess
import sys

import numpy as np


def initial_weights(seed: int, classes: int) -> list[np.ndarray]:
    """Return Keras' initial weights of the network with group norm, in Keras' order and layout.

    Another process runs Keras, which takes as long as importing TensorFlow.
    """
    command = [sys.executable, "-m", "course.training.initial", str(seed), str(classes)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    file = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    with np.load(io.BytesIO(file)) as weights:
        return [weights[name] for name in weights.files]


def main():
    from course.training import models

    seed, classes = map(int, sys.argv[1:])
    np.savez(sys.stdout.buffer, *models.build("cnn", norm="group", seed=seed, classes=classes).get_weights())


if __name__ == "__main__":
    main()

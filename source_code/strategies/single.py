"""Train the course's network on one device, with Keras' Model.fit.

    ddl run --workers 1 strategies/single.py --epochs 2
    python source_code/strategies/single.py --steps 20        # no run folder

The files beside this one train the same network on the same pictures in the same order, each in
another way; `ddl.training.strategy` has what all of them share.
"""

from ddl.training import options

if __name__ == "__main__":
    config = options.way(__doc__)  # before the slow imports: a wrong option is refused at once

import tensorflow as tf

from ddl.training.strategy import MOMENTUM, Way


def main(config):
    way = Way(config)

    model = way.model()
    model.compile(
        optimizer=tf.keras.optimizers.SGD(way.rate(way.global_batch), MOMENTUM),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        way.dataset(),
        epochs=way.epochs,
        steps_per_epoch=way.steps_per_epoch,
        callbacks=[way.callback(model)],
        verbose=0,
    )
    way.finish(model)


if __name__ == "__main__":
    main(config)

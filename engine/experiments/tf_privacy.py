"""TensorFlow Privacy's optimiser, and the Keras that it needs.

TensorFlow Privacy 0.9.0 asks for TensorFlow below 2.16, since its package imports Estimator and Keras 2. Its optimiser
runs on later versions: it is imported from its submodule, and TensorFlow's Keras is the package ``tf_keras``, which is
Keras 2. Both settings must precede the first use of ``tf.keras``, so only this module imports either.
"""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
sys.skip_tf_privacy_import = True  # type: ignore[attr-defined]  # the package reads this and imports no submodule

import tf_keras as keras  # noqa: E402
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras import DPKerasSGDOptimizer  # noqa: E402

__all__ = ["DPKerasSGDOptimizer", "keras"]

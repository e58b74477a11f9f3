"""The fast back end: each layer of a tagger in compiled code (Numba); tests compare its gradients with TensorFlow's."""

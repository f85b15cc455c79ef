"""From a kernel to an estimate: a predictor is a model bound to its fit or device."""

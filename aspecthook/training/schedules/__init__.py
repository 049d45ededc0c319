"""Learning rates and momenta that follow a policy, and mmcv's configs of all hooks of a usual run."""

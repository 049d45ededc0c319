"""What `aspecthook train` runs: the training of a classifier of images, from a config to a report."""

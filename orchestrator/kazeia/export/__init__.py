"""From a checkpoint to a bundle. Importing this package, its options or its service imports no torch."""

"""What the tests stand on: stand-in bundles and runners, and test devices that real clients connect to."""

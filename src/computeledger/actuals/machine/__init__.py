"""Measuring this machine: kernels, micro-benchmarks, the fit of a profile, and its files."""

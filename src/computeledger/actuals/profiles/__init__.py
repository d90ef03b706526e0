"""Profiles of training steps: PyTorch's traces and summaries of Nsight Systems, each kernel in its class by name."""

"""Benchmarks: `python -m bench`. Peers and raw limits are measured in the same run, alternating with ours."""

"""A stand-in for the kubelet: it runs the pods of its nodes as processes, each in namespaces of its own.

Real are the kernel's parts (network, host name, process ids, mounts, users and capabilities) and what decides what an
engine sees: command, arguments, variables, volumes, probes, restarts, `preStop`, the grace period and the status. An
image is a view of this machine's own files with the programs of one environment first on PATH (`images.py`); a claim is
a directory; one file of names stands in for DNS. Limits of memory and processors are not enforced. Needs root.
"""

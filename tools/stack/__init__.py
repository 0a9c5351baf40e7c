"""The whole real stack as plain processes, on one machine, without a container engine.

A hub (API server, Crossplane core, provider-kubernetes, our function over mTLS) and a remote cluster (API
server, scheduler, controllers, kwok nodes with fake GPUs, LeaderWorkerSet, KServe), inside a network
namespace of their own.
"""

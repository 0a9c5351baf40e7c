"""Random histories of users, clusters and faults, judged by which user requested each object that runs.

Built on the simulator (bench/simulator): the real function in a control plane in small. What is added here: clusters on
which things fail, vanish and roll slowly; a core that dies between its writes, and answers that are late or asked for
twice; users of every kind, some of them hostile; and an auditor that knows what each has requested. A history is its
seed, and `mutants.py` holds the defects that must be found by it.
"""

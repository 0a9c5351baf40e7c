"""The parts of composites: each file has the names, the conditions and the composed resources of a part.

Some files are not parts. `part.py` defines what a part is. `placement.py` and `environment.py` define the inputs of all
parts of these composites. `requirements.py`, `references.py` and `outcome.py` have the functions that parts and
composers share. The rules that a part follows are in the packages below, and the list of the parts of a kind is in its
composer.
"""

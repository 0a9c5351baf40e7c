"""What composites consist of: one file for each part, with its names, its conditions and what it composes.

`part.py` has what every part has; the contexts, which all parts of one kind of composite share, are in `placement.py`
and `environment.py`. The rules that a part follows are in the packages below, and the list of the parts of a kind is in
its composer.
"""

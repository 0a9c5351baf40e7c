"""What composites consist of: each part has its names, its conditions and what it composes in one file.

Five files are no parts. `part.py` has what every part has. `placement.py` and `environment.py` have what all parts of
these composites read. `requirements.py` and `outcome.py` have what parts and composers share. The rules that a part
follows are in the packages below, and the list of the parts of a kind is in its composer.
"""

"""What a composite records in its status and reads again: each file has the record, its parser and its builder.

A record is read by the next call for the same composite, and by the composites that require it. A part of a composite
that has to remember something has a record here, and a field of that record in `Placement` or `CacheEntry`.
"""

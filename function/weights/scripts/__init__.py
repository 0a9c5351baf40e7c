"""The scripts that run in the pods of a download Job, in the initializer's image: the standard library only."""

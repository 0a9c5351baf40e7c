"""Anything anywhere: in requests to the function, and in the directories and repositories of the download script."""

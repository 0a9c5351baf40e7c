"""What was observed of the remote objects, as data: what state they are in, and how well they are."""

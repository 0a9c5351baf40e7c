"""What stays and what goes: everything that leaves `desired` leaves it here, or in the decision's `dropped`."""

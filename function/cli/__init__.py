"""`kubectl modelplane`: what would be decided, what was decided and why, by the composers that the controller runs."""

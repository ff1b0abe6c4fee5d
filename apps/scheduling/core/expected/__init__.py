"""Expected performance of a job and of its neighbours: the default policy."""

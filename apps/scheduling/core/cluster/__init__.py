"""An agent's copy of the cluster, its updates, and the conflicts of its commits."""

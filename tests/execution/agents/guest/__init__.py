"""Tasks of an agent in a virtual machine whose only control groups are of version 2."""

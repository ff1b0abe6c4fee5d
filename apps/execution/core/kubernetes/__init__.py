"""Pods and nodes of Kubernetes as values, and what Berth does with them."""

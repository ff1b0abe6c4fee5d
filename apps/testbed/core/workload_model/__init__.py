"""Models of workloads: arrival processes and classes of jobs, fitted or from the papers."""

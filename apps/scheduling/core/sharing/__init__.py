"""What projects may use: quotas, fair share and ceilings of cost."""

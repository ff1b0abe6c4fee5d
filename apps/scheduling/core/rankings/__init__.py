"""Rankings of servers by request signature, kept between decisions, in compiled code."""
